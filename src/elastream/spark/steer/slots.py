"""Slots are a law: Real-time queries never find fewer than they need when their batch ends.

All tasks of a Real-time batch get their slots when it begins, or the query ends. So before an
executor is taken away, and before a job of our own that may run while a batch begins, the slots
that stay are held against the needs of every Real-time query and the tasks of all other jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from elastream.core.ports import Ticket
from elastream.model.errors import SparkError
from elastream.model.words import pluralize, printable
from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.realtime import SlotCount, count_slots, running_stages
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.monitor import SparkMonitor

_PATIENCE_S: Final = 10.0
"""How long slots are waited for: a batch that has just begun counts twice for a second."""
_POLL_S: Final = 0.5


def shortage(count: SlotCount, needs: int, *, leaving: int = 0, more: int = 0) -> str | None:
    """Return why slots would be too few; ``None`` where they suffice.

    ``count`` leaves out the tasks of the queries whose ``needs`` are given. ``leaving``: slots that
    go; ``more``: tasks of our own that come.
    """
    left, asked = count.total - leaving, needs + count.taken + more
    if asked <= left:
        return None
    slots = pluralize(max(0, left), "slot")
    others = f", other jobs {count.taken}" if count.taken else ""
    own = f", elastream {more}" if more else ""
    return f"{slots} would be left, and Real-time batches need {needs} at once{others}{own}"


class SlotLaw:
    """The slots of an application with Real-time queries; allows everything without any."""

    def __init__(self, internals: SparkInternals, monitor: SparkMonitor) -> None:
        self._internals = internals
        self._monitor = monitor
        self._kinds: dict[str, bool] = {}
        """Whether each run is in Real-time Mode."""
        self._needs: dict[str, int] = {}
        """The slots that a batch of each query took when it was last seen whole, by its id."""

    def realtime(self) -> tuple[RunningQuery, ...]:
        """Return the queries of the application that run in Real-time Mode, watched or not.

        None before Spark 4.3: those without state, which it has earlier, are not counted there.
        """
        if not self._internals.variant.has_stateful_realtime:
            return ()
        active, known = self._internals.queries.active(), self._kinds
        kinds = {
            query.run_id: known[query.run_id]
            if query.run_id in known
            else self._internals.queries.trigger(query).realtime
            for query in active
        }
        self._kinds = kinds
        return tuple(query for query in active if kinds[query.run_id])

    def watches_realtime(self) -> bool:
        """Return whether a query that takes part runs in Real-time Mode."""
        return any(each.realtime is not None for each in self._monitor.watched())

    def longest_batch_s(self) -> float:
        """Return how long a batch of a Real-time query lasts, of all the longest; 0 without any."""
        triggers = (self._internals.queries.trigger(query) for query in self.realtime())
        return max(((trigger.interval_ms or 0.0) / 1000 for trigger in triggers), default=0.0)

    def shortage(
        self, *, leaving: Sequence[ExecutorEntry] = (), more: int = 0, starting: int = 0
    ) -> str | None:
        """Return why the slots would be too few; ``None`` where they suffice.

        ``leaving``: executors that would go. ``more``: tasks of our own that would come.
        ``starting``: what a Real-time query needs that would be started.
        """
        running = self.realtime()
        if not running and not starting:
            return None
        seen = {each.query.run_id: each.realtime for each in self._monitor.watched()}
        stages, needs = set[int](), starting
        for query in running:
            batches = seen.get(query.run_id)
            if batches is not None and batches.slots:
                self._needs[query.id] = batches.slots
                stages |= batches.stages
                needs += batches.slots
                continue
            slots = self._internals.queries.slots_of_plan(query) or self._needs.get(query.id)
            if slots is None:
                name = printable(query.label)
                return f"the slots that query {name} needs are not known before its first batch"
            stages |= running_stages(self._internals, query.run_id)
            needs += slots
        count = count_slots(self._internals, stages)
        return shortage(count, needs, leaving=sum(each.slots for each in leaving), more=more)

    def require(
        self,
        what: str,
        ticket: Ticket,
        *,
        leaving: Sequence[ExecutorEntry] = (),
        more: int = 0,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Return when there are slots enough; raise ``SparkError`` where they stay too few."""
        waited_s = 0.0
        while (why := self.shortage(leaving=leaving, more=more)) is not None:
            if waited_s >= patience_s:
                raise SparkError(f"{what}: {why}")
            ticket.wait(_POLL_S)
            waited_s += _POLL_S
