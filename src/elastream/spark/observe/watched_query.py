"""One query that takes part: its operators, its batches under way, and what they come to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elastream.model.observation import BatchObservation, LoadObservation, OperatorGraph, TaskId
from elastream.model.words import printable
from elastream.spark.internals.event_tap import RunningTask, TaskEvent
from elastream.spark.internals.queries import RunningQuery, StatefulOperator
from elastream.spark.internals.realtime import Gauges, why_unsteered
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.realtime import RealtimeBatches
from elastream.spark.observe.task_events import (
    METRICS,
    FinishedTask,
    Ledger,
    batch_tasks,
    finished_task,
    lead_of,
    operator_graph,
    tasks_of,
)
from elastream.spark.observe.waiting import SlotUse

_log = logging.getLogger(__name__)

Backlog = Callable[[Mapping[str, Any]], int | None]
"""Reads from a progress report, as Spark's JSON, how many rows wait in the sources."""


@dataclass(frozen=True, slots=True, eq=False)
class StoreOfTask:
    """One state store of a task."""

    operator: int
    partition: int
    name: str
    id: Any
    """The JVM's name of it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the tasks of a query ran, and where they were requested to be since."""

    observed: Mapping[TaskId, str] = field(default_factory=dict)
    """The executor on which the last batch ran each task."""
    requested: Mapping[TaskId, str] = field(default_factory=dict)
    """The executors of tasks that no batch has shown there yet."""


class TaskPlaces:
    """The places of one run's tasks, for any thread.

    The monitor's thread writes what a batch showed, a lane of the core what is requested, and
    another lane reads both before it releases executors. A request must not be lost in between, and
    a reader must not see one without the other: it would release an executor that a task is on its
    way to.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Places()

    @property
    def now(self) -> Places:
        """What is known now; it never changes in the reader's hands."""
        return self._now

    def request(self, executors: Mapping[TaskId, str]) -> None:
        """Note where tasks are requested to be."""
        with self._lock:
            now = self._now
            self._now = Places(now.observed, {**now.requested, **executors})

    def withdraw(self, tasks: Collection[TaskId]) -> None:
        """Note that these tasks are requested nowhere: Spark was not asked."""
        with self._lock:
            now = self._now
            requested = {task: node for task, node in now.requested.items() if task not in tasks}
            self._now = Places(now.observed, requested)

    def observe(self, executors: Mapping[TaskId, str]) -> None:
        """Note where a batch ran tasks; requests that it has obeyed are done with."""
        with self._lock:
            now = self._now
            observed = {**now.observed, **executors}
            requested = {
                task: executor
                for task, executor in now.requested.items()
                if observed.get(task) != executor
            }
            self._now = Places(observed, requested)


