"""Another number of partitions on real checkpoints: exact, refused in time, ended after a kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import (
    FIRST,
    LATER,
    aggregation,
    aggregation_answer,
    aggregation_state,
    first_seen,
    join,
    running_counts,
    sessions,
    sessions_answer,
    totals,
    window_totals,
    window_totals_answer,
    windowed,
    windowed_answer,
)

from elastream import Decision, ProblemError, attach, stop_gracefully
from elastream.spark.internals.checkpoint import read_checkpoint
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream.spark.steer.repartition import repartition_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSES = replace(BY_HAND, repartition=True, patience=1, cooldown_s=0.0)


@pytest.fixture
def folder(spark: SparkSession) -> Iterator[Path]:
    made = scratch_folder(spark) / f"repartition-{time.monotonic_ns()}"
    made.mkdir()
    yield made
    for query in spark.streams.active:
        query.stop()
    shutil.rmtree(made, ignore_errors=True)


def start(
    frame: DataFrame, folder: Path, mode: str, out: dict[int, list[Any]] | None = None
) -> StreamingQuery:
    """Start a query whose rows are kept by batch, exactly once, or go nowhere."""
    writer = frame.writeStream.outputMode(mode).queryName("parted")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(processingTime="300 milliseconds")
    if out is None:
        return writer.format("noop").start()

    def keep(rows: DataFrame, batch: int) -> None:
        out[batch] = [tuple(row) for row in rows.collect()]

    return writer.foreachBatch(keep).start()


def pass_batches(query: StreamingQuery, number: int) -> None:
    def committed() -> int:
        progress = query.lastProgress
        return -1 if progress is None else progress.batchId

    until(lambda: committed() >= 0 or not query.isActive, "a batch has passed")
    first = committed() - 1
    until(lambda: committed() >= first + number or not query.isActive, f"{number} batches passed")
    assert query.isActive, query.exception()


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def partitions_of(spark: SparkSession, query: StreamingQuery) -> set[int]:
    queries = SparkInternals.of(spark).queries
    return {each.partitions for each in queries.operators(queries.of(query)) or ()}


def test_a_stopped_query_goes_on_with_another_number_of_partitions(
    spark: SparkSession, folder: Path
) -> None:
    checkpoint = str(folder / "checkpoint")
    query = start(aggregation(spark), folder, "update")
    pass_batches(query, 2)
    stop_gracefully(query)
    done = repartition_checkpoint(spark, checkpoint, 8)
    assert (done.before, done.partitions) == (4, 8)
    assert aggregation_state(spark, checkpoint) == aggregation_answer(
        committed_rows(folder / "checkpoint")
    )
    query = start(aggregation(spark), folder, "update")
    pass_batches(query, 2)
    assert partitions_of(spark, query) == {8}
    stop_gracefully(query)
    before = files_of(folder)
    with pytest.raises(ProblemError, match="has 8 partitions already"):
        repartition_checkpoint(spark, checkpoint, 8)
    looked = read_checkpoint(checkpoint)
    with pytest.raises(ProblemError, match="its query runs, stop it first"):
        repartition_checkpoint(spark, checkpoint, 4, before=replace(looked, started=1))
    last = looked.committed
    began = folder / "checkpoint" / "offsets" / str(last + 1)
    text = (folder / "checkpoint" / "offsets" / str(last)).read_text()
    began.write_text(text)  # as where stop() has cut the batch
    with pytest.raises(ProblemError, match=f"batch {last + 1} was begun and not committed"):
        repartition_checkpoint(spark, checkpoint, 4)
    began.write_text(text.replace(f'"{PARTITIONS}":"8"', f'"{PARTITIONS}":"6"'))
    with pytest.raises(ProblemError, match="a repartitioning to 6 was begun and not ended"):
        repartition_checkpoint(spark, checkpoint, 4)
    began.unlink()
    assert files_of(folder) == before
    assert aggregation_state(spark, checkpoint) == aggregation_answer(
        committed_rows(folder / "checkpoint")
    )


@pytest.mark.slow
def test_an_aggregate_over_everything_is_refused_and_left_as_it_was(
    spark: SparkSession, folder: Path
) -> None:
    for partitions, why in (("4", "1 partitions where there are 4"), ("1", "has no key")):
        shutil.rmtree(folder / "checkpoint", ignore_errors=True)
        with changed_settings(spark, {PARTITIONS: partitions}):
            query = start(totals(spark), folder, "complete")
        pass_batches(query, 1)
        stop_gracefully(query)
        before = files_of(folder)
        with pytest.raises(ProblemError, match=why):
            repartition_checkpoint(spark, str(folder / "checkpoint"), 8)
        assert files_of(folder) == before


def test_the_loop_pauses_a_query_that_has_too_few_and_shows_what_that_cost(
    spark: SparkSession, folder: Path
) -> None:
    def restart() -> StreamingQuery:
        return start(aggregation(spark), folder, "update")

    decisions: list[Decision] = []
    with changed_settings(spark, {PARTITIONS: "1"}):
        query = restart()
    try:
        with attach(query, PAUSES, log=decisions.append, restart=restart) as attachment:
            until(lambda: len(attachment.where()) == 2, "both tasks have a place")
            until(
                lambda: any("paused_s" in each.figures for each in decisions), "the cost is logged"
            )
            assert not query.isActive
            assert "was paused for" in attachment.explain()
            assert not attachment.await_queries(0.5)
            (resumed,) = attachment.queries
            pass_batches(resumed, 2)
            assert partitions_of(spark, resumed) == {2}
            stop_gracefully(resumed)
            assert attachment.await_queries(PATIENCE_S)
    finally:
        for each in spark.streams.active:
            each.stop()
        back_to_two(SparkInternals.of(spark))
    shortage = next(each for each in decisions if each.kind == "partitions")
    assert (shortage.figures["partitions"], shortage.figures["enough"]) == (1, 2)
    story = [each.reason.split(" ")[0] for each in decisions if each.kind == "repartition"]
    assert story == ["paused", "it", "the"]
    assert aggregation_state(spark, str(folder / "checkpoint")) == aggregation_answer(
        committed_rows(folder / "checkpoint")
    )


def test_a_policy_that_pauses_needs_to_know_how_to_start_again(
    spark: SparkSession, folder: Path
) -> None:
    query = start(aggregation(spark), folder, "update")
    try:
        with pytest.raises(ProblemError, match="restart: the policy lets queries be paused"):
            attach(query, PAUSES)
        with pytest.raises(ProblemError, match="restart: give a function for each query"):
            attach(spark, PAUSES, restart=lambda: query)
    finally:
        query.stop()


def windows_of(rows: Counter[Any], answer: Callable[[int], Counter[Any]]) -> bool:
    starts = len({row[0] for row in rows})
    return starts >= 2 and rows == answer(starts)


def is_exact(name: str, rows: Counter[Any]) -> bool:
    match name:
        case "join":
            values = Counter(row[0] for row in rows.elements())
            return values == Counter(range(LATER, max(values) + 1))
        case "deduplication":
            return rows == Counter((key,) for key in range(FIRST))
        case "windows":
            return windows_of(rows, windowed_answer)
        case "two operators":
            return windows_of(rows, window_totals_answer)
        case _:
            return rows == sessions_answer(len(rows) // 40)


FRAMES = {
    "join": join,
    "deduplication": first_seen,
    "windows": windowed,
    "two operators": window_totals,
    "sessions": sessions,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMES)
def test_what_a_query_puts_out_is_exact_through_more_and_fewer_partitions(
    spark: SparkSession, folder: Path, name: str
) -> None:
    frame = FRAMES[name]
    out: dict[int, list[Any]] = {}
    for partitions in (6, 3, None):
        query = start(frame(spark), folder, "append", out)
        pass_batches(query, 8)
        stop_gracefully(query)
        if partitions is not None:
            repartition_checkpoint(spark, str(folder / "checkpoint"), partitions)
    rows = Counter(row for rows in out.values() for row in rows)
    assert is_exact(name, rows), rows


@pytest.mark.slow
def test_transform_with_state_is_exact_through_more_and_fewer_partitions(
    spark: SparkSession, folder: Path
) -> None:
    last: dict[int, int] = {}

    def keep(frame: DataFrame, _batch: int) -> None:
        last.update({row[0]: row[1] for row in frame.collect()})

    for partitions in (6, 3, None):
        writer = running_counts(spark).writeStream.outputMode("update").foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(processingTime="300 milliseconds").start()
        pass_batches(query, 2)
        stop_gracefully(query)
        if partitions is not None:
            repartition_checkpoint(spark, str(folder / "checkpoint"), partitions)
    expected = aggregation_answer(committed_rows(folder / "checkpoint"))
    assert last == {key: n for key, (n, _) in expected.items()}


@pytest.mark.slow
def test_a_command_that_was_killed_is_ended_by_the_next_and_the_query_is_exact(
    spark: SparkSession, folder: Path
) -> None:
    checkpoint = folder / "checkpoint"
    query = start(aggregation(spark), folder, "update")
    pass_batches(query, 2)
    stop_gracefully(query)
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    command = [sys.executable, "-m", "elastream.cli.main", "repartition", str(checkpoint)]
    killed = subprocess.Popen([*command, "8"], start_new_session=True)
    began = checkpoint / "offsets" / str(last + 1)
    until(lambda: began.exists() or killed.poll() is not None, "it has begun")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (checkpoint / "commits" / str(last + 1)).exists(), "it was done before the kill"
    query = start(aggregation(spark), folder, "update")
    until(lambda: not query.isActive, "Spark refuses to start it")
    assert "repartition" in str(query.exception()).lower()
    other = subprocess.run([*command, "6"], capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert "a repartitioning to 8 was begun and not ended" in other.stderr
    again = subprocess.run([*command, "8"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "4 -> 8 partitions in " in again.stdout
    query = start(aggregation(spark), folder, "update")
    pass_batches(query, 2)
    assert partitions_of(spark, query) == {8}
    stop_gracefully(query)
    assert aggregation_state(spark, str(checkpoint)) == aggregation_answer(
        committed_rows(checkpoint)
    )
