"""The main job: words of a stream of posts, counted in a stateful stage that costs a stated time.

::

    posts ── split into words ──► shuffle by word ──► sleep ──► count, with RocksDB state
             (source's stage)                         (one stage, one task a state partition)

Every word costs ``service_us`` that is slept, or burnt, where its state is, as
:mod:`elastream_lab.harness.service_time` shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import SparkError
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.job import Feed
from elastream_lab.harness.recording import Recording, write_recording
from elastream_lab.harness.replay import POSITION, ReplayClock, replayed, replayed_batch
from elastream_lab.harness.service_time import slowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


BALLAST: Final = "ballast_"
"""Words that begin so get a state of ``ballast_bytes`` each; no others do."""

_BALLAST_STATE: Final = "max"
"""Spark's name for the ballast in the state: that of the function that keeps it."""
_HASH_BYTES: Final = 128
_WARM_UP_POSTS: Final = 20_000
_WARM_UP_POSTS_A_BATCH: Final = 100
_WORD: Final = r"[\p{L}\p{N}_]+"
_SEPARATORS: Final = r"[^\p{L}\p{N}_]+"


@dataclass(frozen=True, slots=True)
class WordCount:
    """What job; checked when made."""

    recording: Recording
    clock: ReplayClock
    checkpoint: Path
    """Where this machine finds the checkpoint."""
    partitions: int = 12
    """How many state partitions there are (m)."""
    service_us: float = 0.0
    """What a word costs in the stateful stage; 0 for nothing."""
    trigger_s: float = 1.0
    rows_a_batch: int | None = None
    ballast_bytes: int = 0
    """State of each word that begins with ``BALLAST``: makes the state large without any load.
    Where the word comes again all of it is written again."""
    rounds_a_ms: float | None = None
    """How many rounds of hashing burn a millisecond of service time; ``None``: it is slept."""
    uri: str | None = None
    """What Spark calls the checkpoint; ``None``: as this machine does."""

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        count("ballast_bytes", self.ballast_bytes)
        non_negative("service_us", self.service_us)
        non_negative("trigger_s", self.trigger_s)
        if self.rounds_a_ms is not None:
            positive("rounds_a_ms", self.rounds_a_ms)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The posts."""
        return (Feed(self.recording, self.clock, self.checkpoint),)

    @property
    def location(self) -> str:
        """Where Spark finds the checkpoint."""
        return self.uri or str(self.checkpoint)

    def start(self, spark: SparkSession) -> tuple[StreamingQuery, ...]:
        """Start the job, or go on with it where its checkpoint ends."""
        posts = replayed(spark, self.recording, self.clock, rows_a_batch=self.rows_a_batch)
        counts = _counts(_slowed_words(_words(posts), self), self.ballast_bytes)
        writer = counts.writeStream.format("noop").outputMode("update")
        writer = writer.option("checkpointLocation", self.location).queryName("word_count")
        writer = writer.trigger(processingTime=f"{self.trigger_s:g} seconds")
        with changed_settings(spark, {PARTITIONS: str(self.partitions)}):
            return (writer.start(),)

    def wrong(self, spark: SparkSession) -> int:
        """Return how many words have another count in the state than a batch job finds."""
        last = committed_batches(self.checkpoint)[-1]
        return differences(counted_so_far(spark, self), counted_anew(spark, self, until=last.end))


def warm_up_stream(spark: SparkSession, job: WordCount) -> DataFrame:
    """Return a small stream of the job's shape, to warm new executors with.

    Its source is the job's too: what reads posts is cold in a new executor, like all else.
    """
    recording = write_recording(
        job.clock.path.with_name("warm-up.arrow"),
        np.zeros(_WARM_UP_POSTS, dtype=np.int64),
        [f"word{row % 499} word{row % 251} word{row % 101}" for row in range(_WARM_UP_POSTS)],
    )
    clock = ReplayClock(job.clock.path.with_name("warm-up-clock"))
    clock.open(_WARM_UP_POSTS)
    posts = replayed(spark, recording, clock, rows_a_batch=_WARM_UP_POSTS_A_BATCH)
    return _counts(_slowed_words(_words(posts), job), job.ballast_bytes)


def counted_so_far(spark: SparkSession, job: WordCount) -> Mapping[str, int]:
    """Return the count of every word in the state of the last committed batch.

    Raises ``SparkError`` where the state is not sound: a word held twice, or ballast damaged.
    """
    from pyspark.sql import functions as f

    state = spark.read.format("statestore").load(job.location)
    columns = [f.col("key.word"), f.col("value.count")]
    if job.ballast_bytes:
        expected = _ballast(f.col("key.word"), job.ballast_bytes)
        columns.append((~f.col(f"value.{_BALLAST_STATE}").eqNullSafe(expected)).alias("damaged"))
    rows = state.select(*columns).toArrow().to_pydict()
    if damaged := sum(rows.get("damaged", ())):
        raise SparkError(f"the ballast of {damaged} words is damaged")
    counts = dict(zip(rows["word"], rows["count"], strict=True))
    if len(counts) != len(rows["word"]):
        raise SparkError("a word is in two state partitions")
    return counts


def counted_anew(spark: SparkSession, job: WordCount, *, until: int) -> Mapping[str, int]:
    """Return the count of every word in the first ``until`` posts, by a batch job without state."""
    words = _words(replayed_batch(spark, job.recording, until=until))
    rows = words.groupBy("word").count().toArrow().to_pydict()
    return dict(zip(rows["word"], rows["count"], strict=True))


def differences(found: Mapping[str, int], expected: Mapping[str, int]) -> int:
    """Return how many words have another count, or one where the other has none."""
    return sum(found.get(word) != expected.get(word) for word in found.keys() | expected.keys())


def _words(posts: DataFrame) -> DataFrame:
    """Return a row for each word, with its place in the stream."""
    from pyspark.sql import functions as f

    parts = f.posexplode(f.split(f.lower("text"), _SEPARATORS)).alias("place", "word")
    return posts.select(POSITION, parts).where("word <> ''")


def words_of(text: Column) -> Column:
    """Return the words of a text as the job counts them, in one array."""
    from pyspark.sql import functions as f

    return f.regexp_extract_all(f.lower(text), f.lit(_WORD), f.lit(0))


def _slowed_words(words: DataFrame, job: WordCount) -> DataFrame:
    at = words.repartition("word")
    return slowed(at, job.service_us, POSITION, "place", rounds_a_ms=job.rounds_a_ms)


def _counts(words: DataFrame, ballast_bytes: int) -> DataFrame:
    from pyspark.sql import functions as f

    counts = f.count(f.lit(1)).alias("count")
    groups = words.groupBy("word")
    if not ballast_bytes:
        return groups.agg(counts)
    return groups.agg(counts, f.max(_ballast(f.col("word"), ballast_bytes)).alias("ballast"))


def _ballast(word: Column, size_bytes: int) -> Column:
    """Return a text that cannot be compressed away and follows from the word."""
    from pyspark.sql import functions as f

    numbers = f.sequence(f.lit(1), f.lit(math.ceil(size_bytes / _HASH_BYTES)))
    hashes = f.transform(numbers, lambda number: f.sha2(f.concat(word, number), 512))
    return f.when(word.startswith(BALLAST), f.array_join(hashes, ""))
