"""Windowed queries to hand over: aggregations over time and rows, joins; the paper's Q1 and Q2.

Paper 002, section 4. Q1 joins the readings of two streams by place over windows of 10 seconds; its
windows slide with every tick, so two readings are joined if they are less than 10 seconds apart.
Q2 sums the last five readings, a window for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from elastream.model.handover import QueryShape, Window
from elastream.spark.handover.readings import Readings, readings_stream
from elastream.spark.handover.row_windows import windows_of_rows
from elastream.spark.handover.windowed import COORDINATE, WindowedQuery

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["grouped_sums", "joined_readings", "row_sums"]

Inputs = Callable[["SparkSession", bool], "tuple[DataFrame, ...]"]


def grouped_sums(readings: Readings, *, length_ms: int, slide_ms: int) -> WindowedQuery:
    """Return count and sum for each place and time window."""
    window = Window.of("time", length_ms, slide_ms)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        spans = f.window("at", f"{length_ms} milliseconds", f"{slide_ms} milliseconds")
        sums = (f.count(f.lit(1)).alias("rows"), f.sum("measure").alias("total"))
        grouped = inputs[0].groupBy(spans.alias("span"), "place").agg(*sums)
        start = f.unix_millis("span.start").alias(COORDINATE)
        return grouped.select(start, "place", "rows", "total")

    return WindowedQuery(QueryShape("sums", window, 1), _streams([readings]), results)


def joined_readings(readings: Readings, *, length_ms: int = 10_000) -> WindowedQuery:
    """Return Q1: the pairs of two streams with the same place, less than a window apart."""
    window = Window.of("time", length_ms, 1)
    streams = [replace(readings, stream=stream) for stream in (0, 1)]

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        left, right = (_named(rows, side) for rows, side in zip(inputs, "st", strict=True))
        reach = f.expr(f"INTERVAL {length_ms / 1000:.3f} SECONDS")
        near = (f.col("s_at") > f.col("t_at") - reach) & (f.col("s_at") < f.col("t_at") + reach)
        pairs = left.join(right, (f.col("s_place") == f.col("t_place")) & near)
        earlier = f.least(f.unix_millis("s_at"), f.unix_millis("t_at")).alias(COORDINATE)
        shown: list[Column | str] = [earlier, "s_position", "t_position", "s_place"]
        return pairs.select(*shown, "s_measure", "t_measure")

    return WindowedQuery(QueryShape("q1", window, 2, "join"), _streams(streams), results)


def row_sums(readings: Readings, *, length: int = 5, slide: int = 1) -> WindowedQuery:
    """Return Q2: the sum over windows of rows."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        return windows_of_rows(inputs[0], length=length, value="measure")

    shape = QueryShape("q2", Window.of("rows", length, slide), 1)
    return WindowedQuery(shape, _streams([readings]), results)


def _streams(readings: Sequence[Readings]) -> Inputs:
    def inputs(spark: SparkSession, from_now: bool) -> tuple[DataFrame, ...]:
        connect = "now" if from_now else "start"
        return tuple(readings_stream(spark, each, connect=connect) for each in readings)  # type: ignore[arg-type]

    return inputs


def _named(rows: DataFrame, prefix: str) -> DataFrame:
    return rows.select(*(rows[name].alias(f"{prefix}_{name}") for name in rows.columns))
