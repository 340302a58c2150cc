"""A query's stay at one application: it begins there or is taken over, and is handed on.

Both roles of a handover, one after the other, for the same query. The application hands a query on
only while it owns its windows; until then what a next target asks is not answered, and the target
repeats it. The two roles have a record each, so neither overwrites what the other must remember:
where the stay began, and where it ends. After a crash the end is known before the beginning, since
the query must not write beyond the end from its first batch on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastream.handover.driver import (
    OriginDriver,
    OriginQuery,
    RecordStore,
    TargetDriver,
    TargetQuery,
)
from elastream.handover.events import Clock, Received, Timing
from elastream.handover.ledger import Note
from elastream.handover.messages import Message
from elastream.handover.model import QueryShape
from elastream.handover.target import Left, Owning

Send = Callable[[Message], None]


@dataclass(frozen=True, slots=True)
class Giving:
    """How a query is handed to the next application."""

    query: OriginQuery
    records: RecordStore
    send: Send


@dataclass(frozen=True, slots=True)
class Taking:
    """How a query is taken over from the previous application."""

    query: TargetQuery
    records: RecordStore
    send: Send


class Stay:
    """The drivers of one stay; its owner passes messages and the time."""

    def __init__(
        self,
        shape: QueryShape,
        *,
        giving: Giving | None,
        taking: Taking | None = None,
        name: Callable[[], str],
        log: Callable[[Note], None],
        timing: Timing,
    ) -> None:
        """Continue from the records; without ``taking`` the query begins here.

        Without ``giving`` it is not handed on. ``name`` returns a new name for each role.
        """
        self._shape, self._giving, self._name = shape, giving, name
        self._log, self._timing = log, timing
        self.origin: OriginDriver | None = None
        """``None`` until the query is this application's."""
        self.target: TargetDriver | None = None
        """``None`` if the query began here."""
        if taking is None or _owns(taking.records):
            self._begin_giving()
        if taking is not None:
            self.target = TargetDriver(
                taking.query, shape, name(), taking.records,
                send=taking.send, log=log, timing=timing,
            )  # fmt: skip
            self._give_when_owned()

    @property
    def is_over(self) -> bool:
        """Whether the query was handed on with all confirmed, given away, or never taken over."""
        if self.origin is not None and self.origin.machine.is_done:
            return True
        return self.target is not None and isinstance(self.target.machine.phase, Left)

    def pass_time(self, now_ms: int) -> None:
        """Let both roles look at the clock."""
        for driver in (self.target, self.origin):
            if driver is not None:
                driver.handle(Clock(now_ms))
        self._give_when_owned()

    def on_message_of_origin(self, message: Message) -> None:
        """Process a message of the previous application."""
        if self.target is not None:
            self.target.handle(Received(message))
            self._give_when_owned()

    def on_message_of_target(self, message: Message) -> None:
        """Process a message of the next application."""
        if self.origin is not None:
            self.origin.handle(Received(message))

    def _give_when_owned(self) -> None:
        is_owned = self.target is not None and isinstance(self.target.machine.phase, Owning)
        if self.origin is None and is_owned:
            self._begin_giving()

    def _begin_giving(self) -> None:
        giving = self._giving
        if giving is not None:
            self.origin = OriginDriver(
                giving.query, self._shape, self._name(), giving.records,
                send=giving.send, log=self._log, timing=self._timing,
            )  # fmt: skip


def _owns(records: RecordStore) -> bool:
    record = records.read()
    return record is not None and record.state == "owns"
