"""Real-time queries through ``attach``: executors come and go at boundaries; counts are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.low_latency import LowLatencyRows, rows_read
from tests.spark.processes import kill
from tests.spark.running_query import BY_HAND, PATIENCE_S, until

import elastream
from elastream import Attachment, Decision
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.slow

KEYS = 40
POLICY = replace(BY_HAND, max_executors=2, movement=replace(BY_HAND.movement, copy_least_bytes=0))
UNCHECKED = {"spark.sql.streaming.realTimeMode.allowlistCheck": "false"}  # for the sink


@pytest.fixture(scope="module")
def realtime() -> Iterator[SparkSession]:
    session = embedded(
        EmbeddedCluster(
            executors=1,
            max_executors=2,
            executor_memory_mb=700,
            checkpoint_in_memory=True,
            config={
                "spark.sql.shuffle.partitions": "4",
                "spark.task.cpus": "0.05",
                "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
                "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
                **UNCHECKED,
            },
        ),
        timeout_s=PATIENCE_S,
    )
    yield session
    stop(session)


@pytest.fixture(autouse=True)
def _stopped(realtime: SparkSession) -> Iterator[None]:
    """Leave no query to the next test, whose slots it would take."""
    yield
    for query in realtime.streams.active:
        query.stop()


def started(rows: LowLatencyRows, checkpoint: Path, name: str) -> StreamingQuery:
    counts = rows.frame.groupBy("value").count()
    writer = counts.writeStream.format("noop").queryName(name).outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(realTime="10 seconds").start()  # type: ignore[call-overload,no-any-return]


def counted(spark: SparkSession, checkpoint: Path) -> int:
    state = spark.read.format("statestore").load(str(checkpoint)).select("value").collect()
    return sum(row["value"][0] for row in state)


def batches_later(query: StreamingQuery, number: int) -> None:
    def last() -> int:
        assert query.isActive, query.exception()
        return -1 if query.lastProgress is None else query.lastProgress.batchId

    wanted = last() + number
    until(lambda: last() >= wanted, f"batch {wanted} ends")


def read_all(query: StreamingQuery, rows: LowLatencyRows) -> None:
    until(lambda: not query.isActive or rows_read(query) == rows.added, "all rows are read")
    assert query.isActive, query.exception()


def recorded(decisions: list[Decision]) -> Callable[[Decision], None]:
    """Keep decisions, and print those that are no holds: a test that fails shows them."""

    def record(decision: Decision) -> None:
        decisions.append(decision)
        if decision.kind != "hold":
            print(f"{decision.kind}: {decision.reason} {dict(decision.figures)}", flush=True)

    return record


def story(decisions: list[Decision]) -> str:
    return "\n".join(f"{each.kind}: {each.reason}" for each in decisions if each.kind != "hold")


def placed(attachment: Attachment, executors: int, *, tasks: int = 4) -> None:
    until(lambda: len(attachment.where()) == tasks, "all tasks are known")
    assert len(set(attachment.where().values())) == executors


def test_executors_come_and_go_under_a_real_time_query_and_every_row_is_counted_once(
    realtime: SparkSession, tmp_path: Path
) -> None:
    rows, decisions = LowLatencyRows(realtime), list[Decision]()
    rows.add([str(each % KEYS) for each in range(200)])
    query = started(rows, tmp_path, "comes and goes")
    with elastream.attach(query, POLICY, log=recorded(decisions)) as attachment, rows.flowing(KEYS):
        placed(attachment, 1)
        batches_later(query, 1)
        attachment.scale_to(2)
        assert attachment.wait(PATIENCE_S)
        assert len(attachment.executors()) == 2, story(decisions)
        placed(attachment, 2)
        batches_later(query, 1)
        attachment.scale_to(1)
        assert attachment.wait(PATIENCE_S)
        assert len(attachment.executors()) == 1, story(decisions)
        placed(attachment, 1)
        assert all(load.measured for _, load in attachment.state.observed.tasks())
    read_all(query, rows)
    query.stop()
    assert counted(realtime, tmp_path) == rows_read(query) == rows.added


def test_a_query_whose_executor_is_killed_is_started_again_and_counts_every_row_once(
    realtime: SparkSession, tmp_path: Path
) -> None:
    rows, decisions = LowLatencyRows(realtime), list[Decision]()
    runs: list[StreamingQuery] = []
    rows.add([str(each % KEYS) for each in range(200)])

    def start() -> StreamingQuery:
        runs.append(started(rows, tmp_path, "is started again"))
        return runs[-1]

    query = start()
    attachment = elastream.attach(query, POLICY, log=recorded(decisions), restart=start)
    with attachment, rows.flowing(KEYS):
        placed(attachment, 1)
        batches_later(query, 1)
        kill(realtime, attachment.executors()[0].id)
        until(lambda: len(runs) > 1 and runs[-1].isActive, "the query is started again")
        batches_later(runs[-1], 1)
    read_all(runs[-1], rows)
    runs[-1].stop()
    assert {each.kind for each in decisions} >= {"restart", "leave", "join"}, story(decisions)
    assert counted(realtime, tmp_path) == rows_read(runs[-1]) == rows.added


def test_a_real_time_and_a_micro_batch_query_of_one_application_are_both_moved_and_exact(
    realtime: SparkSession, tmp_path: Path
) -> None:
    rows, decisions = LowLatencyRows(realtime), list[Decision]()
    rows.add([str(each % KEYS) for each in range(200)])
    query = started(rows, tmp_path / "one", "real-time")
    ticks = realtime.readStream.format("rate").option("rowsPerSecond", 20).load()
    writer = ticks.selectExpr("value % 7 AS key").groupBy("key").count().writeStream
    writer = writer.format("noop").queryName("micro-batch").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path / "two"))
    other = writer.trigger(processingTime="2 seconds").start()
    attachment = elastream.attach(realtime, POLICY, log=recorded(decisions))
    with attachment, rows.flowing(KEYS):
        placed(attachment, 1, tasks=8)
        batches_later(query, 1)
        for executors in (2, 1):
            attachment.scale_to(executors)
            assert attachment.wait(PATIENCE_S)
            assert len(attachment.executors()) == executors, story(decisions)
            placed(attachment, executors, tasks=8)
            batches_later(query, 1)
            batches_later(other, 1)
    read_all(query, rows)
    query.stop()
    assert other.isActive, other.exception()
    elastream.stop_gracefully(other)
    assert counted(realtime, tmp_path / "one") == rows_read(query) == rows.added
    state = realtime.read.format("statestore").load(str(tmp_path / "two"))
    found = {row["key"]["key"]: row["value"][0] for row in state.collect()}
    total = sum(found.values())
    assert found == {key: len(range(key, total, 7)) for key in range(7)}
