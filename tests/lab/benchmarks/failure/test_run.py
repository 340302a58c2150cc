"""One run on real executors, shortened: little state, small batches, the loop at work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import PATIENCE_S, back_to_two

from elastream import Movement, Policy, Timeouts
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.settings import changed_settings
from elastream_lab.benchmarks.failure.run import run_with_a_loss
from elastream_lab.benchmarks.migration.run import StreamRun
from elastream_lab.harness.commit_log import RETAIN_ALL
from elastream_lab.harness.made_posts import SteadyPosts, make_steady_posts
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount
from elastream_lab.mechanisms.trace import measured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

POLICY = Policy(
    min_executors=2,
    max_executors=2,
    tau=0.5,
    movement=Movement(warm_up=False),
    timeouts=Timeouts(grow_s=PATIENCE_S, action_s=PATIENCE_S, call_s=PATIENCE_S),
)


def test_a_killed_executor_is_replaced_its_tasks_move_and_every_count_is_right(
    spark: SparkSession, tmp_path: Path
) -> None:
    posts = SteadyPosts(600.0, 50.0, lead_rows=200)
    job = WordCount(
        make_steady_posts(posts, tmp_path / "posts.arrow"),
        ReplayClock(tmp_path / "clock"),
        tmp_path / "checkpoint",
        partitions=4,
        trigger_s=0.2,
    )
    run = StreamRun("elastream", 1, (1, 2), job, posts.first, 0.5, lambda _: None)
    try:
        with changed_settings(spark, RETAIN_ALL):
            loss = run_with_a_loss(run, spark, POLICY)
    finally:
        back_to_two(SparkInternals.of(spark))
    assert job.wrong(spark) == 0
    assert loss.executor not in {entry.id for entry in SparkInternals.of(spark).executors()}
    assert loss.tasks == 2
    assert loss.detection_ms > 0
    assert loss.replaced_s is not None
    assert loss.replaced_s > 0
    (change,) = run.changes
    figures = measured(run.trace(), change, tau=0.5)
    assert figures.partitions_moved >= loss.tasks
    assert figures.bytes_loaded_in_batches > 0
    assert figures.change is not None
