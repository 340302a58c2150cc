"""Pause and resume on live executors: exact, and the state is where it was planned."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import LATER, aggregation, aggregation_answer, aggregation_state, join

from elastream import Attachment, Decision, ProblemError, TaskId, attach
from elastream.spark.internals.spark_internals import PrivateDoor
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSES = replace(BY_HAND, mechanism="pause")


@pytest.fixture
def folder(spark: SparkSession) -> Iterator[Path]:
    made = scratch_folder(spark) / f"pause-{time.monotonic_ns()}"
    made.mkdir()
    yield made
    for query in spark.streams.active:
        query.stop()
    back_to_two(PrivateDoor.of(spark))
    shutil.rmtree(made, ignore_errors=True)


def starter(
    frame: DataFrame, name: str, folder: Path, mode: str, out: dict[int, list[Any]]
) -> Callable[[], StreamingQuery]:
    """What starts a query, and starts it again; its rows are kept by batch."""

    def keep(rows: DataFrame, batch: int) -> None:
        out[batch] = [tuple(row) for row in rows.collect()]

    def start() -> StreamingQuery:
        writer = frame.writeStream.outputMode(mode).queryName(name).foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(folder / name))
        return writer.trigger(processingTime="300 milliseconds").start()

    return start


def coordinated(attachment: Attachment, door: PrivateDoor) -> dict[TaskId, set[str | None]]:
    """Where Spark's coordinator has every store of every task."""
    found: dict[TaskId, set[str | None]] = {}
    for watched in attachment.monitor.watched():
        for operator in watched.operators:
            for partition in range(operator.partitions):
                task = TaskId(watched.name, operator.id, partition)
                for store in operator.stores:
                    place = door.location(door.provider_id(operator, partition, store))
                    found.setdefault(task, set()).add(place)
    return found


def test_queries_are_paused_for_a_change_and_go_on_exactly_where_it_was_planned(
    spark: SparkSession, folder: Path
) -> None:
    door, told = PrivateDoor.of(spark), list[Decision]()
    summed, paired = dict[int, list[Any]](), dict[int, list[Any]]()
    restarts = {
        "summed": starter(aggregation(spark), "summed", folder, "update", summed),
        "paired": starter(join(spark), "paired", folder, "append", paired),
    }
    first = {name: start() for name, start in restarts.items()}
    with attach(spark, PAUSES, log=told.append, restart=restarts) as attachment:
        until(lambda: len(attachment.where()) == 8, "all tasks were seen")
        for executors in (3, 2):
            attachment.scale_to(executors)
            assert attachment.wait(PATIENCE_S)
            assert len(attachment.executors()) == executors, told
            where = attachment.where()
            assert len(where) == 8
            assert set(where.values()) == {each.id for each in attachment.executors()}
        assert not all(query.isActive for query in first.values())
        assert {query.name for query in attachment.queries} == set(restarts)
        ids = [each.id for each in attachment.executors()]
        wanted = {task: ids[task.partition % 2] for task in attachment.where()}
        wanted[TaskId("summed", 0, 0)] = ids[1]
        attachment.move(wanted)
        assert attachment.wait(PATIENCE_S)
        assert attachment.where() == wanted
        assert coordinated(attachment, door) == {task: {at} for task, at in wanted.items()}
        assert not attachment.paused()
    kinds = [each.kind for each in told]
    assert kinds.count("done") == 3, told
    assert "abandon" not in kinds
    assert "copy" not in kinds
    for done in (each for each in told if each.kind == "done"):
        assert done.figures["paused_s"] > 0
        assert done.figures["tasks_moved"] > 0
    for query in spark.streams.active:
        query.stop()
    rows = committed_rows(folder / "summed")
    assert aggregation_state(spark, str(folder / "summed")) == aggregation_answer(rows)
    values = sorted(row[0] for batch in paired.values() for row in batch)
    assert values == list(range(LATER, LATER + len(values)))


def test_a_query_without_a_checkpoint_of_its_own_is_not_paused(
    spark: SparkSession, folder: Path
) -> None:
    def restart() -> StreamingQuery:
        writer = aggregation(spark).writeStream.outputMode("update").queryName("fleeting")
        return writer.format("noop").trigger(processingTime="300 milliseconds").start()

    told: list[Decision] = []
    query = restart()
    with pytest.raises(ProblemError, match="restart: the policy lets queries be paused"):
        attach(query, PAUSES)
    with attach(query, PAUSES, log=told.append, restart=restart) as attachment:
        until(lambda: len(attachment.where()) == 4, "all tasks were seen")
        ids = [each.id for each in attachment.executors()]
        there = attachment.where()
        attachment.move({task: ids[ids.index(at) - 1] for task, at in there.items()})
        assert attachment.wait(PATIENCE_S)
        assert attachment.where() == there
    assert query.isActive
    (given_up,) = [each for each in told if each.kind == "abandon"]
    assert "no checkpointLocation" in given_up.reason
    assert folder.exists()
