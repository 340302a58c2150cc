"""Query 1 on a replay of taxi trips: a job that can be started, stopped and gone on with.

Each trip may cost a stated time that is slept where countByWindow's state is
(:mod:`elastream.harness.service_time`), so that executors help on a machine with few cores. What
the query tells is handed over batch by batch; a batch that is run again tells the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.harness.recording import Recording
from elastream.harness.replay import ReplayClock, replayed
from elastream.model.checks import amount, count
from elastream.spark.sessions.query_settings import PARTITIONS, changed_settings
from elastream_lab.applications.taxi.frequent_routes import frequent_routes
from elastream_lab.applications.taxi.plain import Ranked, Rankings
from elastream_lab.applications.taxi.trips import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["SESSION", "TaxiJob", "start"]

SESSION: Final = {"spark.sql.session.timeZone": "UTC"}
"""Session setting with which the trips' local times are read as they stand."""


@dataclass(frozen=True, slots=True)
class TaxiJob:
    """What job; checked when made."""

    recording: Recording
    clock: ReplayClock
    checkpoint: Path
    partitions: int = 6
    """State partitions of each of the three operators."""
    service_us: float = 0.0
    """What a trip costs in countByWindow, slept; 0 for nothing."""
    trigger_s: float = 1.0
    rows_a_batch: int | None = None

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        amount("service_us", self.service_us)
        amount("trigger_s", self.trigger_s)


def start(spark: SparkSession, job: TaxiJob, told: Callable[[Rankings], None]) -> StreamingQuery:
    """Start the job, or go on with it where its checkpoint ends.

    ``told`` gets the minutes that a batch has closed.
    """
    from pyspark.sql import functions as f

    lines = replayed(spark, job.recording, job.clock, rows_a_batch=job.rows_a_batch)
    trips = lines.select(f.from_csv("text", schema()).alias("trip")).select("trip.*")
    ranked = frequent_routes(trips, service_us=job.service_us).select(
        f.unix_timestamp("minute").alias("minute"), "best"
    )

    def tell(batch: DataFrame, _: int) -> None:
        told({row["minute"]: tuple(map(_ranked, row["best"])) for row in batch.collect()})

    writer = ranked.writeStream.outputMode("append").queryName("frequent_routes").foreachBatch(tell)
    writer = writer.option("checkpointLocation", str(job.checkpoint))
    writer = writer.trigger(processingTime=f"{job.trigger_s:g} seconds")
    with changed_settings(spark, {PARTITIONS: str(job.partitions)}):
        return writer.start()


def _ranked(entry: Any) -> Ranked:
    return Ranked(entry["trips"], entry["latest"], entry["route"])
