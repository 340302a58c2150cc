"""A segment of a query is handed over: the part before it writes to files, and stays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.expected import Expected, Result, sums
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import START_MS, check_whole, handover, written

from elastream.handover.model import QueryShape, Start, Window
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.sinks import files_sink
from elastream.handover.spark.sources import files_since
from elastream.handover.spark.windowed import COORDINATE, WindowedQuery
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LENGTH_MS, SLIDE_MS, LATE_MS = 3000, 1000, 2000


def of_sums(stage: Path) -> WindowedQuery:
    """The second part: sums of the sums that the first part has put out."""

    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        columns = f"{COORDINATE} LONG, place STRING, rows LONG, total LONG"
        files = spark.readStream.schema(columns).option("recursiveFileLookup", True)
        rows = files_since(files.json(str(stage)), start)
        return (rows.selectExpr(f"timestamp_millis({COORDINATE}) AS at", "place", "total"),)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        spans = f.window("at", f"{LENGTH_MS} milliseconds", f"{SLIDE_MS} milliseconds")
        totals = [f.count(f.lit(1)).alias("rows"), f.sum("total").alias("total")]
        grouped = inputs[0].groupBy(spans.alias("span"), "place").agg(*totals)
        start = f.unix_millis("span.start").alias(COORDINATE)
        return grouped.select(start, "place", "rows", "total")

    shape = QueryShape("of sums", Window.of("time", LENGTH_MS, SLIDE_MS), 1, lateness=LATE_MS)
    return WindowedQuery(shape, inputs, results)


def expected(made: Readings) -> Expected:
    first = sums(made, 1000, 1000).sure
    groups: dict[tuple[int, str], list[int]] = {}
    for at, place, _, total in first:
        for start in range(at - LENGTH_MS + SLIDE_MS, at + 1, SLIDE_MS):
            groups.setdefault((start, place), []).append(total)
    closed = max(row[0] for row in first) - LATE_MS - 1
    found: Counter[Result] = Counter(
        (start, place, len(totals), sum(totals))
        for (start, place), totals in groups.items()
        if start + LENGTH_MS <= closed
    )
    return Expected.exactly(found)


@pytest.mark.slow
def test_the_second_part_of_a_query_is_handed_over_while_the_first_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Readings(START_MS, 1000, gap_ms=40, places=4, clock=str(tmp_path / "clock"))
    stage = tmp_path / "stage"
    stage.mkdir()
    before = OriginStream(
        grouped_sums(made, length_ms=1000, slide_ms=1000), files_sink(stage), tmp_path / "first"
    )
    with handover(spark, of_sums(stage), tmp_path) as run:
        before.start(spark, trigger_s=0.2)
        try:
            run.serve()
            run.await_until(lambda: bool(written(tmp_path / "origin-out")))
            check_whole(run, expected(made))
            assert before.streaming is not None
            assert before.streaming.isActive
        finally:
            before.stop()
