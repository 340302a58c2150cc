"""Query 1 on a replay of taxi trips: a job that can be started, stopped and gone on with.

Each trip may cost a stated time that is slept where countByWindow's state is
(:mod:`elastream_lab.harness.service_time`), so that executors help on a machine with few cores.
What
the query shows is kept minute by minute; a batch that is run again shows the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.model.checks import count, non_negative
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream_lab.applications.taxi.frequent_routes import frequent_routes
from elastream_lab.applications.taxi.plain import Ranked, Rankings, differing, plain_rankings
from elastream_lab.applications.taxi.recorded_trips import RecordedTrips
from elastream_lab.applications.taxi.trips import schema
from elastream_lab.harness.job import Feed
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock, replayed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


QUERY: Final = "frequent_routes"
"""What its query is called."""
SESSION: Final = {"spark.sql.session.timeZone": "UTC"}
"""Session setting with which the trips' local times are read as they stand."""


@dataclass(slots=True)
class TaxiJob:
    """What job, checked when made, and what its query has reported so far."""

    trips: RecordedTrips
    clock: ReplayClock
    checkpoint: Path
    partitions: int = 6
    """State partitions of each of the three operators."""
    service_us: float = 0.0
    """What a trip costs in countByWindow, slept; 0 for nothing."""
    trigger_s: float = 1.0
    rows_a_batch: int | None = None
    rankings: dict[int, tuple[Ranked, ...]] = field(default_factory=dict)
    """The ranking of every minute reported so far."""
    reported_twice: int = 0
    """Minutes that were reported again with other values."""

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        non_negative("service_us", self.service_us)
        non_negative("trigger_s", self.trigger_s)

    @property
    def recording(self) -> Recording:
        """The lines of the trips."""
        return self.trips.recording

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The trips."""
        return (Feed(self.recording, self.clock, self.checkpoint),)

    def start(self, spark: SparkSession) -> tuple[StreamingQuery, ...]:
        """Start the job, or go on with it where its checkpoint ends."""
        from pyspark.sql import functions as f

        lines = replayed(spark, self.recording, self.clock, rows_a_batch=self.rows_a_batch)
        trips = lines.select(f.from_csv("text", schema()).alias("trip")).select("trip.*")
        ranked = frequent_routes(trips, service_us=self.service_us).select(
            f.unix_timestamp("minute").alias("minute"), "best"
        )

        def tell(batch: DataFrame, _: int) -> None:
            self.handle(
                {row["minute"]: tuple(map(_ranked, row["best"])) for row in batch.collect()}
            )

        writer = ranked.writeStream.outputMode("append").foreachBatch(tell)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = writer.queryName(QUERY)
        writer = writer.trigger(processingTime=f"{self.trigger_s:g} seconds")
        with changed_settings(spark, {PARTITIONS: str(self.partitions)}):
            return (writer.start(),)

    def handle(self, minutes: Rankings) -> None:
        """Take in the minutes that a batch has closed."""
        for minute, best in minutes.items():
            self.reported_twice += self.rankings.get(minute, best) != best
            self.rankings[minute] = best

    def wrong(self, spark: SparkSession) -> int:  # noqa: ARG002 - plain Python counts again
        """Return how many minutes differ from the plain computation, or were reported twice."""
        expected = plain_rankings(self.trips.trips)
        return differing(self.rankings, expected) + self.reported_twice


def _ranked(entry: Any) -> Ranked:
    return Ranked(entry["trips"], entry["latest"], entry["route"])
