"""Carry out the decisions of the state machines of a handover, one event after the other.

A thin shell without threads: its owner calls :meth:`handle` with events and the time. An
instruction with an immediate answer (a record written, a boundary found) is answered before the
next event is processed. A log line that cannot be written is kept until the next one: the log is
for people, and a full disk must not end a query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from elastream.handover import events
from elastream.handover.ledger import Note, Record
from elastream.handover.messages import Message
from elastream.handover.model import Boundary, QueryShape, Timestamps
from elastream.handover.origin import Committed, OriginMachine, origin_after, origin_step
from elastream.handover.target import TargetMachine, target_after, target_step
from elastream.model.errors import ElastreamError


class OriginQuery(Protocol):
    """The running query that is handed over."""

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back all output beyond it; ``None`` if it is not known yet.

        Raises an ``ElastreamError`` if the query cannot be split.
        """

    def release(self) -> None:
        """Write the output that was held back, and continue as before."""

    def stop_after(self, boundary: Boundary) -> None:
        """Write the output below the boundary and drop the rest, now and after a restart."""

    def is_finished(self) -> bool:
        """Return whether all output below the boundary is written."""

    def halt(self) -> None:
        """End the query between two batches; raises an ``ElastreamError`` if one was cut."""

    def go_on(self) -> None:
        """Start the query again on its checkpoint, after a halt."""


class TargetQuery(Protocol):
    """The query that takes over."""

    def connect(self) -> None:
        """Start reading the inputs at their current position; write no output."""

    def first_seen(self) -> Timestamps | None:
        """Return from when on every row is seen, per input; ``None`` if an input had no row."""

    def expect(self, boundary: Boundary) -> None:
        """Raise an ``ElastreamError`` if the query cannot start at the boundary."""

    def activate(self, boundary: Boundary) -> None:
        """Write the output at or beyond the boundary, from the rows read since the connection."""

    def disconnect(self) -> None:
        """Stop reading; no output is ever written."""


class RecordStore(Protocol):
    """Keeps one record across crashes."""

    def write(self, record: Record) -> None:
        """Replace the record atomically; raises ``OSError`` if the old one is still there."""

    def read(self) -> Record | None:
        """Return the record; ``None`` if there is none."""


_Machine = TypeVar("_Machine", OriginMachine, TargetMachine)
_Query = TypeVar("_Query", OriginQuery, TargetQuery)


class _Driver(ABC, Generic[_Machine, _Query]):
    """What both sides share: records, messages and log lines."""

    machine: _Machine
    _query: _Query

    def __init__(
        self,
        query: _Query,
        shape: QueryShape,
        name: str,
        records: RecordStore,
        *,
        send: Callable[[Message], None],
        log: Callable[[Note], None],
        timing: events.Timing | None = None,
    ) -> None:
        """Continue from the record; ``name`` is that of this run or attempt."""
        self._query, self._records, self._send, self._log = query, records, send, log
        self._unwritten: deque[Note] = deque()
        self.machine, first = self._begin(shape, name, records.read(), timing or events.Timing())
        self._carry_out(first)

    def handle(self, event: events.Event) -> None:
        """Process one event, and all that follows from it."""
        waiting = deque([event])
        while waiting:
            self.machine, instructions = self._step(waiting.popleft())
            waiting.extend(self._carry_out(instructions))
        self._write_notes()

    @abstractmethod
    def _begin(
        self, shape: QueryShape, name: str, record: Record | None, timing: events.Timing, /
    ) -> tuple[_Machine, tuple[events.Instruction, ...]]: ...

    @abstractmethod
    def _step(self, event: events.Event) -> tuple[_Machine, tuple[events.Instruction, ...]]: ...

    @abstractmethod
    def _call_query(self, instruction: events.Instruction) -> events.Event | None:
        """Run the instruction on the side's own query; return its answer, if there is one."""

    def _carry_out(self, instructions: tuple[events.Instruction, ...]) -> list[events.Event]:
        answers: list[events.Event | None] = []
        for instruction in instructions:
            match instruction:
                case events.Send(message):
                    self._send(message)
                case events.LogNote(note):
                    self._unwritten.append(note)
                    self._write_notes()
                case events.Keep(record):
                    answers.append(_kept(self._records, record))
                case _:
                    answers.append(self._call_query(instruction))
        return [answer for answer in answers if answer is not None]

    def _write_notes(self) -> None:
        while self._unwritten:
            try:
                self._log(self._unwritten[0])
            except OSError:
                return
            self._unwritten.popleft()


class OriginDriver(_Driver[OriginMachine, OriginQuery]):
    """Hands over a running query."""

    _begin = staticmethod(origin_after)

    def handle(self, event: events.Event) -> None:
        """Process one event, and all that follows from it."""
        super().handle(event)
        phase = self.machine.phase
        is_waiting = isinstance(phase, Committed) and phase.finished_ms is None
        if isinstance(event, events.Clock) and is_waiting and self._query.is_finished():
            super().handle(events.LastWindowProduced())

    def _step(self, event: events.Event) -> tuple[OriginMachine, tuple[events.Instruction, ...]]:
        return origin_step(self.machine, event)

    def _call_query(self, instruction: events.Instruction) -> events.Event | None:
        match instruction:
            case events.FindBoundary(whole_from):
                try:
                    boundary = self._query.find_boundary(whole_from)
                except ElastreamError as error:
                    return events.BoundaryRefused(str(error))
                return None if boundary is None else events.BoundaryFound(boundary)
            case events.ReleaseBarrier():
                self._query.release()
            case events.StopAfter(boundary):
                self._query.stop_after(boundary)
            case events.Halt():
                try:
                    self._query.halt()
                except ElastreamError as error:
                    return events.HaltFailed(str(error))
                return events.Halted()
            case events.GoOn():
                self._query.go_on()
        return None


class TargetDriver(_Driver[TargetMachine, TargetQuery]):
    """Takes a query over."""

    _begin = staticmethod(target_after)

    def _step(self, event: events.Event) -> tuple[TargetMachine, tuple[events.Instruction, ...]]:
        return target_step(self.machine, event)

    def _call_query(self, instruction: events.Instruction) -> events.Event | None:
        match instruction:
            case events.Connect():
                self._query.connect()
            case events.Look():
                seen = self._query.first_seen()
                return None if seen is None else events.FirstSeen(seen)
            case events.Expect(boundary):
                try:
                    self._query.expect(boundary)
                except ElastreamError as error:
                    return events.BoundaryRefused(str(error))
            case events.Activate(boundary):
                self._query.activate(boundary)
            case events.Disconnect():
                self._query.disconnect()
        return None


def _kept(records: RecordStore, record: Record) -> events.Event:
    try:
        records.write(record)
    except OSError as error:
        return events.KeepFailed(error.strerror or str(error))
    return events.Kept(record)
