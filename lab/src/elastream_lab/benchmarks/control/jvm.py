"""What the loop's calls into Spark's JVM cost, measured on a real session.

The simulated cluster makes no calls. On Spark the loop fetches what tasks did, reports where state
shall live and looks how queries are; each is timed here on a real query, in the embedded driver,
whose JVM compiles quickly and not well. The cost of a fetch grows with the tasks, that of a report
with the state stores that move.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import SparkError
from elastream.spark.internals.event_tap import EventTap
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.task_events import METRICS, TASK_COUNTERS, finished_task
from elastream.spark.sessions.embedded_cluster import (
    EmbeddedCluster,
    embedded_session,
    scratch_folder,
)
from elastream.spark.steer.warm_up import aggregation_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_PARTITIONS: Final = 64
_BATCHES: Final = 8
_REPORTS: Final = 100
_LOOKS: Final = 20
_PATIENCE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class JvmCosts:
    """Milliseconds of the driver's Python thread, waits for the JVM included."""

    fetch_ms_per_1000_tasks: float
    """Finished tasks fetched, parsed and read."""
    report_ms: float
    """One state store reported to another executor."""
    look_ms: float
    """Which queries run, whether one is idle, how many jobs there are."""
    executors_ms: float
    """Who is alive, counted again."""

    def as_json(self) -> dict[str, float]:
        """Return it for a summary."""
        return {
            "fetch_ms_per_1000_tasks": round(self.fetch_ms_per_1000_tasks, 1),
            "report_ms": round(self.report_ms, 3),
            "look_ms": round(self.look_ms, 2),
            "executors_ms": round(self.executors_ms, 2),
        }

    def at(self, tasks: int, queries: int, trigger_s: float) -> float:
        """Return the share of one core that listening takes at a size."""
        a_second = tasks / trigger_s / 1000 * self.fetch_ms_per_1000_tasks
        return (a_second + self.look_ms + queries / trigger_s) / 1000


def jvm_costs(say: Callable[[str], None]) -> JvmCosts:
    """Measure on an embedded session of one executor."""
    say("starting Spark, to time the calls into its JVM")
    cluster = EmbeddedCluster(
        executors=1,
        max_executors=1,
        executor_memory_mb=1500,
        checkpoint_in_memory=True,
        config={"spark.sql.shuffle.partitions": str(_PARTITIONS)},
    )
    with embedded_session(cluster) as spark:
        query = _started(spark)
        try:
            return _timed(SparkInternals.of(spark), query)
        finally:
            query.stop()


def _started(spark: SparkSession) -> StreamingQuery:
    writer = aggregation_stream(spark).writeStream.format("noop").outputMode("update")
    checkpoint = str(scratch_folder(spark) / "checkpoint")
    return writer.option("checkpointLocation", checkpoint).start()


def _timed(internals: SparkInternals, query: StreamingQuery) -> JvmCosts:
    running = internals.queries.of(query)
    tap = EventTap(internals)
    _await_batches(query)
    names = internals.queries.metric_names(running, METRICS)
    (operator,) = internals.queries.operators(running) or ()
    store = internals.provider_id(operator, 0, operator.stores[0])
    (executor,) = internals.executors()
    tap.wait(0.0)
    look_ms = _each_ms(_LOOKS, lambda: tap.wait(0.0))
    query.stop()  # what is timed shall not wait for a core
    began = time.perf_counter()
    tasks = tap.fetch([*TASK_COUNTERS, *names.values()]).tasks
    for task in tasks:
        finished_task(task, names)
    fetch_ms = 1000 * (time.perf_counter() - began)
    tap.close()
    return JvmCosts(
        fetch_ms_per_1000_tasks=1000 * fetch_ms / len(tasks),
        report_ms=_each_ms(_REPORTS, lambda: internals.report(store, executor)),
        look_ms=look_ms,
        executors_ms=_each_ms(_LOOKS, internals.executors),
    )


def _await_batches(query: StreamingQuery) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while query.lastProgress is None or query.lastProgress.batchId < _BATCHES:
        if time.monotonic() > deadline or not query.isActive:
            raise SparkError(f"the query ran no {_BATCHES} batches: {query.exception()}")
        time.sleep(0.1)


def _each_ms(times: int, call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return 1000 * (time.perf_counter() - began) / times
