"""Windowed queries to hand over: the paper's Q1 to Q3.

Paper 002, section 4. Q1 joins the readings of two streams by place over windows of 10 seconds; its
windows slide with every tick, so two readings are joined if they are less than 10 seconds apart.
Q2 sums the last five readings, a window for each row. Q3 sums over the last five results of Q1's
join.

**Q3's controlling window** is the last one, that of rows (section 3.1). ISTREAM puts a pair out
when its later reading comes, so pairs are counted in the order of their *later* timestamps. They
do not carry the earliest timestamp of what they are made of, and the target gets every pair only a
join's length after it sees every reading
(:func:`~elastream.handover.point.whole_at_controlling`). The join suppresses nothing: a pair in
the overlap is wanted on both sides (3.2.1, last sentence), and each window of rows has one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from elastream.handover.model import QueryShape, Start, Window
from elastream.handover.point import WindowOperator
from elastream.handover.spark.row_windows import RowWindows
from elastream.handover.spark.windowed import COORDINATE, WindowedQuery
from elastream_lab.applications.readings.source import Readings, readings_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData


Inputs = Callable[["SparkSession", Start], "tuple[DataFrame, ...]"]


def both_streams(readings: Readings, later_ms: int = 0) -> tuple[Readings, Readings]:
    """Return the readings of S and of T; T starts so much later."""
    later = replace(readings, stream=1, start_ms=readings.start_ms + later_ms)
    return replace(readings, stream=0), later


def joined_readings(
    readings: Readings, *, length_ms: int = 10_000, later_ms: int = 0
) -> WindowedQuery:
    """Return Q1: the pairs of two streams with the same place, less than a window apart."""
    window = Window.of("time", length_ms, 1)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        earlier = f.least(f.unix_millis("s_at"), f.unix_millis("t_at")).alias(COORDINATE)
        shown: list[Column | str] = [earlier, "s_position", "t_position", "s_place"]
        return _pairs(inputs, length_ms).select(*shown, "s_measure", "t_measure")

    shape = QueryShape("q1", window, 2, "join", readings.late_ms)
    return WindowedQuery(shape, _streams(both_streams(readings, later_ms)), results)


def row_sums(readings: Readings, *, length: int = 5, slide: int = 1) -> WindowedQuery:
    """Return Q2: the sum over windows of rows."""
    shape = QueryShape("q2", Window.of("rows", length, slide), 1, lateness=readings.late_ms)
    rows = RowWindows(_total("measure"), order=["position"])
    return WindowedQuery(shape, _streams([readings]), lambda inputs: inputs[0], rows=rows)


def pair_sums(
    readings: Readings,
    *,
    range_ms: int = 10_000,
    length: int = 5,
    slide: int = 1,
    later_ms: int = 0,
) -> WindowedQuery:
    """Return Q3: the sum of S's measures over windows of rows, the rows being Q1's pairs."""
    window, join = Window.of("rows", length, slide), Window.of("time", range_ms, 1)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        later = f.greatest("s_at", "t_at").alias("at")
        return _pairs(inputs, range_ms).select(later, "s_position", "t_position", "s_measure")

    order = ["s_position", "t_position"]
    rows = RowWindows(_total("s_measure"), order=order, reach_ms=range_ms)
    operation = f"rows over a join of {range_ms} ms"
    shape = QueryShape("q3", window, 2, operation, readings.late_ms)
    inputs = _streams(both_streams(readings, later_ms))
    before = (WindowOperator(join, earliest=False),)
    return WindowedQuery(shape, inputs, results, before, rows=rows)


def _total(column: str) -> Callable[[GroupedData], DataFrame]:
    def total(windows: GroupedData) -> DataFrame:
        from pyspark.sql import functions as f

        return windows.agg(f.sum(column).alias("total"))

    return total


def _pairs(inputs: tuple[DataFrame, ...], length_ms: int) -> DataFrame:
    """Return the pairs of equal place that are less than ``length_ms`` apart."""
    from pyspark.sql import functions as f

    left, right = (_named(rows, side) for rows, side in zip(inputs, "st", strict=True))
    reach = f.expr(f"INTERVAL {length_ms / 1000:.3f} SECONDS")
    near = (f.col("s_at") > f.col("t_at") - reach) & (f.col("s_at") < f.col("t_at") + reach)
    return left.join(right, (f.col("s_place") == f.col("t_place")) & near)


def _streams(readings: Sequence[Readings]) -> Inputs:
    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        return tuple(readings_stream(spark, each, start) for each in readings)

    return inputs


def _named(rows: DataFrame, prefix: str) -> DataFrame:
    return rows.select(*(rows[name].alias(f"{prefix}_{name}") for name in rows.columns))
