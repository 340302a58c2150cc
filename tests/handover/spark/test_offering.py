"""Queries that a session offers: each listens on its own, goes there and back, and on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.handover.spark.expected import row_windows, sums
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import START_MS, Pace
from tests.handover.spark.stays import FilePace, Stays, is_over

from elastream.handover.model import Start
from elastream.handover.offering import offer, take
from elastream.handover.spark.windowed import WindowedQuery
from elastream.model.errors import ProblemError
from elastream_lab.applications.readings.queries import row_sums
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def readings(folder: Path, rows: int = 2500) -> Readings:
    return Readings(START_MS, rows, gap_ms=40, places=4, clock=str(folder / "clock"))


def test_a_query_goes_there_and_back_and_on_and_another_of_the_session_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path)
    pace = FilePace(tmp_path, made, step_ms=1000)
    going = Stays(spark, grouped_sums(made, length_ms=2000, slide_ms=1000), tmp_path / "one", pace)
    gaps = grouped_sums(made, length_ms=500, slide_ms=1500)
    gaps = replace(gaps, shape=replace(gaps.shape, name="with gaps"))
    other = Stays(spark, gaps, tmp_path / "two", pace)
    try:
        other.begin("A")
        going.begin("A")
        assert going.offered[0].address != other.offered[0].address
        going.go_to("B")
        other.go_to("B")
        going.go_to("A", restart=True)
        assert (tmp_path / "one" / "A" / "stays" / "1" / "record.json").exists()
        going.go_to("C")
        assert is_over(tmp_path / "one" / "A")
        going.check_whole(sums(made, 2000, 1000))
        other.check_whole(sums(made, 500, 1500))
    finally:
        going.close()
        other.close()


def test_a_folder_in_which_a_query_began_takes_none_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path)
    query = replace(
        grouped_sums(made, length_ms=500, slide_ms=500),
        inputs=FilePace(tmp_path, made, step_ms=1000).inputs,
    )
    offered = offer(query, tmp_path / "A", spark=spark)
    offered.stop()
    with pytest.raises(ProblemError, match="was not taken over; give another folder"):
        take(query, offered.address, offered.token_file, tmp_path / "A", spark=spark)


@pytest.mark.slow
def test_windows_of_rows_go_there_and_back_and_on(spark: SparkSession, tmp_path: Path) -> None:
    made = readings(tmp_path)
    pace = FilePace(tmp_path, made, step_ms=1000)
    going = Stays(spark, row_sums(made, length=5, slide=2), tmp_path / "one", pace)
    try:
        going.begin("A")
        going.go_to("B", restart=True)
        going.go_to("A")
        going.go_to("C")
        going.check_whole(row_windows(made, 5, 2))
    finally:
        going.close()


Change = Callable[[WindowedQuery], object]


def _results(of: Callable[[DataFrame], DataFrame]) -> Change:
    return lambda query: replace(query, results=lambda inputs: of(inputs[0]))


def _inputs(of: Callable[[DataFrame], DataFrame]) -> Change:
    def change(query: WindowedQuery) -> WindowedQuery:
        def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
            return (of(query.inputs(spark, start)[0]),)

        return replace(query, inputs=inputs)

    return change


def _fails(_: Any) -> Any:
    raise ValueError("no such table")


REFUSED: dict[str, tuple[Change, str]] = {
    "text": (lambda _: "sums", "query: 'sums' is not a WindowedQuery"),
    "no time": (_inputs(lambda rows: rows.drop("at")), "query 'sums', input 0: has no column 'at'"),
    "no timestamp": (
        _inputs(lambda rows: rows.selectExpr("'noon' AS at")),
        "query 'sums', input 0: 'at' is of type string, not a timestamp",
    ),
    "not a stream": (
        _inputs(lambda rows: rows.sparkSession.sql("SELECT current_timestamp() AS at")),
        "query 'sums', input 0: is not a stream",
    ),
    "no coordinate": (
        _results(lambda rows: rows),
        "query 'sums': results have no column 'coordinate'",
    ),
    "no number": (
        _results(lambda rows: rows.selectExpr("'1' AS coordinate")),
        "query 'sums': 'coordinate' is of type string, not a whole number",
    ),
    "no horizon": (
        _results(
            lambda rows: rows.dropDuplicates(["place"]).selectExpr("unix_millis(at) AS coordinate")
        ),
        "query 'sums': deduplicates without a time among its keys",
    ),
    "running total": (
        _results(
            lambda rows: rows.groupBy("place").count().withColumnRenamed("count", "coordinate")
        ),
        "query 'sums': Append output mode not supported|query 'sums': .*[Aa]ppend",
    ),
    "unknown column": (_results(lambda rows: rows.select("nothing")), "query 'sums': .*nothing"),
    "own fault": (_results(_fails), "query 'sums': ValueError: no such table"),
}


@pytest.mark.parametrize(("change", "line"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_handed_over_is_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path, change: Change, line: str
) -> None:
    Pace(tmp_path)
    query: Any = change(grouped_sums(readings(tmp_path), length_ms=1000, slide_ms=1000))
    with pytest.raises(ProblemError, match=line) as message:
        offer(query, tmp_path / "A", spark=spark)
    assert len(str(message.value).splitlines()) == 1


def test_a_query_that_runs_already_is_not_a_declared_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    running = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        with pytest.raises(ProblemError, match="declare it as a WindowedQuery"):
            offer(running, tmp_path / "A", spark=spark)  # type: ignore[arg-type]
    finally:
        running.stop()
    assert not (tmp_path / "A").exists()
