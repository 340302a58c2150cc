from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from queue import Queue
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.running_query import PATIENCE_S, RunningQuery, running
from tests.spark.streams import KEYS, ROWS, aggregation, numbers

from elastream import TaskId
from elastream.core.events import BatchObserved, Fact, Status
from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import batches_of, watching
from elastream.spark.observe.watched_query import kafka_backlog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> Iterator[RunningQuery]:
    """A query that several tests watch."""
    with running(aggregation(spark), mode="update") as run:
        yield run


def test_a_batch_is_reported_with_its_rows_and_the_work_and_state_of_every_task(
    counted: RunningQuery,
) -> None:
    counted.pass_batches(2)
    last = counted.batches[-1]
    assert last.rows == ROWS
    assert last.backlog is None
    assert last.duration_ms > 0
    tasks = [TaskId(counted.sink, 0, partition) for partition in range(PARTITIONS)]
    assert [task.task for task in last.tasks] == tasks
    assert sum(task.state_rows for task in last.tasks) == KEYS
    assert KEYS <= sum(task.rows for task in last.tasks) <= 2 * KEYS, "combined per source task"
    assert all(task.run_ms > 0 for task in last.tasks)
    sizes = [task.state_bytes / task.state_rows for task in last.tasks]
    assert all(20 <= size <= 500 for size in sizes), sizes  # few rows share the files of a store


def test_operators_without_a_shuffle_between_them_are_one_and_move_together(
    spark: SparkSession,
) -> None:
    frame = keyed(spark).dropDuplicates(["key", "value"]).groupBy("key", "value").count()
    with running(frame, mode="update") as run:
        assert [operator.id for operator in run.watched.operators] == [0, 1]
        assert run.tasks == tuple(TaskId(run.sink, 0, p) for p in range(PARTITIONS))
        first, _ = run.executor_ids()
        run.settle(dict.fromkeys(run.tasks, first))
        run.pass_batches(1)
        last = run.batches[-1]
        read = (last.batch + 1) * ROWS
        assert sum(task.state_rows for task in last.tasks) == 2 * read, "both operators' rows"


def test_operators_with_a_shuffle_between_them_have_tasks_of_their_own(
    spark: SparkSession,
) -> None:
    from pyspark.sql import functions as f

    inner = windows(spark).groupBy("window", "key").count()
    outer = inner.groupBy(f.window(f.window_time("window"), "2 seconds")).agg(f.sum("count"))
    with running(outer, mode="append") as run:
        each = {TaskId(run.sink, o, p) for o in (0, 1) for p in range(PARTITIONS)}
        assert set(run.tasks) == each
        first, second = run.executor_ids()
        wanted = {task: first if task.operator == 0 else second for task in each}
        run.settle(wanted)
        run.pass_batches(1)
        assert {task.task: task.executor for task in run.batches[-1].tasks} == wanted


@pytest.mark.slow
def test_operators_behind_a_union_are_distinguished(spark: SparkSession) -> None:
    counts = windows(spark).groupBy("window", "key").count()
    totals = windows(spark).groupBy("window").count().selectExpr("window", "0L key", "count")
    with running(counts.unionByName(totals), mode="append") as run:
        each = {TaskId(run.sink, o, p) for o in (0, 1) for p in range(PARTITIONS)}
        assert set(run.tasks) == each
        first, second = run.executor_ids()
        wanted = {task: first if task.operator == 0 else second for task in each}
        run.settle(wanted)
        run.pass_batches(1)
        last = run.batches[-1]
        assert {task.task: task.executor for task in last.tasks} == wanted
        rows = [sum(t.state_rows for t in last.tasks if t.task.operator == o) for o in (0, 1)]
        assert max(rows) == KEYS * min(rows), "a row a key in one, a row a window in the other"


def test_work_outside_stateful_tasks_is_reported_by_executor(counted: RunningQuery) -> None:
    counted.pass_batches(1)
    outside = counted.batches[-1].outside_ms
    assert set(outside) <= set(counted.executor_ids())
    assert sum(outside.values()) > 0, "the source's tasks"


