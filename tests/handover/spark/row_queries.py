"""Queries with windows of rows of many kinds, and what they put out.

Each is computed a second time in plain Python over the same readings, in the way an unbroken run
would: number the rows of each group by time, cut windows, and make something of each.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from tests.handover.spark.expected import SLACK_MS, Expected, Result

from elastream.handover.model import QueryShape, Start, Window
from elastream.handover.point import WindowOperator
from elastream.handover.spark.row_windows import RowWindowJoin, RowWindows
from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.queries import both_streams
from elastream_lab.applications.readings.source import Reading, Readings, readings_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData

Made = tuple[WindowedQuery, Expected]
Rows = Sequence[Reading]
Group = tuple[Any, ...]

GROUPS: dict[str, Callable[[Reading], Group]] = {
    "": lambda _: (),
    "place": lambda row: (row[2],),
    "halves": lambda row: (row[3] % 2 if row[3] % 5 else None, row[2]),
}
"""All rows, a column, and two of other types with nulls among them."""


AGGREGATES: dict[str, tuple[Callable[[Any], Column], Callable[[Rows], Any]]] = {
    "z_sum": (lambda f: f.sum("measure"), lambda rows: sum(row[3] for row in rows)),
    "z_mean": (
        lambda f: f.round(f.avg("measure"), 6),
        lambda rows: round(fmean(row[3] for row in rows), 6),
    ),
    "z_distinct": (lambda f: f.count_distinct("where"), lambda rows: len({row[2] for row in rows})),
    "z_last": (lambda f: f.max_by("where", "row_number"), lambda rows: rows[-1][2]),
    "z_span": (
        lambda f: f.unix_millis(f.max("at")) - f.unix_millis(f.min("at")),
        lambda rows: rows[-1][1] - rows[0][1],
    ),
    "z_listed": (
        lambda f: f.to_json(
            f.transform(
                f.array_sort(f.collect_list(f.struct("row_number", "pair.measure"))),
                lambda each: each["measure"],
            )
        ),
        lambda rows: str([row[3] for row in rows]).replace(" ", ""),
    ),
    "z_middle": (
        lambda f: f.percentile("measure", f.lit(0.5)),
        lambda rows: float(median(row[3] for row in rows)),
    ),
    "z_exact": (
        lambda f: f.sum("amount").cast("string"),
        lambda rows: f"{sum(row[3] for row in rows) / 4:.2f}",
    ),
}
"""Aggregates as Spark has them, and in plain Python over the rows of a window."""


def grouped_windows(
    made: Readings, dice: random.Random, length: int, slide: int, groups: str
) -> Made:
    """Aggregates over the windows of each group; rows of several types, nested ones among them."""
    names = sorted(dice.sample(sorted(AGGREGATES), dice.randint(1, 4)))
    chosen = {name: AGGREGATES[name] for name in names}

    def of(windows: GroupedData) -> DataFrame:
        from pyspark.sql import functions as f

        return windows.agg(*(spark(f).alias(name) for name, (spark, _) in chosen.items()))

    rows = RowWindows(of, by=_by(groups), order=dice.choice([(), ("position",)]))
    shape = QueryShape("row windows", Window.of("rows", length, slide), 1, "agg", made.late_ms)
    query = WindowedQuery(shape, _inputs([made]), lambda inputs: _wide(inputs[0]), rows=rows)
    newest = max(row[1] for row in made.all()) - made.late_ms - 1
    found = _grouped(made.all(), groups)
    plain = [each for _, each in chosen.values()]
    return query, _expected(
        (
            ((window[0][1], window[-1][1]), start, group, [of_rows(window) for of_rows in plain])
            for group, listed in found.items()
            for start in range(0, len(listed) - length + 1, slide)
            for window in [listed[start : start + length]]
        ),
        newest,
    )


def joined_windows(made: Readings, length: int, slide: int, groups: str, *, on_place: bool) -> Made:
    """Pairs of two streams that share a window of rows of their group."""

    def of(pairs: DataFrame) -> DataFrame:
        shown = ("coordinate", "number", *_by(groups))
        return pairs.selectExpr(*shown, "left.position AS s", "right.position AS t")

    both = both_streams(made)
    rows = RowWindowJoin(of, by=_by(groups), on=("where",) if on_place else (), order=("position",))
    shape = QueryShape("row pairs", Window.of("rows", length, slide), 2, "join", made.late_ms)
    query = WindowedQuery(
        shape, _inputs(both), lambda inputs: tuple(_wide(rows) for rows in inputs), rows=rows
    )
    newest = min(max(row[1] for row in each.all()) for each in both) - made.late_ms - 1
    lefts, rights = (_grouped(each.all(), groups) for each in both)
    reports = []
    for group in lefts.keys() & rights.keys():
        left, right = lefts[group], rights[group]
        seen = set()
        for start in range(0, min(len(left), len(right)) - length + 1, slide):
            s, t = left[start : start + length], right[start : start + length]
            times = (min(s[0][1], t[0][1]), max(s[-1][1], t[-1][1]))
            for one in s:
                for other in t:
                    if (one[0], other[0]) in seen or (on_place and one[2] != other[2]):
                        continue
                    seen.add((one[0], other[0]))
                    reports.append((times, start, group, [one[0], other[0]]))
    return query, _expected(reports, newest)


def windows_over_a_join(
    made: Readings, range_ms: int, length: int, slide: int, groups: str
) -> Made:
    """Windows of rows over the pairs of a join by time, for each group."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        left, right = (
            rows.select(*(f.col(name).alias(f"{side}_{name}") for name in rows.columns))
            for rows, side in zip(inputs, "st", strict=True)
        )
        reach = f.expr(f"INTERVAL {range_ms / 1000:.3f} SECONDS")
        near = (f.col("s_at") > f.col("t_at") - reach) & (f.col("s_at") < f.col("t_at") + reach)
        pairs = left.join(right, (f.col("s_place") == f.col("t_place")) & near)
        return pairs.select(
            f.greatest("s_at", "t_at").alias("at"),
            f.col("s_place").alias("place"),
            *("s_position", "t_position", "s_measure", "t_measure"),
        )

    def of(windows: GroupedData) -> DataFrame:
        from pyspark.sql import functions as f

        return windows.agg(f.sum(f.col("s_measure") * f.col("t_measure")).alias("z_product"))

    both = both_streams(made)
    order = ("s_position", "t_position")
    rows = RowWindows(of, by=_by(groups), order=order, reach_ms=range_ms)
    shape = QueryShape("over pairs", Window.of("rows", length, slide), 2, "chain", made.late_ms)
    before = (WindowOperator(Window.of("time", range_ms, 1), earliest=False),)
    query = WindowedQuery(shape, _inputs(both), results, before, rows=rows)
    streams = [each.all() for each in both]
    newest = min(max(row[1] for row in rows) for rows in streams) - made.late_ms - 1
    groups_of = defaultdict[Group, list[tuple[int, int, int, int]]](list)
    for s in streams[0]:
        for t in streams[1]:
            if s[2] == t[2] and abs(s[1] - t[1]) < range_ms:
                pair = (max(s[1], t[1]), s[0], t[0], s[3] * t[3])
                groups_of[GROUPS[groups](s)].append(pair)
    reports = []
    for group, pairs in groups_of.items():
        pairs.sort()
        for start in range(0, len(pairs) - length + 1, slide):
            window = pairs[start : start + length]
            product = sum(pair[3] for pair in window)
            reports.append(((window[0][0], window[-1][0]), start, group, [product]))
    return query, _expected(reports, newest)


