"""The papers' goals on live executors: replicas, resilient placements, schedules, lessons."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import kill
from tests.spark.running_query import PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import (
    Combined,
    Decision,
    Movement,
    Policy,
    ProblemError,
    Schedule,
    Timeouts,
    Utilisation,
    attach,
)
from elastream.core.goal import Goal
from elastream.replication import Replication, Weights
from elastream.resilience import Resilient
from elastream.spark.internals.event_tap import EventTap
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.host_delays import HostProbe
from elastream.spark.observe.task_events import TASK_COUNTERS
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def quick(goal: Goal, **more: object) -> Policy:
    settings = {
        "max_executors": 2,
        "cooldown_s": 1.0,
        "tau": 0.5,
        "patience": 2,
        "movement": Movement(warm_up=False),
        "timeouts": Timeouts(smoothing_s=2.0, grow_s=PATIENCE_S, action_s=PATIENCE_S),
    }
    return Policy(goal=goal, **{**settings, **more})  # type: ignore[arg-type]


@pytest.fixture
def counting(spark: SparkSession) -> Iterator[tuple[StreamingQuery, Path]]:
    checkpoint = scratch_folder(spark) / f"goals-{time.monotonic_ns()}"
    query = (
        aggregation(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .queryName("counting")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="2 seconds")  # a batch on one executor ends in time
        .start()
    )
    yield query, checkpoint
    query.stop()
    back_to_two(SparkInternals.of(spark))
    shutil.rmtree(checkpoint, ignore_errors=True)


def alive(spark: SparkSession) -> int:
    return len(SparkInternals.of(spark).executors())


def reasons_of(decisions: list[Decision], kind: str) -> str:
    return "; ".join(decision.reason for decision in decisions if decision.kind == kind)


def assert_exact(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> None:
    assert query.isActive
    query.stop()
    answer = aggregation_answer(committed_rows(checkpoint))
    assert aggregation_state(spark, str(checkpoint)) == answer


@pytest.mark.slow  # tests/replication simulates it
def test_replication_gives_executors_back_and_asks_for_them_and_results_stay_exact(
    spark: SparkSession, counting: tuple[StreamingQuery, Path]
) -> None:
    query, checkpoint = counting
    decisions: list[Decision] = []

    def replication(weights: Weights) -> Replication:
        return Replication(response_ms=60_000, weights=weights, period_s=2, cooldown_s=1)

    with attach(query, quick(replication(Weights(0, 1, 0))), log=decisions.append) as attachment:
        until(lambda: alive(spark) == 1, "one executor is left: the cheapest")
        assert attachment.wait(PATIENCE_S)
        assert len(set(attachment.where().values())) == 1
    with attach(query, quick(replication(Weights(1, 0, 0))), log=decisions.append) as attachment:
        until(lambda: len(set(attachment.where().values())) == 2, "two hold state: the fastest")
        assert attachment.wait(PATIENCE_S)
    kinds = [decision.kind for decision in decisions]
    assert "scale-in" in kinds
    assert "scale-out" in kinds
    assert_exact(spark, query, checkpoint)


@pytest.mark.slow  # tests/resilience simulates it
def test_a_resilient_placement_is_made_at_the_start_and_after_a_loss(
    spark: SparkSession, counting: tuple[StreamingQuery, Path]
) -> None:
    query, checkpoint = counting
    decisions: list[Decision] = []
    goal = Combined(how_many=Utilisation(), where=Resilient(method="rod", batches=2))
    policy = quick(goal, min_executors=2)
    with attach(query, policy, log=decisions.append) as attachment:
        until(lambda: any(d.kind == "plan" for d in decisions), "a placement at the start")
        assert attachment.wait(PATIENCE_S)
        assert "a placement for 2 executors and 1 query, at the start" in reasons_of(
            decisions, "rebalance"
        )
        kill(spark, attachment.executors()[0].id)
        until(lambda: any(d.kind == "lost" for d in decisions), "the loss is noticed")
        lost = [d.kind for d in decisions].index("lost")
        until(lambda: any(d.kind == "plan" for d in decisions[lost:]), "a placement after the loss")
        until(lambda: len(attachment.executors()) == 2, "it has been replaced")
        until(lambda: len(set(attachment.where().values())) == 2, "both hold state")
    plans = [d.reason for d in decisions if d.kind == "plan"]
    assert all("rod on" in reason for reason in plans)
    assert_exact(spark, query, checkpoint)


@pytest.mark.slow  # tests/goals simulates it
def test_a_schedule_is_kept_and_its_migrations_are_planned_together(
    spark: SparkSession, counting: tuple[StreamingQuery, Path]
) -> None:
    query, checkpoint = counting
    decisions: list[Decision] = []
    now = time.time()
    later = now + 86_400
    for size, then in ((3, 2), (2, 3)):
        goal = Schedule([(now, size), (later, then)], lead_s=0, gamma=0.9)
        with attach(query, quick(goal, max_executors=3), log=decisions.append) as attachment:
            until(lambda: any(d.kind == "done" for d in decisions), "it is done")
            assert len(attachment.executors()) == size
        kind = "scale-out" if size > then else "scale-in"
        reason = next(d.reason for d in decisions if d.kind == kind)
        assert reason == f"{kind} to {size}: the schedule asks for {size} executors, then {then}"
        decisions.clear()
    assert_exact(spark, query, checkpoint)


@pytest.mark.slow  # tests/core simulates it
def test_the_loop_learns_from_its_own_past_and_goes_on_with_it_the_next_time(
    spark: SparkSession, counting: tuple[StreamingQuery, Path], tmp_path: Path
) -> None:
    from elastream import ByHand

    query, checkpoint = counting
    decisions: list[Decision] = []
    policy = quick(ByHand(), max_executors=3, planner="transition")
    folder = tmp_path / "trace"
    with attach(query, policy, log=decisions.append, trace=folder) as attachment:
        until(lambda: len(attachment.where()) == 4, "its tasks are seen")
        for executors in (1, 2, 1):
            attachment.scale_to(executors)
            assert attachment.wait(PATIENCE_S)
    assert not any(d.kind == "learn" for d in decisions)
    with attach(query, policy, log=decisions.append, trace=folder) as attachment:
        until(lambda: len(attachment.where()) == 4, "its tasks are seen")
        attachment.scale_to(2)
        assert attachment.wait(PATIENCE_S)
        until(lambda: any(d.kind == "learn" for d in decisions), "a lesson is learnt")
        attachment.scale_to(1)
        assert attachment.wait(PATIENCE_S)
    (lesson,) = (d for d in decisions if d.kind == "learn")
    assert lesson.reason.startswith("from 4 changes of size, all ")
    plans = [d.reason for d in decisions if d.kind == "plan"]
    assert "transition knows too little, 0 of 4 changes of size seen: single-step" in plans[0]
    assert "knows too little" not in plans[-1]
    assert_exact(spark, query, checkpoint)


def test_goals_that_make_no_sense_here_are_named_before_anything_starts(
    counting: tuple[StreamingQuery, Path],
) -> None:
    query, _ = counting
    decisions: list[Decision] = []
    for goal, wrong in (
        (
            Replication(response_ms=500, pins={"counting": ["mars"]}),
            r"goal.pins\['counting'\]: host 'mars' has no executor; hosts are 127.0.0.1",
        ),
        (Schedule([(1000.0, 2)]), r"goal.sizes\[0\]: 2 executors from .* is in the past"),
    ):
        with pytest.raises(ProblemError, match=wrong):
            attach(query, quick(goal), log=decisions.append)
    assert decisions == []
    attach(query, quick(Utilisation())).detach()


def test_executors_measure_the_way_to_each_other(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    one, other = internals.executors()[:2]
    reports = HostProbe(internals).from_executor(one, [other])
    assert set(reports) == {other.host}
    assert 0 < reports[other.host] < 1000


def test_probes_are_our_own_work_and_share_one_session(spark: SparkSession) -> None:
    internals = SparkInternals.of(spark)
    one, other = internals.executors()[:2]
    tap = EventTap(internals)
    try:
        found, sessions = [], []
        for source, target in ((one, other), (other, one)):
            assert HostProbe(internals).from_executor(source, [target])
            internals.listener_bus().waitUntilEmpty()
            found.append(tap.fetch(TASK_COUNTERS))
            sessions.append(int(internals.listener_bus().listeners().size()))
    finally:
        tap.close()
    for work in found:
        assert {task.executor for task in work.tasks} <= {one.id, other.id}
        assert [job.own for job in work.jobs if job.query is None] == [True]
        assert work.tasks
    assert sessions[0] == sessions[1]


def test_hosts_that_have_no_executor_are_left_out(spark: SparkSession) -> None:
    assert HostProbe(SparkInternals.of(spark)).round_trips_ms([("nowhere", "elsewhere")]) == {}
