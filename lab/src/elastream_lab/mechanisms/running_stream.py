"""A query that can be stopped at a batch boundary and started again, and what its batches showed.

The mechanisms that are compared differ in what they do to the query; this is what they do it to.
Each run of the query gets its own monitor; what the monitors see goes to one place, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from elastream.model.observation import BatchObservation
from elastream.spark.door.private_door import PrivateDoor
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.roll import ExecutorRoll
from elastream.spark.observe.watching import batches_of
from elastream.spark.steer.graceful_stop import stop_gracefully

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RunningStream"]


class RunningStream:
    """A query of a session; ``start_query`` starts it where its checkpoint ends.

    ``heard`` is called with every batch, in a monitor's thread.
    """

    def __init__(
        self,
        spark: SparkSession,
        start_query: Callable[[SparkSession], StreamingQuery],
        heard: Callable[[BatchObservation], None],
    ) -> None:
        self.spark = spark
        self.door = PrivateDoor.of(spark)
        self._start_query = start_query
        self._heard = heard
        self.start()

    def start(self) -> None:
        """Start the query, and watch it."""
        self.query = self._start_query(self.spark)
        run = self.door.queries.of(self.query).id
        roll = ExecutorRoll(self.door)
        self.monitor = SparkMonitor(self.door, roll, lambda query: query.id == run)
        batches_of(self.monitor, self._heard)
        self.monitor.start()

    def stop(self) -> None:
        """Stop the query at a batch boundary."""
        stop_gracefully(self.query)
        self.monitor.close()
