"""Copies that follow on live executors: an executor is killed, and its tasks go to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, RunningQuery, running, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream.core.decisions import Decision

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STANDING = replace(BY_HAND, standbys=1, movement=replace(BY_HAND.movement, warm_up=False))


def standby_decisions(run: RunningQuery, words: str) -> list[Decision]:
    return [d for d in run.decisions if d.kind == "standby" and words in d.reason]


def all_have_one(run: RunningQuery) -> bool:
    """Whether each task has a copy elsewhere; one that has just moved may be where its copy was."""
    standbys, where = run.attachment.state.standbys, run.where()
    holders = {task: standbys.holder(task) for task in run.tasks}
    return all(holder not in (None, where[task]) for task, holder in holders.items())


def test_tasks_of_a_killed_executor_go_where_their_copies_are(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=STANDING) as run:
        run.settle_intervals(run.executor_ids())
        until(lambda: all_have_one(run), "all have one")
        first, second = run.executor_ids()
        moved = {task for task, node in run.where().items() if node == first}
        assert moved
        kill(spark, first)
        until(lambda: bool(standby_decisions(run, "taken over")), "copies were taken over")
        (taken,) = standby_decisions(run, "taken over")
        assert taken.figures["tasks_ahead"] <= taken.figures["tasks"] == len(moved)
        until(lambda: {run.where().get(task) for task in moved} == {second}, "they ran there")
        run.pass_batches(3)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())


@pytest.mark.slow  # tests/core simulates it
def test_a_scale_in_goes_where_the_copies_are_and_loads_nothing(spark: SparkSession) -> None:
    policy = replace(STANDING, tau=1.0)
    with running(aggregation(spark), mode="update", policy=policy) as run:
        run.settle_intervals(run.executor_ids())
        until(lambda: all_have_one(run), "all have one")
        before = len(run.decisions)
        run.attachment.scale_to(1)
        until(lambda: any(d.kind == "done" for d in run.decisions[before:]), "it is done")
        since = run.decisions[before:]
        (plan,) = (d for d in since if d.kind == "plan")
        (done,) = (d for d in since if d.kind == "done")
        assert plan.figures["tasks_with_copies"] == plan.figures["tasks_to_move"] > 0
        assert plan.figures["state_bytes_to_move"] == 0
        assert done.figures["tasks_moved"] == plan.figures["tasks_to_move"]
        assert not any(d.kind == "copy" for d in since)
        run.pass_batches(3)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())
