"""Two queries in one session, each with its own checkpoint, hand over through a loopback socket."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.handover.spark.expected import Expected, pair_windows, pairs, row_windows, sums
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import (
    ALL_MS,
    PATIENCE_S,
    START_MS,
    TOKEN,
    Handover,
    check_whole,
    handover,
    written,
)

from elastream.handover.model import Start, Window
from elastream.handover.point import WindowOperator
from elastream.handover.spark.row_windows import RowWindowJoin, RowWindows
from elastream.handover.spark.sinks import files_sink
from elastream.handover.spark.target_stream import TargetStream
from elastream.handover.spark.windowed import WindowedQuery
from elastream.handover.target import Left
from elastream.model.errors import ProblemError
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
    for thread in threading.enumerate():
        if thread.name.startswith(("handover", "row cuts")):
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "left behind"


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


@pytest.mark.slow  # the simulated handover has such targets
def test_a_target_that_starts_behind_takes_over_though_no_row_comes_and_executors_write_the_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = readings(tmp_path)
    query = grouped_sums(made, length_ms=3000, slide_ms=1000)
    with handover(spark, query, tmp_path, since_ms=START_MS, sink=files_sink) as run:
        run.serve()
        run.await_until(lambda: bool(written(tmp_path / "origin-out")))
        run.join()
        run.await_until(lambda: "own" in {note.kind for note in run.notes}, paced=False)
        check_whole(run, sums(made, 3000, 1000))
        assert run.target.first_seen() == (START_MS,)
    again = TargetStream(query, files_sink(), tmp_path / "target", spark, since_ms=0)
    assert again._kept_start() == Start.at(START_MS)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_rows_that_come_too_late_are_dropped_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    out_of_order = readings(tmp_path, rows=400, late_ms=2000)
    query = replace(
        row_sums(readings(tmp_path, rows=400), length=1), inputs=row_sums(out_of_order).inputs
    )
    with handover(spark, query, tmp_path) as run:
        run.serve()
        run.await_until(lambda: run.origin.late_rows > 0)
        run.pace.go(ALL_MS)
        times = [row[1] for row in out_of_order.all()]
        passed = sum(at < max(times) - 1 for at in times)  # the others wait for the watermark
        run.await_until(
            lambda: written(tmp_path / "origin-out").total() + run.origin.late_rows >= passed
        )
        assert written(tmp_path / "origin-out").total() + run.origin.late_rows == passed


@pytest.mark.slow
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
    with pytest.raises(ProblemError, match=r"of rows needs rows=RowWindows"):
        replace(row_sums(made), rows=None)
    with pytest.raises(ProblemError, match="are for a window of rows"):
        replace(row_sums(made), shape=grouped_sums(made, length_ms=1, slide_ms=1).shape)
    with pytest.raises(ProblemError, match=r"rows\.reach_ms"):
        RowWindows(lambda windows: windows.count(), reach_ms=-1)
    rows = WindowOperator(Window.of("rows", 5, 1))
    with pytest.raises(ProblemError, match="a window of rows is the last of several"):
        replace(pair_sums(made), before=(rows,))
    with pytest.raises(ProblemError, match="of sessions is one of time with a slide of 1"):
        replace(grouped_sums(made, length_ms=10, slide_ms=10), sessions=True)


def test_rows_that_cannot_be_numbered_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = readings(tmp_path)

    def refused(match: str, rows: RowWindows | RowWindowJoin, *columns: str) -> None:
        query = replace(
            row_sums(made), results=lambda inputs: inputs[0].selectExpr(*columns), rows=rows
        )
        with pytest.raises(ProblemError, match=match):
            query.frame(spark)

    counted = RowWindows(lambda windows: windows.count())
    refused("'at' is no column of", counted, "position")
    refused("'at' is of type long", counted, "position AS at")
    refused("have a column 'number'", counted, "at", "position AS number")
    refused("'town' is no column of", replace(counted, by=["town"]), "at", "place")
    refused(
        "'m', of type map, does not identify", replace(counted, by=["m"]), "at", "map(1, 2) AS m"
    )
    refused("does not order the rows", replace(counted, order=["a"]), "at", "array(1) AS a")
    refused("are 1 frames where 2 are needed", RowWindowJoin(lambda pairs: pairs), "at")
    dropped = replace(counted, of=lambda windows: windows.count().select("number"))
    with pytest.raises(ProblemError, match="drops the column 'coordinate'"):
        dropped.made(replace(row_sums(made), rows=dropped).frame(spark), Window.of("rows", 5, 1))


@pytest.mark.parametrize("size", [0, -1])
def test_windows_without_a_size_are_refused(tmp_path: Path, size: int) -> None:
    made = readings(tmp_path)
    with pytest.raises(ProblemError, match=r"window\.length"):
        grouped_sums(made, length_ms=size, slide_ms=1)
    with pytest.raises(ProblemError, match=r"window\.slide"):
        row_sums(made, slide=size)
    with pytest.raises(ProblemError, match=r"window\.length"):
        pair_sums(made, range_ms=size)
