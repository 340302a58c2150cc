"""Warming a new executor, so that neither its first task nor its first state costs a batch.

The first task of a fresh JVM takes seconds. None of that needs the state that shall move:

* :func:`first_job`, the moment the executor registers: a tiny job on it alone. It holds the core,
  to which Spark would send tasks of stateless stages, and after it a stray one does no harm.
* :func:`warm_up`, before it gets state: a throw-away stateful query, of the same kind as the real
  one, with its own checkpoint and all its tasks steered to the new executor.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from elastream.core.ports import Ticket
from elastream.model.errors import QueryRefusedError, SparkError
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.endings import ending
from elastream.spark.observe.own_work import OWN_NAME, marked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_BATCHES: Final = 6
_PARTITIONS_EACH: Final = 2
FIRST_TASKS: Final = 2
"""Tasks of :func:`first_job` that take a slot at once."""
WARM_UP_TASKS: Final = 2 * _PARTITIONS_EACH
"""How many tasks of a warm-up run or wait at once, for each executor."""
_TRIGGER: Final = "200 milliseconds"
_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 0.05


def aggregation_stream(spark: SparkSession) -> DataFrame:
    """Return a small streaming aggregation that never ends."""
    from pyspark.sql import functions

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
    return source.groupBy((functions.col("value") % 100).alias("key")).agg(
        functions.count("*"), functions.sum("value")
    )


def first_job(internals: SparkInternals, executor: ExecutorEntry) -> None:
    """Run a tiny job with a shuffle whose first stage runs on this executor alone."""
    session = _session(internals, "first job", partitions=1)
    with marked(session):
        rows = internals.rows_on(executor, session, FIRST_TASKS)
        rows.groupBy("value").count().write.format("noop").mode("overwrite").save()


def warm_up(
    internals: SparkInternals,
    executors: Sequence[ExecutorEntry],
    stream: Callable[[SparkSession], DataFrame] = aggregation_stream,
    *,
    near: str | None = None,
    batches: int = _BATCHES,
    ticket: Ticket | None = None,
) -> None:
    """Run ``batches`` small batches of ``stream`` with all their state on these executors.

    ``near`` is where a real query keeps its state: all executors can reach a checkpoint next to it.
    A temporary folder will do where all are on the driver's host.
    """
    from pyspark.errors import AnalysisException

    partitions = _PARTITIONS_EACH * len(executors)
    if near is not None and near.startswith("file:") and internals.share_driver_host(executors):
        near = None
    with _checkpoint(internals, near) as checkpoint, marked(internals.spark):
        try:
            frame = stream(_session(internals, "warm-up", partitions=partitions))
        except AnalysisException:  # it may know too little: a data source came since
            frame = stream(_session(internals, "warm-up", partitions=partitions, anew=True))
        query = _start(frame, checkpoint)
        try:
            _steer(internals, query, executors, batches, ticket or Ticket())
        finally:
            query.stop()
            internals.forget_session_of(query)


def _start(frame: DataFrame, checkpoint: str | None) -> StreamingQuery:
    """Start the query in the first output mode that it allows."""
    from pyspark.errors import AnalysisException

    writer = frame.writeStream.format("noop").trigger(processingTime=_TRIGGER)
    writer = writer.queryName(f"{OWN_NAME} {uuid.uuid4()}")
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    try:
        return writer.outputMode("update").start()
    except AnalysisException:
        return writer.outputMode("append").start()


def _session(
    internals: SparkInternals, purpose: str, *, partitions: int, anew: bool = False
) -> SparkSession:
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        "spark.sql.streaming.checkpointLocation": None,
    }
    return internals.own_session(purpose, settings, anew=anew)


@contextlib.contextmanager
def _checkpoint(internals: SparkInternals, near: str | None) -> Iterator[str | None]:
    """Give a checkpoint for as long as it is needed; ``None`` lets Spark use a temporary one.

    What an application left that died in a warm-up goes as well: two never share a checkpoint.
    """
    if near is None:
        yield None
        return
    place = near.removesuffix("/state").rstrip("/")
    # Next to a checkpoint that is all of a bucket there is only another bucket.
    beginning = f"{place}{'-' if urlsplit(place).path else '/'}elastream-warm-up-"
    internals.delete_folders(beginning)
    try:
        yield f"{beginning}{uuid.uuid4()}"
    finally:
        internals.delete_folders(beginning)


def _operators(
    internals: SparkInternals, query: StreamingQuery, deadline: float, ticket: Ticket
) -> tuple[StatefulOperator, ...]:
    """Return its stateful operators as soon as it has planned its first batch."""
    running = internals.queries.of(query)
    while query.isActive:
        operators = internals.queries.operators(running)
        if operators:
            return operators
        if operators is not None:
            raise QueryRefusedError("the warm-up stream keeps no state, so it warms nothing")
        if time.monotonic() > deadline:
            raise SparkError(f"the warm-up began no batch within {_TIMEOUT_S:g} s")
        ticket.wait(2 * _POLL_S)
    raise SparkError(f"the warm-up ended: {ending(query.exception())}")


def _steer(
    internals: SparkInternals,
    query: StreamingQuery,
    executors: Sequence[ExecutorEntry],
    batches: int,
    ticket: Ticket,
) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    stores = [
        (internals.provider_id(operator, partition, store), executors[partition % len(executors)])
        for operator in _operators(internals, query, deadline, ticket)
        for partition in range(operator.partitions)
        for store in operator.stores
    ]
    last_batch = warm_batches = 0
    while warm_batches < batches:
        if not query.isActive or time.monotonic() > deadline:
            fault = query.exception()
            why = f"{_TIMEOUT_S:g} s were not enough" if fault is None else ending(fault)
            raise SparkError(
                f"the warm-up stopped after {warm_batches} of {batches} batches: {why}"
            )
        progress = query.lastProgress
        if progress is not None and progress.batchId != last_batch:
            last_batch = progress.batchId
            warm_batches += all(internals.location(store) == to.id for store, to in stores)
            for store, executor in stores:
                internals.report(store, executor)
        ticket.wait(_POLL_S)
