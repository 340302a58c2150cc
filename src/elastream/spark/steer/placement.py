"""Making state live elsewhere. This only reports; the core's migrator verifies and repeats.

Papers 000 (section 5) and 001 (section 3) move a task by changing the routing table, shipping its
state through a file server, buffering its tuples until the state is there and rerouting those that
went to the old node. In Spark the routing table is the driver's state-store coordinator, which the
scheduler asks where a task should run; the file server is the checkpoint; the waiting buffer is the
task's shuffle blocks. The rerouter is not needed: the map is read once a batch.

A task reports its own executor as it starts, so a report made while tasks of the same batch are
starting can be overwritten. While a query is idle nothing can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from elastream.core.ports import Placed, Ticket
from elastream.model.errors import ProblemError, QueryRefusedError, SparkError
from elastream.model.observation import TaskId
from elastream.model.words import join_names
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.internals.reassignment import reassign_from
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.task_events import lead_of, tasks_of
from elastream.spark.observe.watched_query import WatchedQuery
from elastream.spark.steer.copies import SparkStateCopies
from elastream.spark.steer.holding import Holds

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class SparkStatePlacement:
    """Sets the executor of every task of the queries that a monitor watches."""

    def __init__(
        self,
        internals: SparkInternals,
        monitor: SparkMonitor,
        copies: SparkStateCopies | None = None,
        holds: Holds | None = None,
    ) -> None:
        self._internals = internals
        self._monitor = monitor
        self._copies = copies
        self._holds = holds

    def place(
        self, query: str, wanted: Mapping[TaskId, str], *, lost: Sequence[str] = (), ticket: Ticket
    ) -> Placed:
        """Prefer these executors for these tasks from the query's next batch on.

        Tasks whose state was copied to their executor are taken over there. The whole request is
        refused where it names a query, a task or an executor that does not exist.
        """
        watched = self._monitor.named(query)
        if watched is None:
            raise QueryRefusedError(f"query {query} does not take part")
        alive = {executor.id: executor for executor in self._internals.executors()}
        known = set(watched.tasks)
        for task, executor in wanted.items():
            if task not in known:
                raise ProblemError("wanted", f"the query has no task {task}")
            if executor not in alive:
                raise SparkError(f"executor {executor} is not alive; alive are {join_names(alive)}")
        idle = self._is_idle(watched)
        ticket.check()
        if self._holds is not None:
            self._holds.release(wanted.values())
        watched.places.request(wanted)  # before they go: who reads it shall know of all
        unreported = set(wanted)
        try:
            taken = frozenset[TaskId]() if self._copies is None else self._copies.take(wanted)
            unreported -= taken
            for task in [task for task in wanted if task not in taken]:
                ticket.check()
                unreported.discard(task)
                for store in watched.stores(task):
                    self._internals.report(store.id, alive[wanted[task]])
        except BaseException:
            watched.places.withdraw(unreported)
            raise
        for executor in lost:
            reassign_from(self._internals, executor)
        return Placed(idle and self._is_idle(watched), taken)

    def _is_idle(self, watched: WatchedQuery) -> bool:
        (status,) = self._internals.queries.statuses([watched.query])
        return status.active and status.idle


def place_resumed(
    internals: SparkInternals,
    query: StreamingQuery,
    operators: Sequence[StatefulOperator],
    goal: Mapping[TaskId, str],
) -> None:
    """Prefer the executors of ``goal`` for the tasks of a query that has just been started.

    It is a new run, whose state the coordinator does not know: it is called before the first batch
    is planned. ``operators`` are those of the earlier run. A task that ``goal`` does not name, or
    whose executor is gone, goes where the fewest others are: with one task of a stage without a
    preference Spark no longer waits for those of the others. With no executor alive all is left to
    Spark.
    """
    alive = {entry.id: entry for entry in internals.executors()}
    if not alive:
        return
    leads, name = lead_of(operators), query.name or str(query.id)
    tasks = tasks_of(name, operators)
    chosen = {task: goal[task] for task in tasks if goal.get(task) in alive}
    held = Counter(chosen.values())
    for task in tasks:
        if task not in chosen:
            chosen[task] = min(alive, key=lambda executor: held[executor])
            held[chosen[task]] += 1
    for operator in operators:
        resumed = replace(operator, run_id=str(query.runId))
        for partition in range(operator.partitions):
            executor = alive[chosen[TaskId(name, leads[operator.id], partition)]]
            for store in operator.stores:
                internals.report(internals.provider_id(resumed, partition, store), executor)