def _wide(rows: DataFrame) -> DataFrame:
    """Rows with a decimal, a struct, an array, a map and nulls next to what they had."""
    from pyspark.sql import functions as f

    return rows.select(
        "*",
        (f.col("measure") % 2).alias("half"),
        f.col("place").alias("where"),
        (f.col("measure").cast("decimal(12,2)") / 4).cast("decimal(12,2)").alias("amount"),
        f.struct("measure", "place").alias("pair"),
        f.array("position", "measure").alias("both"),
        f.create_map("place", "measure").alias("mapped"),
        f.when(f.col("measure") % 3 == 0, f.col("place")).alias("sometimes"),
    ).withColumn("half", f.when(f.col("measure") % 5 != 0, f.col("half")))


def _by(groups: str) -> tuple[str, ...]:
    return {"": (), "place": ("place",), "halves": ("half", "place")}[groups]


def _grouped(rows: Iterable[Reading], groups: str) -> dict[Group, list[Reading]]:
    found = defaultdict[Group, list[Reading]](list)
    for row in sorted(rows, key=lambda row: (row[1], row[0])):
        found[GROUPS[groups](row)].append(row)
    return found


def _expected(
    reports: Iterable[tuple[tuple[int, int], int, Group, list[Any]]], newest: int
) -> Expected:
    """Results by window; those whose last row the watermark surely passes must come.

    Columns are in the order of their names: ``half`` comes before ``number``, ``place`` after it.
    """
    sure, possible = Counter[Result](), Counter[Result]()
    for (first, last), start, group, values in reports:
        result = (first, *group[:-1], start, *group[-1:], *values)
        possible[result] += 1
        sure[result] += last < newest - SLACK_MS
    return Expected(+sure, possible)


def _inputs(streams: Iterable[Readings]) -> Any:
    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        return tuple(readings_stream(spark, each, start) for each in streams)

    return inputs
