"""The pattern miner on a replay of posts: a job that can be started, stopped and gone on with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.model.checks import count, non_negative
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream_lab.applications.patterns.maximal import maximal_patterns, words_in_order
from elastream_lab.applications.patterns.plain_miner import Mining, differing, mined
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.job import Feed
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import POSITION, ReplayClock, replayed, replayed_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(slots=True)
class PatternsJob:
    """What job, checked when made, and what its query has reported so far."""

    recording: Recording
    clock: ReplayClock
    checkpoint: Path
    mining: Mining
    partitions: int = 4
    """State partitions of each of the two operators."""
    trigger_s: float = 1.0
    rows_a_batch: int | None = None
    service_us: float = 0.0
    """What a pattern costs where it is counted, in each window that it is in: slept."""
    reported: dict[int, frozenset[str]] = field(default_factory=dict)
    """The maximal frequent patterns after every tick that has some."""
    reported_in: dict[int, int] = field(default_factory=dict)
    """The batch that reported a tick."""
    reported_twice: int = 0
    """Ticks that were reported again with other values."""

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        non_negative("trigger_s", self.trigger_s)
        non_negative("service_us", self.service_us)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The posts."""
        return (Feed(self.recording, self.clock, self.checkpoint),)

    def start(self, spark: SparkSession) -> tuple[StreamingQuery, ...]:
        """Start the job, or go on with it where its checkpoint ends."""
        posts = replayed(spark, self.recording, self.clock, rows_a_batch=self.rows_a_batch)

        def tell(batch: DataFrame, number: int) -> None:
            ticks: dict[int, set[str]] = {}
            for row in batch.collect():
                ticks.setdefault(row["tick"], set()).add(row["pattern"])
            self.handle(number, {tick: frozenset(patterns) for tick, patterns in ticks.items()})

        patterns = maximal_patterns(posts, self.mining, service_us=self.service_us)
        writer = patterns.writeStream.outputMode("append")
        writer = writer.foreachBatch(tell).queryName("maximal_patterns")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer = writer.trigger(processingTime=f"{self.trigger_s:g} seconds")
        with changed_settings(spark, {PARTITIONS: str(self.partitions)}):
            return (writer.start(),)

    def handle(self, batch: int, ticks: dict[int, frozenset[str]]) -> None:
        """Take in the ticks that a batch has closed."""
        for tick, patterns in ticks.items():
            self.reported_twice += self.reported.get(tick, patterns) != patterns
            self.reported[tick] = patterns
            self.reported_in[tick] = batch

    def wrong(self, spark: SparkSession) -> int:
        """Return how many ticks differ from the plain miner's, or were reported twice."""
        expected = mined(self.posts(spark), self.mining)
        return differing(self.reported, expected) + self.reported_twice

    def wrong_so_far(self, spark: SparkSession) -> int:
        """Return the same of a job that was stopped on the way, for the ticks up to the last."""
        until = max(self.reported, default=0)
        expected = mined(self.posts(spark, until=until + 1), self.mining)
        return differing(self.reported, expected) + self.reported_twice

    def posts(self, spark: SparkSession, *, until: int | None = None) -> list[list[str]]:
        """Return the words of every post, or of the first ones, in the order of the stream."""
        from pyspark.sql import functions as f

        most = self.recording.rows
        rows = replayed_batch(spark, self.recording, until=min(until or most, most))
        words = rows.select(POSITION, words_in_order(f.col("text")).alias("words")).toArrow()
        return [row["words"] for row in words.sort_by(POSITION).to_pylist()]

    def lag_batches(self) -> int | None:
        """Return after how many batches, at most, a tick was reported after a later post came."""
        ends = {batch.batch: batch.end for batch in committed_batches(self.checkpoint)}
        lags = []
        for tick, reported_in in self.reported_in.items():
            closing = [batch for batch, end in ends.items() if end > tick]
            if closing and reported_in in ends:
                lags.append(reported_in - min(closing))
        return max(lags, default=None)
