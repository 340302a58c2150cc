"""The traffic monitor as a job: a query for each sub-stream.

What the queries reported is compared with the same aggregations as a batch job over the recordings:
each result of a window that the watermark has passed must be there once and equal, and no other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.checks import count, non_negative
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS, Aggregation, monitored
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.job import Feed, running
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock, replayed, replayed_batch
from elastream_lab.harness.replaying import Replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_QUERY_SETTINGS: Final = {
    # With one partition each, Spark would run all aggregations of a query in one task.
    "spark.sql.unionOutputPartitioning": "false",
    # A batch without packets would tell a second's results a second earlier, for twice the work.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_WARM_BATCHES: Final = 3
_TRIES: Final = 3
_LOOK_S: Final = 0.1
_INITIALISING: Final = ("Initializing", "Getting offsets")
_TOO_SLOW: Final = "Python worker failed to connect back"
_LEAST_LEAD: Final = 40
"""However quiet a sub-stream is at first, this many packets are its lead."""


@dataclass(frozen=True, slots=True)
class TrafficJob:
    """What to monitor, and how; checked when made."""

    recordings: tuple[Recording, ...]
    """The sub-streams."""
    folder: Path
    """For clocks and checkpoints; a fresh one."""
    partitions: int = 1
    """State partitions of each aggregation."""
    aggregations: tuple[Aggregation, ...] = AGGREGATIONS
    service_us: float = 0.0
    """What a packet costs every result it is counted in, at the state; 0 for nothing."""
    rounds_a_ms: float | None = None
    """How many rounds of hashing burn a millisecond of that; ``None`` where it is slept."""
    trigger_s: float = 1.0
    lead_s: float = 1.0
    """Packets of the first this many seconds are read before the clocks start, to get ready."""
    keep_results: bool = True
    """Whether results are kept in memory, to be checked; else they are thrown away."""

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        non_negative("service_us", self.service_us)
        non_negative("trigger_s", self.trigger_s)
        non_negative("lead_s", self.lead_s)

    @property
    def substreams(self) -> range:
        """Their numbers."""
        return range(len(self.recordings))

    def lead_rows(self, substream: int) -> int:
        """Return how many packets of a sub-stream are read before the clocks start."""
        recording = self.recordings[substream]
        return max(recording.rows_due(self.lead_s * 1000), min(_LEAST_LEAD, recording.rows))

    @property
    def lead(self) -> tuple[int, ...]:
        """How many packets of each sub-stream are read before the clocks start."""
        return tuple(map(self.lead_rows, self.substreams))

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The sub-streams."""
        return tuple(
            Feed(recording, ReplayClock(self.folder / f"clock-{number}"), self.checkpoint(number))
            for number, recording in enumerate(self.recordings)
        )

    def checkpoint(self, substream: int) -> Path:
        """Return the checkpoint of a sub-stream's query."""
        return self.folder / f"checkpoint-{substream}"

    def start(self, spark: SparkSession) -> tuple[StreamingQuery, ...]:
        """Start the query of each sub-stream; it reads nothing before its clock says so."""
        started: list[StreamingQuery] = []
        try:
            for number, feed in enumerate(self.feeds):
                packets = replayed(spark, feed.recording, feed.clock)
                results = monitored(
                    packets,
                    self.aggregations,
                    service_us=self.service_us,
                    rounds_a_ms=self.rounds_a_ms,
                )
                writer = results.writeStream.format("memory" if self.keep_results else "noop")
                writer = writer.outputMode("append").queryName(_name(number))
                writer = writer.option("checkpointLocation", str(feed.checkpoint))
                writer = writer.trigger(processingTime=f"{self.trigger_s:g} seconds")
                settings = _QUERY_SETTINGS | {PARTITIONS: str(self.partitions)}
                with changed_settings(spark, settings):
                    started.append(_started(writer))
        except BaseException:
            for query in started:
                query.stop()
            raise
        return tuple(started)

    def wrong(self, spark: SparkSession) -> int:
        """Return how many results of stopped queries are wrong, missing or reported twice."""
        found = 0
        for number in self.substreams:
            report, right = spark.table(_name(number)), expected(spark, self, number)
            found += report.exceptAll(right).count() + right.exceptAll(report).count()
        return found


def _started(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query and wait until it reads, so that readers start one after the other.

    Spark gives the Python process of a reader ten seconds to start. On a busy machine several at
    once take longer; one that did is tried again.
    """
    for tries_left in reversed(range(_TRIES)):
        query = writer.start()
        while query.isActive and query.status["message"].startswith(_INITIALISING):
            time.sleep(_LOOK_S)
        if query.isActive or not tries_left or _TOO_SLOW not in str(query.exception()):
            break
    return query


@contextmanager
def warmed(
    spark: SparkSession, monitor: TrafficJob
) -> Iterator[tuple[Replay, tuple[StreamingQuery, ...]]]:
    """Give the running queries, which have read half of their lead in small batches."""
    with running(spark, monitor) as run:
        replay = Replay(monitor.feeds, run.check)
        replay.lead_in([rows // 2 for rows in monitor.lead], batches=_WARM_BATCHES)
        yield replay, run.queries


def results(spark: SparkSession, monitor: TrafficJob) -> DataFrame:
    """Return all that the queries have reported so far."""
    tables = (spark.table(_name(number)) for number in monitor.substreams)
    return reduce(lambda above, below: above.union(below), tables)


def expected(spark: SparkSession, monitor: TrafficJob, substream: int) -> DataFrame:
    """Return what a stopped query should have reported, by a batch job over what it has read."""
    from pyspark.sql import functions as f

    last = committed_batches(monitor.checkpoint(substream))[-1]
    lines = (monitor.checkpoint(substream) / "offsets" / str(last.batch)).read_text().splitlines()
    watermark_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    packets = replayed_batch(spark, monitor.recordings[substream], until=last.end)
    results = monitored(packets, monitor.aggregations)
    return results.where(f.unix_millis("end") <= watermark_ms)


def _name(substream: int) -> str:
    return f"substream_{substream}"
