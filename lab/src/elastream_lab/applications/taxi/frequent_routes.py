"""DEBS 2015, query 1, as paper 004 (section 7.1) cuts it into operators, on Structured Streaming.

::

    parser ─ filterByCoordinates ─ computeRouteID ──► countByWindow ──► partialRank ──► globalRank
    (the source's stage)                              by route          by bucket       one group

A route's frequency is that of the last 30 minutes, reported once a minute of the data's time. The
paper's metronome, which pulses when that time advances, is Spark's watermark: a minute is reported
when no row of it can come any more. *partialRank* ranks the routes of each of some buckets,
*globalRank* the best of all buckets; only ten routes of a bucket have to travel. All three are
stateful operators of one query with a shuffle before each, so each is placed and scaled by itself.

Of equally frequent routes the one with the latest trip comes first, then the lower name. A minute
is named by its end: the ranking of 12:00 counts the trips that ended from 11:30 on, before 12:00.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elastream_lab.applications.taxi.grid import CELLS, EAST_STEP, NORTH, SOUTH_STEP, WEST
from elastream_lab.applications.taxi.plain import BEST as BEST
from elastream_lab.applications.taxi.plain import LENGTH_S, SLIDE_S
from elastream_lab.harness.service_time import slowed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_LENGTH: Final = f"{LENGTH_S} seconds"
_SLIDE: Final = f"{SLIDE_S} seconds"
_BUCKETS: Final = 16


def routes(trips: DataFrame) -> DataFrame:
    """Return ``at`` and ``route`` of every trip on the map: parse, filter, compute the route."""
    from pyspark.sql import functions as f

    cells = trips.select(
        f.col("dropoff_datetime").cast("timestamp").alias("at"),
        _cell("pickup").alias("start"),
        _cell("dropoff").alias("end"),
    )
    known = cells.where("at is not null and start is not null and end is not null")
    return known.select("at", f.concat_ws("-", "start", "end").alias("route"))


def frequent_routes(trips: DataFrame, *, service_us: float = 0.0) -> DataFrame:
    """Return, for every minute, the best routes: ``minute``, and ``best`` in their order.

    An entry of ``best`` has ``trips``, ``latest`` (seconds since the epoch) and ``route``. Works on
    a stream, in append mode, and on a table alike. A trip takes ``service_us`` longer, slept, to be
    counted.
    """
    from pyspark.sql import functions as f

    rows = routes(trips)
    if trips.isStreaming:
        rows = rows.withWatermark("at", "0 seconds")
    spans = rows.withColumn("span", f.window("at", _LENGTH, _SLIDE))
    if service_us:
        each_us = service_us * SLIDE_S / LENGTH_S
        spans = slowed(spans.repartition("span", "route"), each_us, "at", "route", "span")
    counted = spans.groupBy("span", "route").agg(
        f.count(f.lit(1)).alias("trips"), f.max(f.unix_timestamp("at")).alias("latest")
    )
    minute = f.window(f.window_time("span"), _SLIDE).alias("minute")
    bucket = f.pmod(f.hash("route"), f.lit(_BUCKETS)).alias("bucket")
    entry = f.struct((-f.col("trips")).alias("order"), (-f.col("latest")).alias("age"), "route")
    partial = counted.groupBy(minute, bucket).agg(_first(f.collect_list(entry)).alias("best"))
    last = f.window(f.window_time("minute"), _SLIDE).alias("slide")
    ranked = partial.groupBy(last).agg(_first(f.flatten(f.collect_list("best"))).alias("best"))
    shown = f.transform("best", _shown)
    return ranked.select(f.col("slide.end").alias("minute"), shown.alias("best"))


def _first(entries: Column) -> Column:
    from pyspark.sql import functions as f

    return f.slice(f.array_sort(entries), 1, BEST)


def _shown(entry: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(
        (-entry["order"]).alias("trips"), (-entry["age"]).alias("latest"), entry["route"]
    )


def _cell(end: str) -> Column:
    """Return the cell of one end of a trip as ``east.south``; null off the map."""
    from pyspark.sql import functions as f

    east = f.floor((f.col(f"{end}_longitude") - WEST) / EAST_STEP) + 1
    south = f.floor((f.lit(NORTH) - f.col(f"{end}_latitude")) / SOUTH_STEP) + 1
    on_map = east.between(1, CELLS) & south.between(1, CELLS)
    return f.when(on_map, f.concat_ws(".", east, south))
