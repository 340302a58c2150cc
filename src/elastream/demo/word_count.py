"""The query of the demo: words of posts, counted in a stateful stage that costs a stated time.

::

    files of posts ── split into words ──► shuffle by word ──► sleep ──► count, with RocksDB state
                                                               (one task for each state partition)

On a machine with fewer cores than executors, work that burns CPU cannot scale. So every word costs
a time that is slept, in the task that holds its state: an executor without state does not help.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.spark.sessions.settings import PARTITIONS, changed_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_STATE_PARTITIONS: Final = 8
_TRIGGER: Final = "500 milliseconds"
"""More often than files come, so that a query that is behind catches up."""
_LEAST_NAP_US: Final = 1000.0
"""A timer is too coarse for less: one word sleeps for several."""


def start_counting(
    spark: SparkSession, folder: Path, checkpoint: Path, *, service_us: float
) -> StreamingQuery:
    """Start the query; each batch takes the next file of the folder."""
    posts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    writer = _counts(posts, service_us).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint)).queryName("word_count")
    with changed_settings(spark, {PARTITIONS: str(_STATE_PARTITIONS)}):
        return writer.trigger(processingTime=_TRIGGER).start()


def warm_up_stream(spark: SparkSession, *, service_us: float) -> DataFrame:
    """Return a small stream of the query's shape, to warm new executors with."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    posts = rows.selectExpr("concat('a', value % 251, ' b', value % 101) AS value")
    return _counts(posts, service_us)


def wrong_words(spark: SparkSession, posts: Path, checkpoint: Path) -> int:
    """Return how many words have another count in the state than in the files of posts."""
    state = spark.read.format("statestore").load(str(checkpoint)).select("key.word", "value.count")
    words = Counter(word for file in posts.glob("*.txt") for word in file.read_text().split())
    found, expected = Counter(map(tuple, state.collect())), Counter(words.items())
    return len({word for word, _ in (found - expected) + (expected - found)})


def _counts(posts: DataFrame, service_us: float) -> DataFrame:
    """Count words; each costs ``service_us`` where its state is."""
    from pyspark.sql import functions as f

    every = max(1, math.ceil(_LEAST_NAP_US / service_us))
    nap_ns = round(1000 * every * service_us)
    park = f"reflect('java.util.concurrent.locks.LockSupport', 'parkNanos', {nap_ns}L) is not null"
    words = _words(posts).repartition("word")  # as the count needs it: there is no second shuffle
    return words.where((f.rand(1) * every >= 1) | f.expr(park)).groupBy("word").count()


def _words(posts: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return posts.select(f.explode(f.split("value", " ")).alias("word"))
