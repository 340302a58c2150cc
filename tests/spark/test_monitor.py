from __future__ import annotations

import logging
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import PATIENCE_S, running
from tests.spark.streams import KEYS, ROWS, aggregation, numbers

from elastream.control.observation import BatchObservation, TaskId
from elastream.spark.monitor import Monitor, kafka_backlog
from elastream.spark.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4


def test_a_batch_is_told_with_its_rows_and_the_work_and_state_of_every_task(
    spark: SparkSession,
) -> None:
    with running(aggregation(spark), mode="update") as run:
        run.pass_batches(2)
        last = run.told[-1]
        assert last.rows == ROWS
        assert last.backlog is None
        assert last.duration_ms > 0
        assert [task.task for task in last.tasks] == [TaskId(0, p) for p in range(PARTITIONS)]
        assert sum(task.state_rows for task in last.tasks) == KEYS
        assert KEYS <= sum(task.rows for task in last.tasks) <= 2 * KEYS, "combined per source task"
        assert all(task.run_ms > 0 for task in last.tasks)
        assert all(20 <= task.state_bytes / task.state_rows <= 200 for task in last.tasks)


def test_operators_without_a_shuffle_between_them_are_one_and_move_together(
    spark: SparkSession,
) -> None:
    frame = keyed(spark).dropDuplicates(["key", "value"]).groupBy("key", "value").count()
    with running(frame, mode="update") as run:
        assert [operator.id for operator in run.placement.operators] == [0, 1]
        assert run.placement.tasks == tuple(TaskId(0, p) for p in range(PARTITIONS))
        first, _ = run.executor_ids()
        run.settle(dict.fromkeys(run.placement.tasks, first))
        run.pass_batches(1)
        last = run.told[-1]
        read = (last.batch + 1) * ROWS
        assert sum(task.state_rows for task in last.tasks) == 2 * read, "both operators' rows"


def test_operators_with_a_shuffle_between_them_have_tasks_of_their_own(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as f

    inner = windows(spark).groupBy("window", "key").count()
    outer = inner.groupBy(f.window(f.window_time("window"), "2 seconds")).agg(f.sum("count"))
    with running(outer, mode="append") as run:
        each = {TaskId(o, p) for o in (0, 1) for p in range(PARTITIONS)}
        assert set(run.placement.tasks) == each
        first, second = run.executor_ids()
        wanted = {task: first if task.operator == 0 else second for task in each}
        run.settle(wanted)
        run.pass_batches(1)
        assert {task.task: task.executor for task in run.told[-1].tasks} == wanted


def test_operators_behind_a_union_are_told_apart(spark: SparkSession) -> None:
    counts = windows(spark).groupBy("window", "key").count()
    totals = windows(spark).groupBy("window").count().selectExpr("window", "0L key", "count")
    with running(counts.unionByName(totals), mode="append") as run:
        each = {TaskId(o, p) for o in (0, 1) for p in range(PARTITIONS)}
        assert set(run.placement.tasks) == each
        first, second = run.executor_ids()
        wanted = {task: first if task.operator == 0 else second for task in each}
        run.settle(wanted)
        run.pass_batches(1)
        last = run.told[-1]
        assert {task.task: task.executor for task in last.tasks} == wanted
        rows = [sum(t.state_rows for t in last.tasks if t.task.operator == o) for o in (0, 1)]
        assert max(rows) == KEYS * min(rows), "a row a key in one, a row a window in the other"


def test_a_query_without_state_is_told_without_tasks(spark: SparkSession) -> None:
    query = numbers(spark).writeStream.format("noop").start()
    try:
        monitor = Monitor(PrivateDoor.of(spark), query)
        told: Queue[BatchObservation] = Queue()
        monitor.subscribe(told.put)
        batches = [told.get(timeout=PATIENCE_S) for _ in range(2)]
        monitor.close()
        assert {(batch.rows, batch.tasks) for batch in batches} == {(ROWS, ())}
    finally:
        query.stop()


def test_a_subscriber_that_fails_is_logged_and_the_others_still_hear(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: BatchObservation) -> None:
        raise RuntimeError("no")

    with running(aggregation(spark), mode="update") as run, caplog.at_level(logging.ERROR):
        unsubscribe = run.monitor.subscribe(fail)
        told: Queue[BatchObservation] = Queue()
        run.monitor.subscribe(told.put)
        first, second = (told.get(timeout=PATIENCE_S).batch for _ in range(2))
        unsubscribe()
        assert second == first + 1
        assert f"a subscriber failed at batch {first}" in caplog.text


def test_a_closed_monitor_tells_no_more_and_leaves_the_query_running(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        run.monitor.close()
        told = len(run.told)
        assert run.monitor.ended.is_set()
        with Monitor(run.door, run.query) as another:
            heard: Queue[BatchObservation] = Queue()
            another.subscribe(heard.put)
            assert heard.get(timeout=PATIENCE_S).rows == ROWS
        assert another.ended.is_set()
        assert len(run.told) == told
        assert run.query.isActive


def test_the_backlog_of_kafka_topics_is_summed_and_unknown_for_other_sources() -> None:
    kafka = {
        "description": "KafkaV2[Subscribe[posts]]",
        "endOffset": {"posts": {"0": 10, "1": 20}},
        "latestOffset": {"posts": {"0": 15, "1": 20, "2": 4}},
    }
    rate: dict[str, Any] = {"description": "RateStream", "endOffset": 7, "latestOffset": 9}
    assert kafka_backlog({"sources": [kafka]}) == 9
    assert kafka_backlog({"sources": [kafka, kafka]}) == 18
    assert kafka_backlog({"sources": [rate]}) is None
    assert kafka_backlog({"sources": [kafka, rate]}) is None


def keyed(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    return numbers(spark).withColumn("key", f.col("value") % KEYS)


def windows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    timed = keyed(spark).withWatermark("timestamp", "1 second")
    return timed.withColumn("window", f.window("timestamp", "2 seconds"))
