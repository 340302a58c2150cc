"""A query that can be stopped at a batch boundary and started again, and what its batches showed.

The mechanisms that are compared differ in what they do to the query; this is what they do it to.
Each run of the query gets its own monitor; what the monitors see goes to one place, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream_lab.harness.job import Job, RunningJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class RunningStream:
    """A job of one query; ``heard`` is called with every batch, in a monitor's thread."""

    def __init__(
        self, spark: SparkSession, job: Job, batches: Callable[[BatchObservation], None]
    ) -> None:
        self.internals = SparkInternals.of(spark)
        self._heard = batches
        self._run = RunningJob(spark, job)
        self._watch()

    @property
    def query(self) -> StreamingQuery:
        """The query that runs, or ran last."""
        (query,) = self._run.queries
        return query

    def start(self) -> None:
        """Start the query where its checkpoint ends, and watch it."""
        self._run.start()
        self._watch()

    def stop(self) -> None:
        """Stop the query at a batch boundary."""
        self._run.stop()
        self.monitor.close()

    def check(self) -> None:
        """Raise ``SparkError`` where the query has ended by itself."""
        self._run.check()

    def _watch(self) -> None:
        run = self.internals.queries.of(self.query).id
        self.monitor = SparkMonitor(
            self.internals, ExecutorRegistry(self.internals), lambda query: query.id == run
        )
        batches_of(self.monitor, self._heard)
        self.monitor.start()


@contextmanager
def stopped_at_the_end(stream: RunningStream) -> Iterator[RunningStream]:
    """Stop a stream at a batch boundary; after an error at once."""
    try:
        yield stream
    except BaseException:
        with suppress(Exception):  # the error that is under way says more
            stream.query.stop()
        raise
    stream.stop()
