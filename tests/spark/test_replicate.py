"""The replication loop on live executors: replicas as planned, results exact, delays measured."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, back_to_two, committed_rows
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import ReplicationPolicy, Weights, replicate
from elastream.control.decisions import Decision, read_decisions
from elastream.replicate import operator_graph
from elastream.spark.cluster import scratch_folder
from elastream.spark.host_delays import HostProbe
from elastream.spark.private_door import PrivateDoor, StatefulOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHEAP = ReplicationPolicy(
    response_ms=60_000, weights=Weights(0, 1, 0), period_s=2, cooldown_s=2, smoothing_s=2
)
FAST = replace(CHEAP, weights=Weights(1, 0, 0))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@pytest.fixture
def counting(spark: SparkSession) -> Iterator[tuple[StreamingQuery, Path]]:
    checkpoint = scratch_folder(spark) / f"replicate-{time.monotonic_ns()}"
    query = (
        aggregation(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    yield query, checkpoint
    query.stop()
    back_to_two(PrivateDoor.of(spark))
    shutil.rmtree(checkpoint, ignore_errors=True)


def test_the_loop_acts_replicas_are_as_planned_and_nothing_is_lost(
    spark: SparkSession, counting: tuple[StreamingQuery, Path], tmp_path: Path
) -> None:
    query, checkpoint = counting
    log = tmp_path / "decisions.jsonl"
    with replicate(query, replace(CHEAP, act=True), log=log) as replication:
        where = replication.attachment.placement.where
        until(lambda: len(set(where().values())) == 1, "one replica is left: the cheapest")
        until(lambda: "done" in kinds(log), "the change is done")
    with replicate(query, replace(FAST, act=True), log=log) as replication:
        where = replication.attachment.placement.where
        until(lambda: len(set(where().values())) == 2, "two replicas are there: the fastest")
        until(lambda: kinds(log).count("done") == 2, "the change is done")
        plans = [decision for decision in read_decisions(log) if decision.kind == "plan"]
        assert [plan.figures["cost"] for plan in plans] == [1, 2]
    assert query.isActive
    query.stop()
    answer = aggregation_answer(committed_rows(checkpoint))
    assert aggregation_state(spark, str(checkpoint)) == answer


def kinds(log: Path) -> list[str]:
    return [decision.kind for decision in read_decisions(log)]


def test_advice_is_the_default_and_moves_nothing(
    counting: tuple[StreamingQuery, Path],
) -> None:
    told: list[Decision] = []
    with replicate(counting[0], CHEAP, log=told.append) as replication:
        where = replication.attachment.placement.where
        tasks = len(replication.attachment.placement.tasks)
        until(lambda: len(where()) == tasks, "it is known where all tasks are")
        before = where()
        until(lambda: any(decision.kind == "advise" for decision in told), "it advises")
        assert where() == before
    assert [told[0].kind, told[-1].kind] == ["attach", "detach"]


def test_executors_measure_the_way_to_each_other(spark: SparkSession) -> None:
    door = PrivateDoor.of(spark)
    one, other = door.executors()[:2]
    told = HostProbe(door).from_executor(one, [other])
    assert set(told) == {other.host}
    assert 0 < told[other.host] < 1000


def test_hosts_that_have_no_executor_are_left_out(spark: SparkSession) -> None:
    assert HostProbe(PrivateDoor.of(spark)).round_trips_ms([("nowhere", "elsewhere")]) == {}


def operator(number: int, group: int, reader: int | None) -> StatefulOperator:
    return StatefulOperator(number, ("default",), 4, "file:/c/state", "run", group, reader=reader)


def test_operators_that_share_their_tasks_are_one_vertex_of_the_graph() -> None:
    chain = [operator(0, 2, 1), operator(1, 1, 2), operator(2, 1, 3), operator(3, 0, None)]
    assert operator_graph(chain).feeds == {0: 1, 1: 3, 3: None}
