"""Copies that follow on live executors: an executor is killed, and its tasks go to them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, RunningQuery, running, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream.loop.decisions import Decision

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STANDING = replace(BY_HAND, standbys=1)


def told(run: RunningQuery, words: str) -> list[Decision]:
    return [d for d in run.decisions if d.kind == "standby" and words in d.reason]


def test_tasks_of_a_killed_executor_go_where_their_copies_are(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update", policy=STANDING) as run:
        run.settle_intervals(run.executor_ids())
        until(lambda: run.attachment.state.standbys.there == frozenset(run.tasks), "all have one")
        first, second = run.executor_ids()
        moved = {task for task, node in run.where().items() if node == first}
        assert moved
        kill(spark, first)
        until(lambda: bool(told(run, "taken over")), "copies were taken over")
        (taken,) = told(run, "taken over")
        assert taken.figures["tasks_ahead"] <= taken.figures["tasks"] == len(moved)
        until(lambda: {run.where().get(task) for task in moved} == {second}, "they ran there")
        run.pass_batches(3)
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())
