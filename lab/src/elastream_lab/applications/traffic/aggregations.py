"""The aggregations of a traffic monitor (paper 003, section 7.3.5), on Structured Streaming.

::

    packets of a ──► shuffle by window and key ──► count, mean size   of each second
    sub-stream  ├──► shuffle by window and key ──► count, mean size   of each minute
                ├──► shuffle by window and key ──► count, mean size   of the last 10 seconds
                └──► shuffle by window and key ──► count, mean size   of the last minute

The number of packets and their mean size, for each second and each minute, and for the last ten
seconds and the last minute reported every few seconds, by source and by source and destination. The
paper's 16 aggregations are four stateful operators here: one keeps both figures, and the results of
both keys, for a shuffle costs Spark more than a row. All four of a sub-stream are one query. They
share no task: each has state partitions of its own, which are placed by themselves.

A result is reported when no packet of its window can come any more (append mode). The paper leaves
open how often a sliding window is reported; here it is every 2 and every 10 seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from elastream_lab.harness.replay import POSITION
from elastream_lab.harness.service_time import slowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_WATERMARK: Final = "0 seconds"
"""Packets of a recording come in the order of their times, so none is late."""
_KEYS: Final = ("window", "source", "destination")


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One stateful operator of the monitor."""

    name: str
    length_s: int
    slide_s: int
    """How often a window begins; equal to ``length_s`` where windows do not overlap."""

    @property
    def rows_a_packet(self) -> int:
        """How many results a packet is counted in: for each of its windows, one for each key."""
        return 2 * (self.length_s // self.slide_s)


AGGREGATIONS: Final = (
    Aggregation("each second", 1, 1),
    Aggregation("each minute", 60, 60),
    Aggregation("last 10 seconds", 10, 2),
    Aggregation("last minute", 60, 10),
)
"""All of them."""


def monitored(
    packets: DataFrame,
    aggregations: Sequence[Aggregation] = AGGREGATIONS,
    *,
    service_us: float = 0.0,
    rounds_a_ms: float | None = None,
) -> DataFrame:
    """Return the results of all aggregations, one below the other; of a stream and a table alike.

    The columns are ``aggregation``, ``begin``, ``end``, ``source``, ``destination`` (null in the
    results by source alone), ``packets`` and ``mean_size``. A packet costs every result that it is
    counted in ``service_us``, slept where the state is, or burnt where ``rounds_a_ms`` says how.
    """
    if packets.isStreaming:
        packets = packets.withWatermark("time", _WATERMARK)
    each = (
        aggregated(packets, aggregation, service_us=service_us, rounds_a_ms=rounds_a_ms)
        for aggregation in aggregations
    )
    return reduce(lambda above, below: above.unionByName(below), each)


def aggregated(
    packets: DataFrame,
    aggregation: Aggregation,
    *,
    service_us: float,
    rounds_a_ms: float | None = None,
) -> DataFrame:
    """Return the results of one aggregation."""
    from pyspark.sql import functions as f

    span = f.window("time", f"{aggregation.length_s} seconds", f"{aggregation.slide_s} seconds")
    by_both = f.array(f.lit(None).cast("string"), f.col("destination"))
    rows = packets.select(
        POSITION, "time", "source", "size", f.explode(by_both).alias("destination")
    )
    rows = rows.select(POSITION, span.alias("window"), "source", "destination", "size")
    if service_us:
        place = (POSITION, "window", "destination")
        rows = slowed(rows.repartition(*_KEYS), service_us, *place, rounds_a_ms=rounds_a_ms)
    results = rows.groupBy(*_KEYS).agg(
        f.count(f.lit(1)).alias("packets"), f.avg("size").alias("mean_size")
    )
    return results.select(
        f.lit(aggregation.name).alias("aggregation"),
        f.col("window.start").alias("begin"),
        f.col("window.end").alias("end"),
        "source",
        "destination",
        "packets",
        "mean_size",
    )