def test_a_subscriber_that_fails_is_logged_and_the_others_still_hear(
    counted: RunningQuery, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(fact: Fact) -> None:
        if isinstance(fact, BatchObserved):
            raise RuntimeError("no")

    with caplog.at_level(logging.ERROR):
        unsubscribe = counted.monitor.subscribe(fail)
        batches: Queue[BatchObservation] = Queue()
        batches_of(counted.monitor, batches.put)
        first, second = (batches.get(timeout=PATIENCE_S).batch for _ in range(2))
        unsubscribe()
        assert second == first + 1
        assert "a subscriber failed at BatchObserved" in caplog.text


def test_a_closed_monitor_reports_no_more_and_leaves_the_query_running(
    counted: RunningQuery,
) -> None:
    with watching(counted.query) as seen:
        batches: Queue[BatchObservation] = Queue()
        batches_of(seen.monitor, batches.put)
        assert batches.get(timeout=PATIENCE_S).rows == ROWS
    assert seen.monitor.ended.is_set()
    report = batches.qsize()
    counted.pass_batches(2)
    assert batches.qsize() == report
    assert counted.query.isActive


def test_the_status_is_reported_between_batches(counted: RunningQuery) -> None:
    received: Queue[Status] = Queue()
    counted.monitor.subscribe(lambda fact: received.put(fact) if isinstance(fact, Status) else None)
    statuses = [received.get(timeout=PATIENCE_S) for _ in range(3)]
    assert all(status.idle == frozenset() for status in statuses), "it always has rows"
    assert [status.dropped for status in statuses] == [0, 0, 0]


def test_a_wrong_answer_about_the_backlog_costs_nothing_but_the_backlog(
    counted: RunningQuery, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([ValueError("no idea"), -3, "many", 5])

    def backlog(_: Any) -> Any:
        answer = next(answers, 7)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with watching(counted.query, backlog=backlog) as seen:
        batches: Queue[BatchObservation] = Queue()
        batches_of(seen.monitor, batches.put)
        reports = [batches.get(timeout=PATIENCE_S).backlog for _ in range(5)]
        assert reports == [None, None, None, 5, 7]
        assert "backlog" in caplog.text


def test_an_event_that_cannot_be_read_costs_that_batch_and_no_more(
    counted: RunningQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    from elastream.spark.observe.watched_query import WatchedQuery

    read = WatchedQuery.observed
    torn = iter([True])

    def observed(
        self: WatchedQuery, progress: Any, end_ms: int, waited_ms: float
    ) -> BatchObservation | None:
        if next(torn, False):
            raise KeyError("batchDuration")
        return read(self, progress, end_ms, waited_ms)

    monkeypatch.setattr(WatchedQuery, "observed", observed)
    before = counted.batches[-1].batch
    counted.pass_batches(2)
    assert [batch.batch for batch in counted.batches[-2:]] == [before + 2, before + 3]


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_clock_that_is_set_does_not_move_batches(
    counted: RunningQuery, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    counted.pass_batches(2)
    before, *after = counted.batches[-3:]
    passed_ms = [batch.finished_at_ms - before.finished_at_ms for batch in after]
    assert 0 < passed_ms[0] < passed_ms[1] < 1_800_000


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


def test_where_a_report_has_no_end_the_backlog_counts_from_the_start_and_a_new_topic_has_none() -> (
    None
):
    idle = {
        "description": "KafkaV2[Subscribe[posts]]",
        "startOffset": {"posts": {"0": 10, "1": 20}},
        "endOffset": None,
        "latestOffset": {"posts": {"0": 15, "1": 3}},
    }
    assert kafka_backlog({"sources": [idle]}) == 5
    assert kafka_backlog({"sources": [{**idle, "latestOffset": None}]}) is None


def keyed(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    return numbers(spark).withColumn("key", f.col("value") % KEYS)


def windows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    timed = keyed(spark).withWatermark("timestamp", "1 second")
    return timed.withColumn("window", f.window("timestamp", "2 seconds"))
