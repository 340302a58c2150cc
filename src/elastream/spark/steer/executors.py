"""The executors of an application: how they come, get ready for state, and go.

A node that joins a stream in the papers is ready; a JVM is not. Its first stateful task loads
classes, compiles code and opens RocksDB for seconds, so a new executor is warmed first
(:mod:`elastream.spark.steer.warm_up`).

A node that leaves must be empty: :meth:`SparkExecutorPool.release` refuses an executor with state
that any query needs which is not idle. It is decommissioned, not killed, since it may hold shuffle
files that a running batch needs: killed in that moment, it costs that batch 13 s against 2 s.

An action that is given up is not carried out later: the ticket is checked before every request,
and what came of one is given back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from elastream.core.events import ExecutorsChanged, Fact
from elastream.core.ports import Ticket
from elastream.model.checks import count
from elastream.model.errors import GivenUpError, SparkError, StateHeldError
from elastream.model.observation import Executor
from elastream.model.words import join_names
from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.own_work import OWN_NAME
from elastream.spark.observe.watched_query import Places, WatchedQuery
from elastream.spark.steer.holding import Holds
from elastream.spark.steer.slots import SlotLaw
from elastream.spark.steer.warm_up import (
    FIRST_TASKS,
    WARM_UP_TASKS,
    aggregation_stream,
    first_job,
    warm_up,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_RELEASE_TIMEOUT_S: Final = 60.0
_DECOMMISSION: Final = "a Real-time query runs, and spark.decommission.enabled is not true"


class SparkExecutorPool:
    """Brings executors to an application and takes them away.

    ``stream`` makes the throw-away streaming aggregation, join or the like that warms a new
    executor; one of the same shape as the queries warms best. Executors that come by themselves are
    held and warmed where the loop ``acts``.
    """

    def __init__(
        self,
        internals: SparkInternals,
        registry: ExecutorRegistry,
        monitor: SparkMonitor,
        *,
        stream: Callable[[SparkSession], DataFrame] | None = None,
        acts: Callable[[], bool] = lambda: True,
    ) -> None:
        self._internals = internals
        self._registry = registry
        self._monitor = monitor
        self.stream = stream or aggregation_stream
        self.slots = SlotLaw(internals, monitor)
        self.holds = Holds(internals, self.slots, acts)
        self._acts = acts
        self._warming = threading.Lock()
        """One warm-up at a time: they share a folder next to the checkpoint."""
        self._closing = Ticket()
        self._known: frozenset[str] = frozenset()
        """The executors that were reported last."""
        self._growing = False

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""
        return self._registry.executors()

    def grow(self, total: int, *, timeout_s: float, ticket: Ticket) -> tuple[Executor, ...]:
        """Request ``total`` executors; return those alive when they came, or at the timeout.

        Where fewer came, the request is taken back, so that none comes later but one that was
        started already; where it is given up meanwhile, those that came are given back too.
        """
        count("total", total, least=1)
        ticket.check()
        deadline = time.monotonic() + timeout_s
        before = {entry.id for entry in self._internals.executors()}
        ticket.check()
        if len(before) < total and not self._internals.request_executors(total):
            raise SparkError("the cluster manager takes no requests for executors")
        self._growing = True
        try:
            self._await(total, before, deadline, ticket)
            self._known |= {entry.id for entry in self._internals.executors()}
        except GivenUpError:
            self._give_back(before)
            raise
        finally:
            self._growing = False
        return self.executors()

    def take_in(self, fact: Fact) -> None:
        """Hold and warm executors that come by themselves, as in the place of one that was lost.

        Only where a Real-time query runs: others are not disturbed by a cold executor's tasks.
        """
        if not isinstance(fact, ExecutorsChanged):
            return
        known, self._known = self._known, frozenset(each.id for each in fact.executors)
        came = self._known - known
        if known and came and not self._growing and self._acts() and self.slots.realtime():
            name = "elastream-newcomers"
            threading.Thread(target=self._adopt, args=(came,), name=name, daemon=True).start()

    def close(self) -> None:
        """Let executors that came by themselves be as they are."""
        self._closing.cancel()
        self.holds.close()

    def _adopt(self, ids: Collection[str]) -> None:
        try:
            for entry in self._entries(tuple(ids)):
                self.holds.begin(entry)
            self.warm(tuple(ids), ticket=self._closing)
        except GivenUpError:
            return
        except Exception:  # it is cold then, as it came
            _log.warning("executors %s were not warmed", join_names(sorted(ids)), exc_info=True)

    def warm(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Make the executors ready for state; returns when they are."""
        watched = self._monitor.watched()
        near = next((each.operators[0].root for each in watched if each.operators), None)
        try:
            with _acquired(self._warming, ticket):
                cold = [each for each in self._entries(ids) if each.id not in self._registry.warm]
                if cold:
                    tasks = WARM_UP_TASKS * len(cold)
                    self.slots.require("no warm-up", ticket, more=tasks)
                    warm_up(self._internals, cold, self.stream, near=near, ticket=ticket)
                    self._registry.warmed(entry.id for entry in cold)
        finally:
            self.holds.let_go_at_boundary(ids)

    def release(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Take the executors away; refused while one of them holds state that a batch needs."""
        leaving = self._entries(ids)
        names = {entry.id for entry in leaving}
        self._refuse_while_needed(names)
        refused = f"executors {join_names(sorted(names))} are not released"
        if not self._may_release():
            raise SparkError(f"{refused}: {_DECOMMISSION}")
        self.holds.release(names)
        self.slots.require(refused, ticket, leaving=leaving)
        ticket.check()
        # Before the first request, as at the start, Spark takes its target to be zero: it would
        # replace none that is lost meanwhile.
        self._internals.request_executors(len(self._internals.executors()))
        self._internals.retire_executors([entry.id for entry in leaving])
        # sources of a Real-time query stay on an executor that leaves until their batch ends
        deadline = time.monotonic() + _RELEASE_TIMEOUT_S + self.slots.longest_batch_s()
        while names & {entry.id for entry in self._internals.executors(leaving=True)}:
            if time.monotonic() > deadline:
                raise SparkError(f"executors {join_names(sorted(names))} do not end")
            ticket.wait(_POLL_S)
        self._internals.request_executors(len(self._internals.executors()))

    def _await(self, total: int, before: set[str], deadline: float, ticket: Ticket) -> None:
        known = set(before)
        first_jobs: list[threading.Thread] = []
        while True:
            ticket.check()
            alive = self._internals.executors()
            for entry in alive:
                if entry.id not in known:
                    known.add(entry.id)
                    self.holds.begin(entry)
                    first_jobs.append(self._begin_first_job(entry))
            if len(alive) >= total:
                break
            if time.monotonic() > deadline:
                self._internals.request_executors(len(alive))
                came = f"{len(alive)} of {total} executors came in time"
                _log.warning("%s: the cluster has no free slot for more", came)
                break
            ticket.wait(_POLL_S)
        for job in first_jobs:
            while job.is_alive():
                job.join(_POLL_S)
                ticket.check()

    def _give_back(self, before: set[str]) -> None:
        """Release the executors that came since, and request no more than there were."""
        came = [entry.id for entry in self._internals.executors() if entry.id not in before]
        if came:
            self.holds.release(came)
            if not self._may_release():
                _log.warning("executors %s stay: %s", join_names(came), _DECOMMISSION)
                return
            self._internals.retire_executors(came)
        self._internals.request_executors(len(before & {e.id for e in self._internals.executors()}))

    def _may_release(self) -> bool:
        """Whether executors may go: killed in mid-batch, they end a Real-time query."""
        if not self.slots.realtime():
            return True
        return self._internals.decommissions()

    def _begin_first_job(self, executor: ExecutorEntry) -> threading.Thread:
        def run() -> None:
            try:
                if self.slots.shortage(more=FIRST_TASKS) is None:
                    first_job(self._internals, executor)
            except Exception:  # it only spares the query a slow batch
                _log.warning("the first job on executor %s failed", executor.id, exc_info=True)

        thread = threading.Thread(target=run, name=f"elastream-first-{executor.id}", daemon=True)
        thread.start()
        return thread

    def _entries(self, ids: Sequence[str]) -> list[ExecutorEntry]:
        alive = {entry.id: entry for entry in self._internals.executors()}
        for executor in ids:
            if executor not in alive:
                raise SparkError(f"executor {executor} is not alive")
        return [alive[executor] for executor in dict.fromkeys(ids)]

    def _refuse_while_needed(self, ids: set[str]) -> None:
        """Refuse executors with state that a query needs which is not idle."""
        active = self._internals.queries.active()
        running = [query for query in active if not (query.name or "").startswith(OWN_NAME)]
        watched = {each.query.run_id: each for each in self._monitor.watched()}
        statuses = self._internals.queries.statuses(running)
        for query, status in zip(running, statuses, strict=True):
            if not status.idle and (held := self._held(query, watched.get(query.run_id), ids)):
                names = join_names(sorted(ids))
                raise StateHeldError(f"executors {names} are not released: {held}")

    def _held(self, query: RunningQuery, watched: WatchedQuery | None, ids: set[str]) -> str:
        """Return what a query has on these executors; nothing where it does not need them."""
        places = Places() if watched is None else watched.places.now
        if watched is not None and places.observed.keys() >= set(watched.tasks):
            held = sum(executor in ids for executor in places.observed.values())
            heading = sum(executor in ids for executor in places.requested.values())
            leaving = sum(places.observed.get(task) in ids for task in places.requested)
            name = f"{held} tasks of query {watched.name}"
            needed = held > leaving or heading
            return f"{name} are on them and {heading} are on their way to them" if needed else ""
        locations = [  # no batch has shown all its tasks
            self._internals.location(
                self._internals.provider_id(operator, partition, operator.stores[0])
            )
            for operator in self._internals.queries.operators(query) or ()
            for partition in range(operator.partitions)
        ]
        stores = sum(executor in ids for executor in locations)
        return f"the query {query.label} has {stores} state stores on them" if stores else ""


@contextmanager
def _acquired(lock: threading.Lock, ticket: Ticket) -> Iterator[None]:
    """Hold the lock meanwhile; a wait for it that is given up raises ``GivenUpError``."""
    while not lock.acquire(timeout=_POLL_S):
        ticket.check()
    try:
        yield
    finally:
        lock.release()
