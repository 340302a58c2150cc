"""Watching running queries for a while, without a loop: what a trial run and a benchmark need."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elastream.core.events import BatchObserved, Fact
from elastream.model.errors import QueryRefusedError
from elastream.model.observation import BatchObservation, TaskId
from elastream.spark.internals.query_session import named, queries_of, session_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import Backlog, WatchedQuery, refusal

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_FIRST_BATCH_S: Final = 120.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Watching:
    """Running queries of one application, and their monitor."""

    internals: SparkInternals
    monitor: SparkMonitor
    queries: tuple[StreamingQuery, ...]
    """As they were given."""

    @property
    def watched(self) -> tuple[WatchedQuery, ...]:
        """What is known of each, in the order given."""
        by_id = {each.query.id: each for each in self.monitor.watched()}
        return tuple(by_id[str(query.id)] for query in self.queries)

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """All their tasks: query by query as they were given, in a query by operator, partition."""
        return tuple(task for each in self.watched for task in each.tasks)


@contextmanager
def watching(
    queries: StreamingQuery | Sequence[StreamingQuery], *, backlog: Backlog | None = None
) -> Iterator[Watching]:
    """Yield the queries with their monitor; waits for their first batches.

    Raises :class:`~elastream.model.errors.ElastreamError` with one line where a query is stopped,
    cannot be watched, or is given twice. The queries run on.
    """
    given = queries_of(queries)
    internals = SparkInternals.of(session_of(given[0]))
    running = [internals.queries.of(query) for query in given]
    for each in running:
        why = refusal(internals, each)
        if why is not None:
            raise QueryRefusedError(f"the query {each.label} {why}")
    ids = {each.id for each in running}
    monitor = SparkMonitor(
        internals, ExecutorRegistry(internals), lambda query: query.id in ids, backlog=backlog
    )
    with monitor:
        seen = Watching(internals, monitor, tuple(given))
        _await_first_batches(seen)
        yield seen


def batches_of(
    monitor: SparkMonitor, on_batch: Callable[[BatchObservation], None]
) -> Callable[[], None]:
    """Call ``on_batch`` with every batch that a monitor reports; return how to stop that."""

    def on_fact(fact: Fact) -> None:
        if isinstance(fact, BatchObserved):
            on_batch(fact.batch)

    return monitor.subscribe(on_fact)


def _await_first_batches(seen: Watching) -> None:
    deadline = time.monotonic() + _FIRST_BATCH_S
    for query in seen.queries:
        while True:
            watched = next(
                (each for each in seen.monitor.watched() if each.query.id == str(query.id)), None
            )
            if watched is not None and watched.operators:
                break
            if not query.isActive:
                raise QueryRefusedError(f"{named(query)} is not running")
            if time.monotonic() > deadline:
                late = f"{named(query)} began no batch within {_FIRST_BATCH_S:g} s"
                raise QueryRefusedError(late)
            time.sleep(_POLL_S)
