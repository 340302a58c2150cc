"""Carries out what the machines of a handover decide, one event after the other.

A thin shell without threads: whoever owns it calls :meth:`hear` with what arrives and with the
time. An instruction that is answered at once (a record written, a boundary found) is answered
before the next event is heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from elastream.handover.events import (
    Activate,
    BoundaryFound,
    BoundaryRefused,
    Clock,
    Connect,
    Disconnect,
    Event,
    FindBoundary,
    FirstSeen,
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
from elastream.handover.origin import Committed, origin_after, origin_step
from elastream.handover.ports import OriginQuery, RecordStore, TargetQuery
from elastream.handover.target import target_after, target_step
from elastream.model.errors import ElastreamError
from elastream.model.handover import QueryShape

__all__ = ["OriginDriver", "TargetDriver"]


class OriginDriver:
    """Hands a running query over."""

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
        self._query, self._records, self._send, self._log = query, records, send, log
        self.machine, first = origin_after(shape, term, records.read(), timing)
        self._carry_out(first)

    def hear(self, event: Event) -> None:
        """Take one event, and all that follows from it."""
        self._hear(event)
        phase = self.machine.phase
        is_waiting = isinstance(phase, Committed) and not phase.finished
        if isinstance(event, Clock) and is_waiting and self._query.is_finished():
            self._hear(LastWindowProduced())

    def _hear(self, event: Event) -> None:
        events = deque([event])
        while events:
            self.machine, instructions = origin_step(self.machine, events.popleft())
            events.extend(self._carry_out(instructions))

    def _carry_out(self, instructions: tuple[Instruction, ...]) -> list[Event]:
        answers: list[Event] = []
        for instruction in instructions:
            match instruction:
                case Send(message):
                    self._send(message)
                case LogNote(note):
                    self._log(note)
                case Keep(record):
                    answers.append(_kept(self._records, record))
                case FindBoundary(whole_from):
                    try:
                        boundary = self._query.find_boundary(whole_from)
                    except ElastreamError as error:
                        answers.append(BoundaryRefused(str(error)))
                    else:
                        answers += [] if boundary is None else [BoundaryFound(boundary)]
                case ReleaseBarrier():
                    self._query.release()
                case StopAfter(boundary):
                    self._query.stop_after(boundary)
        return answers


class TargetDriver:
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
        self._query, self._records, self._send, self._log = query, records, send, log
        self.machine, first = target_after(shape, handover, records.read(), timing)
        self._carry_out(first)

    def hear(self, event: Event) -> None:
        """Take one event, and all that follows from it."""
        events = deque([event])
        while events:
            self.machine, instructions = target_step(self.machine, events.popleft())
            events.extend(self._carry_out(instructions))

    def _carry_out(self, instructions: tuple[Instruction, ...]) -> list[Event]:
        answers: list[Event] = []
        for instruction in instructions:
            match instruction:
                case Send(message):
                    self._send(message)
                case LogNote(note):
                    self._log(note)
                case Keep(record):
                    answers.append(_kept(self._records, record))
                case Connect():
                    self._query.connect()
                case Look():
                    seen = self._query.first_seen()
                    answers += [] if seen is None else [FirstSeen(seen)]
                case Activate(boundary):
                    self._query.activate(boundary)
                case Disconnect():
                    self._query.disconnect()
        return answers


def _kept(records: RecordStore, record: Record) -> Event:
    try:
        records.write(record)
    except OSError as error:
        return KeepFailed(error.strerror or str(error))
    return Kept(record)
