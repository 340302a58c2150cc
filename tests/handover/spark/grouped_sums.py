"""A windowed aggregation to hand over: the papers' queries have joins and windows of rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastream.handover.model import QueryShape, Start, Window
from elastream.handover.spark.windowed import COORDINATE, WindowedQuery
from elastream_lab.applications.readings.source import Readings, readings_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def grouped_sums(
    readings: Readings, *, length_ms: int, slide_ms: int, utmost: bool = False
) -> WindowedQuery:
    """Return count and sum for each place and time window, and the greatest measure if wanted."""
    window = Window.of("time", length_ms, slide_ms)

    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        return (readings_stream(spark, readings, start),)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        rows = inputs[0]
        spans = f.window("at", f"{length_ms} milliseconds", f"{slide_ms} milliseconds")
        if slide_ms > length_ms:  # Spark has none with gaps between them: leave the gaps out
            rows = rows.where(f.unix_millis("at") % slide_ms < length_ms)
            spans = f.window("at", f"{slide_ms} milliseconds")
        sums = [f.count(f.lit(1)).alias("rows"), f.sum("measure").alias("total")]
        if utmost:
            sums.append(f.max("measure").alias("utmost"))
        grouped = rows.groupBy(spans.alias("span"), "place").agg(*sums)
        start = f.unix_millis("span.start").alias(COORDINATE)
        return grouped.select(start, *grouped.drop("span").columns)

    shape = QueryShape("sums", window, 1, lateness=readings.late_ms)
    return WindowedQuery(shape, inputs, results)