class WatchedQuery:
    """One run of a query, from its events to what its batches did."""

    def __init__(
        self,
        internals: SparkInternals,
        query: RunningQuery,
        name: str,
        backlog: Backlog | None,
        gauges: Gauges,
    ) -> None:
        self.query = query
        self.name = name
        """Unique among the queries that take part."""
        self.operators: tuple[StatefulOperator, ...] = ()
        """Empty before it has planned a batch."""
        self.places = TaskPlaces()
        self.trigger = internals.queries.trigger(query)
        self.realtime: RealtimeBatches | None = None
        """Its batches under way, in Real-time Mode; ``None`` for any other query."""
        if self.trigger.realtime:
            self.realtime = RealtimeBatches(internals, query, name, gauges)
        self._internals = internals
        self._backlog = backlog or (kafka_lag if self.realtime else kafka_backlog)
        self._metric_names: Mapping[str, str] = {}
        self._finished: list[tuple[int, FinishedTask]] = []
        """Tasks of batches that are not reported yet, each with its batch."""
        self._slot_uses: list[tuple[int, SlotUse]] = []
        """When each of them had a slot."""
        self._ledger: Ledger = {}
        self._last_end_ms: int | None = None
        self._complained = False
        self._stores: dict[TaskId, tuple[StoreOfTask, ...]] = {}

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """All its tasks, in order; none before it has planned a batch."""
        return tasks_of(self.name, self.operators)

    @property
    def graph(self) -> OperatorGraph:
        """Which operator's rows go where."""
        return operator_graph(self.operators)

    def stores(self, task: TaskId) -> tuple[StoreOfTask, ...]:
        """Return the state stores of one of its tasks: operators that share tasks have one each.

        None are known before it has planned a batch.
        """
        operators, provider_id = self.operators, self._internals.provider_id
        if operators and task not in self._stores:
            leads = lead_of(operators)
            self._stores[task] = tuple(
                StoreOfTask(each.id, task.partition, name, provider_id(each, task.partition, name))
                for each in operators
                if leads[each.id] == task.operator and task.partition < each.partitions
                for name in each.stores
            )
        return self._stores.get(task, ())

    @property
    def counters(self) -> tuple[str, ...]:
        """The names in events of what its stateful operators count."""
        return tuple(self._metric_names.values())

    def planned(self) -> bool:
        """Return whether it has planned a batch, after checking if that is not known."""
        if not self.operators:
            self.operators = self._internals.queries.operators(self.query) or ()
            self._metric_names = self._internals.queries.metric_names(self.query, METRICS)
        return bool(self.operators)

    def look(self, running: Sequence[tuple[int, RunningTask]]) -> LoadObservation | None:
        """Return the load of a Real-time batch under way; ``None`` where nothing is due.

        ``running``: its tasks with their batch, as far as they are known to run.
        """
        if self.realtime is None or not self.planned():
            return None
        load = self.realtime.look(self.operators, running)
        if load is not None:
            self.places.observe({each.task: each.executor for each in load.tasks})
        return load

    def finish(self, batch: int, event: TaskEvent) -> None:
        """Take in a finished task of a batch."""
        self._finished.append((batch, finished_task(event, self._metric_names)))
        self._slot_uses.append((batch, SlotUse(event.stage, event.executor, event.times)))

    def slot_uses(self, batch: int) -> list[SlotUse]:
        """Return which tasks of a batch had slots when; it must not be reported yet."""
        return [use for of, use in self._slot_uses if of == batch]

    def observed(
        self, progress: Mapping[str, Any], end_ms: int, waited_ms: float
    ) -> BatchObservation | None:
        """Return what a batch did; ``None`` for one that was not seen whole at the beginning.

        ``end_ms``: when it ended, by the clock of the monitor. ``waited_ms``: of that its wait for
        slots that other work held.
        """
        batch = progress["batchId"]
        finished = [task for of, task in self._finished if of == batch]
        self._finished = [(of, task) for of, task in self._finished if of > batch]
        self._slot_uses = [(of, use) for of, use in self._slot_uses if of > batch]
        seen = batch_tasks(self.name, finished, self.operators, self._ledger)
        if self._last_end_ms is None and len(seen.tasks) < len(self.tasks):
            return None
        self._ledger = seen.ledger
        if self.realtime is None:  # else the next batch runs already
            self.places.observe({task.task: task.executor for task in seen.tasks})
        before_ms, self._last_end_ms = self._last_end_ms, end_ms
        return BatchObservation(
            query=self.name,
            run=self.query.run_id,
            batch=batch,
            duration_ms=float(progress["batchDuration"]),
            rows=progress["numInputRows"],
            backlog=self._waiting(progress),
            finished_at_ms=end_ms,
            interval_ms=None if before_ms is None else float(end_ms - before_ms),
            tasks=seen.tasks,
            outside_ms=seen.outside_ms,
            source_rows=tuple(source["numInputRows"] for source in progress["sources"]),
            waited_ms=min(waited_ms, float(progress["batchDuration"])),
        )

    def _waiting(self, progress: Mapping[str, Any]) -> int | None:
        """Ask how many rows wait; a wrong answer is none."""
        try:
            rows = self._backlog(progress)
            if rows is None or (isinstance(rows, int) and rows >= 0):
                return rows
            wrong = f"{rows!r} is no number of rows"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        if not self._complained:
            name, why = printable(self.name), printable(wrong)
            _log.warning("the backlog of query %s is not known: %s", name, why)
            self._complained = True
        return None


def refusal(internals: SparkInternals, query: RunningQuery) -> str | None:
    """Return why a query cannot be steered, also before its first batch; ``None`` where it can.

    State is moved between batches. A query without state has none to place. One that runs
    continuously has no batches: its tasks run for as long as it does.
    """
    trigger = internals.queries.trigger(query)
    why = trigger.refusal
    if why is None and trigger.realtime:
        why = why_unsteered(internals)
    if why is None and not internals.queries.is_stateful(query):
        return "keeps no state, so there is none to place"
    return why


def kafka_lag(progress: Mapping[str, Any]) -> int | None:
    """Return the rows that waited in the Kafka topics of a Real-time query when its batch ended.

    Its report has the offsets of when the batch began, and how far behind it was at the end.
    """
    behind = 0.0
    for source in progress["sources"]:
        mean = (source.get("metrics") or {}).get("avgOffsetsBehindLatest")
        read = source.get("endOffset")
        if mean is None or not isinstance(read, dict):
            return None
        behind += float(mean) * sum(len(partitions) for partitions in read.values())
    return round(behind)


def kafka_backlog(progress: Mapping[str, Any]) -> int | None:
    """Return the rows that wait in the query's Kafka topics; ``None`` with any other source.

    Offsets are counted, so what transactions and compaction leave in a topic counts as rows. A
    topic that was made anew has fewer than were read: nothing waits there.
    """
    behind = 0
    for source in progress["sources"]:
        latest = source.get("latestOffset")
        if "Kafka" not in source["description"] or not isinstance(latest, dict):
            return None
        read = source.get("endOffset") or source.get("startOffset") or {}
        for topic, partitions in latest.items():
            done = read.get(topic, {})
            behind += sum(max(0, offset - done.get(part, 0)) for part, offset in partitions.items())
    return behind
