from __future__ import annotations

import queue
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.spark.running_query import PATIENCE_S

from elastream import TaskId
from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.steer.placement import place_resumed
from elastream_lab.harness.recording import write_recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_started_again_loads_its_state_where_it_is_wanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = [f"word{row % 37} word{row % 41}" for row in range(400)]
    recording = write_recording(tmp_path / "posts", np.zeros(400, dtype=np.int64), texts)
    clock = ReplayClock(tmp_path / "clock")
    clock.open(200)
    job = WordCount(recording, clock, tmp_path / "checkpoint", partitions=4, trigger_s=0.2)
    internals = SparkInternals.of(spark)
    (query,) = job.start(spark)
    query.processAllAvailable()
    operators = internals.queries.operators(internals.queries.of(query))
    query.stop()
    assert operators
    other, wanted = (executor.id for executor in internals.executors())
    goal = {TaskId("word_count", operators[0].id, partition): wanted for partition in (1, 2, 3)}
    goal[TaskId("word_count", operators[0].id, 0)] = "no executor of this name"
    batches = queue.SimpleQueue[BatchObservation]()
    (resumed,) = job.start(spark)  # plans no batch before there are rows
    try:
        place_resumed(internals, resumed, operators, goal)
        monitor = SparkMonitor(
            internals, ExecutorRegistry(internals), lambda query: query.id == str(resumed.id)
        )
        batches_of(monitor, batches.put)
        with monitor:
            clock.open(400)
            first = batches.get(timeout=PATIENCE_S)
    finally:
        resumed.stop()
    where = {seen.task.partition: seen.executor for seen in first.tasks}
    assert where == {0: other, 1: wanted, 2: wanted, 3: wanted}
