"""Carry out the decisions of the state machines of a handover, one event after the other.

A thin shell without threads: its owner calls :meth:`hear` with events and the time. An instruction
with an immediate answer (a record written, a boundary found) is answered before the next event is
processed. A log line that cannot be written is kept until the next one: the log is for people, and
a full disk must not end a query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from elastream.handover.events import (
    Activate,
    BoundaryFound,
    BoundaryRefused,
    Clock,
    Connect,
    Disconnect,
    Event,
    Expect,
    FindBoundary,
    FirstSeen,
    GoOn,
    Halt,
    Halted,
    HaltFailed,
    Instruction,
    Keep,
    KeepFailed,
    Kept,
    LastWindowProduced,
    LogNote,
    Look,
    ReleaseBarrier,
    Send,
    StopAfter,
    Timing,
)
from elastream.handover.ledger import Note, Record
from elastream.handover.messages import Message
from elastream.handover.model import QueryShape
from elastream.handover.origin import OriginMachine, origin_after, origin_step
from elastream.handover.phases import Committed
from elastream.handover.ports import OriginQuery, RecordStore, TargetQuery
from elastream.handover.target import TargetMachine, target_after, target_step
from elastream.model.errors import ElastreamError

_Machine = TypeVar("_Machine", OriginMachine, TargetMachine)


class _Driver(ABC, Generic[_Machine]):
    """What both sides share: records, messages and log lines."""

    machine: _Machine

    def __init__(
        self,
        records: RecordStore,
        send: Callable[[Message], None],
        log: Callable[[Note], None],
    ) -> None:
        self._records, self._send, self._log = records, send, log
        self._unwritten: deque[Note] = deque()

    def hear(self, event: Event) -> None:
        """Process one event, and all that follows from it."""
        events = deque([event])
        while events:
            self.machine, instructions = self._step(events.popleft())
            events.extend(self._carry_out(instructions))
        self._write_notes()

    @abstractmethod
    def _step(self, event: Event) -> tuple[_Machine, tuple[Instruction, ...]]: ...

    @abstractmethod
    def _ask(self, instruction: Instruction) -> Event | None:
        """Run the instruction on the side's own query; return its answer, if there is one."""

    def _carry_out(self, instructions: tuple[Instruction, ...]) -> list[Event]:
        answers: list[Event] = []
        for instruction in instructions:
            match instruction:
                case Send(message):
                    self._send(message)
                case LogNote(note):
                    self._unwritten.append(note)
                    self._write_notes()
                case Keep(record):
                    answers.append(_kept(self._records, record))
                case _:
                    answer = self._ask(instruction)
                    answers += [] if answer is None else [answer]
        return answers

    def _write_notes(self) -> None:
        while self._unwritten:
            try:
                self._log(self._unwritten[0])
            except OSError:
                return
            self._unwritten.popleft()


class OriginDriver(_Driver[OriginMachine]):
    """Hands over a running query."""

    def __init__(
        self,
        query: OriginQuery,
        shape: QueryShape,
        term: str,
        records: RecordStore,
        *,
        send: Callable[[Message], None],
        log: Callable[[Note], None],
        timing: Timing | None = None,
    ) -> None:
        super().__init__(records, send, log)
        self._query = query
        self.machine, first = origin_after(shape, term, records.read(), timing)
        self._carry_out(first)

    def hear(self, event: Event) -> None:
        """Process one event, and all that follows from it."""
        super().hear(event)
        phase = self.machine.phase
        is_waiting = isinstance(phase, Committed) and phase.finished_ms is None
        if isinstance(event, Clock) and is_waiting and self._query.is_finished():
            super().hear(LastWindowProduced())

    def _step(self, event: Event) -> tuple[OriginMachine, tuple[Instruction, ...]]:
        return origin_step(self.machine, event)

    def _ask(self, instruction: Instruction) -> Event | None:
        match instruction:
            case FindBoundary(whole_from):
                try:
                    boundary = self._query.find_boundary(whole_from)
                except ElastreamError as error:
                    return BoundaryRefused(str(error))
                return None if boundary is None else BoundaryFound(boundary)
            case ReleaseBarrier():
                self._query.release()
            case StopAfter(boundary):
                self._query.stop_after(boundary)
            case Halt():
                try:
                    self._query.halt()
                except ElastreamError as error:
                    return HaltFailed(str(error))
                return Halted()
            case GoOn():
                self._query.go_on()
        return None


class TargetDriver(_Driver[TargetMachine]):
    """Takes a query over."""

    def __init__(
        self,
        query: TargetQuery,
        shape: QueryShape,
        handover: str,
        records: RecordStore,
        *,
        send: Callable[[Message], None],
        log: Callable[[Note], None],
        timing: Timing | None = None,
    ) -> None:
        super().__init__(records, send, log)
        self._query = query
        self.machine, first = target_after(shape, handover, records.read(), timing)
        self._carry_out(first)

    def _step(self, event: Event) -> tuple[TargetMachine, tuple[Instruction, ...]]:
        return target_step(self.machine, event)

    def _ask(self, instruction: Instruction) -> Event | None:
        match instruction:
            case Connect():
                self._query.connect()
            case Look():
                seen = self._query.first_seen()
                return None if seen is None else FirstSeen(seen)
            case Expect(boundary):
                try:
                    self._query.expect(boundary)
                except ElastreamError as error:
                    return BoundaryRefused(str(error))
            case Activate(boundary):
                self._query.activate(boundary)
            case Disconnect():
                self._query.disconnect()
        return None


def _kept(records: RecordStore, record: Record) -> Event:
    try:
        records.write(record)
    except OSError as error:
        return KeepFailed(error.strerror or str(error))
    return Kept(record)
