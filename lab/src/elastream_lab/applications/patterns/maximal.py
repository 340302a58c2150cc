"""Maximal frequent patterns as a stream: section 6 of papers 000 and 001, figure 8 of 000.

::

    posts ─ words ─ pattern generator ──► counts of the window ──► maximal among the frequent
            (the source's stage)          by pattern               by pattern that may be covered

The papers' detector feeds the frequent patterns back to itself, to suppress those that are part of
a larger one. A plan of Spark has no cycle, so the check is a *second keyed stage*: each frequent
pattern is sent to itself, and to every pattern that it has one word more than. A pattern that hears
from itself and from no one else is maximal. That is enough, for whatever is part of a larger
frequent pattern is part of a frequent one with a single word more.

Windows take the place of +1 and -1: a post is counted in each of the ``window / tick`` windows that
it is in, and in none that it has left. Posts are numbered, and their number is their event time, so
what a tick shows depends on the posts alone, not on how batches cut them. It is reported once the
watermark is past its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastream_lab.applications.patterns.plain_miner import Mining
from elastream_lab.harness.replay import POSITION
from elastream_lab.harness.service_time import slowed
from elastream_lab.harness.word_count import words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def words_in_order(text: Column) -> Column:
    """Return the words of a post, each once, in a fixed order."""
    from pyspark.sql import functions as f

    return f.array_sort(f.array_distinct(words_of(text)))


def maximal_patterns(posts: DataFrame, mining: Mining, *, service_us: float = 0.0) -> DataFrame:
    """Return ``tick, pattern``: what is maximal frequent after each tick.

    Works on a stream, in append mode, and on a table alike. Each pattern of a window takes
    ``service_us`` where it is counted (:mod:`elastream_lab.harness.service_time`).
    """
    from pyspark.sql import functions as f

    length, slide = f"{mining.window} seconds", f"{mining.tick} seconds"
    at = f.timestamp_seconds(f.col(POSITION)).alias("at")
    rows = posts.select(at, words_in_order(f.col("text")).alias("words"))
    if posts.isStreaming:
        rows = rows.withWatermark("at", "0 seconds")
    each = rows.select("at", f.explode(_patterns(mining.most_words)).alias("pattern"))
    spans = each.select(f.window("at", length, slide).alias("span"), "pattern", "at")
    if service_us:
        there = spans.repartition("span", "pattern")
        spans = slowed(there, service_us, "at", "span", "pattern")
    counted = spans.groupBy("span", "pattern").agg(f.count(f.lit(1)).alias("posts"))
    frequent = counted.where(f.col("posts") >= mining.least)
    report = frequent.select(
        f.window_time("span").alias("until"), f.explode(_reported()).alias("reported")
    ).select("until", "reported.*")
    tick = f.window("until", slide).alias("tick")
    result = report.groupBy(tick, "pattern").agg(
        f.bool_or("own").alias("frequent"), f.bool_or(~f.col("own")).alias("covered")
    )
    return result.where("frequent and not covered").select(
        f.unix_timestamp("tick.end").alias("tick"), "pattern"
    )


def _patterns(most_words: int) -> Column:
    """Return all patterns of the column ``words``, as texts."""
    from pyspark.sql import functions as f

    words = f.col("words")
    level = f.transform(words, lambda word, place: f.struct(place.alias("at"), word.alias("key")))
    levels = [level]
    for _ in range(1, most_words):
        level = f.flatten(f.transform(level, lambda entry: _longer(words, entry)))
        levels.append(level)
    return f.transform(f.flatten(f.array(*levels)), lambda entry: entry["key"])


def _longer(words: Column, entry: Column) -> Column:
    """Return a pattern with each word more that comes after its last."""
    from pyspark.sql import functions as f

    rest = f.slice(words, entry["at"] + 2, f.size(words))
    return f.transform(
        rest,
        lambda word, place: f.struct(
            (entry["at"] + 1 + place).alias("at"), f.concat_ws(" ", entry["key"], word).alias("key")
        ),
    )


def _reported() -> Column:
    """Return whom a frequent pattern shows: itself, and those it has one word more than."""
    from pyspark.sql import functions as f

    words = f.split("pattern", " ")
    own = f.array(f.struct(f.col("pattern"), f.lit(True).alias("own")))
    covered = f.transform(
        words,
        lambda _, left_out: f.struct(
            f.array_join(f.filter(words, lambda _, place: place != left_out), " ").alias("pattern"),
            f.lit(False).alias("own"),
        ),
    )
    covers_none = f.slice(covered, 1, 0)
    return f.concat(own, f.when(f.size(words) > 1, covered).otherwise(covers_none))
