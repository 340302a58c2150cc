"""Two queries in one session, each with its own checkpoint, hand over through a loopback socket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.handover.expected import Expected, pair_windows, pairs, row_windows, sums
from tests.spark.handover.grouped_sums import grouped_sums
from tests.spark.handover.handing import (
    ALL_MS,
    START_MS,
    TOKEN,
    Handover,
    check_whole,
    handover,
    written,
)

from elastream.handover.target import Left
from elastream.model.errors import ProblemError
from elastream.model.handover import Window
from elastream.spark.handover.windowed import WindowedQuery
from elastream_lab.applications.readings.queries import (
    joined_readings,
    pair_sums,
    row_sums,
)
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def readings(folder: Path, rows: int = 1000, late_ms: int = 0) -> Readings:
    clock = str(folder / "clock")
    return Readings(START_MS, rows, gap_ms=40, places=4, late_ms=late_ms, clock=clock)


def check(spark: SparkSession, query: WindowedQuery, expected: Expected, folder: Path) -> None:
    with handover(spark, query, folder) as run:
        run.serve()
        run.await_until(lambda: bool(written(folder / "origin-out")))
        check_whole(run, expected)


def test_who_has_no_token_or_another_query_is_turned_away_and_the_handover_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path)
    query = grouped_sums(made, length_ms=1000, slide_ms=1000)
    of_rows = replace(query.shape, window=Window.of("rows", 1000, 1000))
    with handover(spark, query, tmp_path) as run:
        run.serve()
        run.await_until(lambda: bool(written(tmp_path / "origin-out")))
        turned_away = [
            run.taken_over(query.shape, TOKEN[::-1], "stranger.json").phase,
            run.taken_over(replace(query.shape, name="other"), TOKEN, "other.json").phase,
            run.taken_over(of_rows, TOKEN, "rows.json").phase,
        ]
        assert isinstance(turned_away[0], Left)
        assert "token" in turned_away[0].why
        assert turned_away[1:] == [
            Left("the query is 'sums' here and 'other' there"),
            Left("the kind of window is 'time' here and 'rows' there"),
        ]
        run.await_until(lambda: disagrees(run, START_MS + 10 * 86_400_000))
        assert not written(tmp_path / "target-out")
        check_whole(run, sums(made, 1000, 1000))


def disagrees(run: Handover, whole_from_ms: int) -> bool:
    """Whether a target whose rows begin there is refused; unknown after a batch without rows."""
    try:
        found = run.origin.find_boundary((whole_from_ms,))
    except ProblemError as error:
        return "do the clocks disagree" in str(error)
    assert found is None
    return False


@pytest.mark.slow
def test_overlapping_time_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path)
    query = grouped_sums(made, length_ms=3000, slide_ms=1000)
    check(spark, query, sums(made, 3000, 1000), tmp_path)


@pytest.mark.parametrize("slide", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_row_windows_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path, slide: int
) -> None:
    made = readings(tmp_path)
    check(spark, row_sums(made, length=5, slide=slide), row_windows(made, 5, slide), tmp_path)


def test_joined_pairs_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path, 800)
    check(spark, joined_readings(made, length_ms=800), pairs(made, 800), tmp_path)


@pytest.mark.slow
def test_row_windows_over_a_join_are_put_out_once_by_both_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path, 1200)
    query = pair_sums(made, range_ms=800, length=5, slide=2)
    check(spark, query, pair_windows(made, 800, 5, 2), tmp_path)


def test_rows_that_come_too_late_are_dropped_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    out_of_order = readings(tmp_path, rows=400, late_ms=200)
    query = replace(
        row_sums(readings(tmp_path, rows=400), length=1), inputs=row_sums(out_of_order).inputs
    )
    with handover(spark, query, tmp_path) as run:
        run.serve()
        run.await_until(lambda: run.origin.late_rows > 0)
        run.pace.go(ALL_MS)
        run.await_until(
            lambda: written(tmp_path / "origin-out").total() + run.origin.late_rows >= 400
        )
        assert written(tmp_path / "origin-out").total() + run.origin.late_rows == 400


def test_a_row_exactly_as_old_as_the_watermark_does_not_keep_those_behind_it_waiting(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = replace(readings(tmp_path, rows=200, late_ms=7), gap_ms=4)
    with handover(spark, row_sums(made, length=2), tmp_path, step_ms=0) as run:
        while not newest_read_makes_one_as_old_as_the_watermark(made):
            run.pace.go(1)
        run.origin.start(spark, trigger_s=0.2)
        run.await_until(lambda: (tmp_path / "origin" / "checkpoint" / "commits" / "1").exists())
        run.pace.go(ALL_MS)
        run.await_until(lambda: run.put_out() >= row_windows(made, 2, 1).sure)


def newest_read_makes_one_as_old_as_the_watermark(made: Readings) -> bool:
    times = [at for _, at, _, _ in made.all()[: made.due()]]
    return len(times) > 20 and max(times) - made.late_ms - 1 in times


def test_windows_that_spark_does_not_have_are_refused(tmp_path: Path) -> None:
    made = readings(tmp_path)
    with pytest.raises(ProblemError, match="Spark has no such windows"):
        grouped_sums(made, length_ms=1000, slide_ms=2000)
    on_two = replace(row_sums(made).shape, inputs=2)
    with pytest.raises(ProblemError, match="or on the results of a join, not on 2 inputs"):
        replace(row_sums(made), shape=on_two)
    by_time = replace(pair_sums(made).shape, window=Window.of("time", 10, 10))
    with pytest.raises(ProblemError, match="the last of several windows is one of rows"):
        replace(pair_sums(made), shape=by_time)


@pytest.mark.parametrize("size", [0, -1])
def test_windows_without_a_size_are_refused(tmp_path: Path, size: int) -> None:
    made = readings(tmp_path)
    with pytest.raises(ProblemError, match=r"window\.length"):
        grouped_sums(made, length_ms=size, slide_ms=1)
    with pytest.raises(ProblemError, match=r"window\.slide"):
        row_sums(made, slide=size)
    with pytest.raises(ProblemError, match=r"window\.length"):
        pair_sums(made, range_ms=size)
