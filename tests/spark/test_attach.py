"""``elastream.attach`` on real executors: it scales, it survives faults, it lets go."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.processes import kill
from tests.spark.running_query import PATIENCE_S, back_to_two, committed_rows
from tests.spark.streams import (
    aggregation,
    aggregation_answer,
    aggregation_state,
    numbers,
)

from elastream import Attachment, Policy, QueryRefusedError, attach
from elastream.control.decisions import Decision, read_decisions
from elastream.model.errors import AlreadyAttachedError
from elastream.spark.cluster import scratch_folder
from elastream.spark.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MANUAL: dict[str, Any] = {"max_executors": 3, "patience": 10**6, "tau": 0.5, "moves_per_batch": 1}
"""A loop that only does what it is asked to."""


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@contextmanager
def counting(spark: SparkSession, checkpoint: Path) -> Iterator[StreamingQuery]:
    query = (
        aggregation(spark)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()
        back_to_two(PrivateDoor.of(spark))


def holders(attachment: Attachment) -> set[str]:
    return set(attachment.placement.where().values())


def assert_exact(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> None:
    query.stop()
    assert aggregation_state(spark, str(checkpoint)) == aggregation_answer(
        committed_rows(checkpoint)
    )


@pytest.fixture
def checkpoint(spark: SparkSession) -> Iterator[Path]:
    folder = scratch_folder(spark) / f"attach-{time.monotonic_ns()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_query_is_scaled_out_and_in_while_it_runs_and_stays_exact(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    log = tmp_path / "decisions.jsonl"
    with counting(spark, checkpoint) as query:
        with attach(query, Policy(**MANUAL), log=log) as attachment:
            until(lambda: len(holders(attachment)) == 2, "two executors hold state")
            attachment.controller.scale_to(3)
            until(lambda: len(holders(attachment)) == 3, "the new executor holds its share")
            attachment.controller.scale_to(2)
            until(lambda: len(PrivateDoor.of(spark).executors()) == 2, "an executor is gone")
            assert len(holders(attachment)) == 2
        assert query.isActive, "detaching leaves the query running"
        assert_exact(spark, query, checkpoint)
    kinds = [decision.kind for decision in read_decisions(log)]
    assert kinds[0] == "attach"
    assert kinds[-1] == "detach"
    assert kinds.count("done") == 2


def test_a_second_controller_is_refused_until_the_first_lets_go(
    spark: SparkSession, checkpoint: Path
) -> None:
    with counting(spark, checkpoint) as query:
        with attach(query, Policy(**MANUAL)), pytest.raises(AlreadyAttachedError):
            attach(query, Policy(**MANUAL))
        attach(query, Policy(**MANUAL)).detach()
        assert query.isActive


def test_advise_only_decides_and_changes_nothing(spark: SparkSession, checkpoint: Path) -> None:
    told: list[Decision] = []
    policy = Policy(
        max_executors=3, min_executors=3, patience=1, cooldown_s=0, advise_only=True
    )  # two are too few by its bounds
    with counting(spark, checkpoint) as query, attach(query, policy, log=told.append) as attachment:
        until(lambda: any(decision.kind == "advise" for decision in told), "it advises")
        assert len(PrivateDoor.of(spark).executors()) == 2
        assert len(holders(attachment)) <= 2


def test_an_executor_killed_in_the_middle_of_a_migration_is_replaced_and_nothing_is_lost(
    spark: SparkSession, checkpoint: Path
) -> None:
    told: list[Decision] = []
    policy = Policy(**MANUAL, warm_up=False)
    with counting(spark, checkpoint) as query, attach(query, policy, log=told.append) as attachment:
        until(lambda: len(holders(attachment)) == 2, "two executors hold state")
        before = holders(attachment)
        attachment.controller.scale_to(3)
        until(lambda: any(decision.kind == "migrate" for decision in told), "tasks move")
        alive = {entry.id for entry in PrivateDoor.of(spark).executors()}
        kill(spark, (alive - before).pop())
        ends = ("done", "abandon")
        until(lambda: any(decision.kind in ends for decision in told), "the change ends")
        last = query.lastProgress
        until(lambda: (query.lastProgress or last) != last, "the query goes on")
        assert_exact(spark, query, checkpoint)


def test_a_driver_killed_in_the_middle_of_a_migration_loses_nothing(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    with (tmp_path / "driver.log").open("w") as log:  # its JVM outlives it for a moment
        command = [sys.executable, "-m", "tests.spark.killed_driver", str(checkpoint)]
        died = subprocess.run(command, stdout=log, stderr=log, timeout=4 * PATIENCE_S).returncode
    assert died == -signal.SIGKILL, (tmp_path / "driver.log").read_text()[-2000:]
    before = committed_rows(checkpoint)
    with counting(spark, checkpoint) as query:
        until(lambda: committed_rows(checkpoint) > before, "the query goes on")
        assert_exact(spark, query, checkpoint)


def test_a_checkpoint_that_cannot_be_read_ends_the_query_with_the_reason_and_lets_go(
    spark: SparkSession, checkpoint: Path
) -> None:
    told: list[Decision] = []
    with counting(spark, checkpoint) as query:
        attachment = attach(query, Policy(**MANUAL), log=told.append)
        until(lambda: len(holders(attachment)) == 2, "two executors hold state")
        where = attachment.placement.where()
        task = min(where)
        other = (set(where.values()) - {where[task]}).pop()
        store = checkpoint / "state" / str(task.operator) / str(task.partition)
        shutil.rmtree(store)
        store.write_text("no state here")
        attachment.controller.move({task: other})
        until(lambda: not query.isActive, "the query has ended")
        until(lambda: told[-1].kind == "detach", "the loop has let go")
        assert told[-1].reason == "the query has ended"
        assert query.exception() is not None


def test_a_query_that_has_stopped_is_refused(spark: SparkSession, checkpoint: Path) -> None:
    with counting(spark, checkpoint) as query:
        query.stop()
        with pytest.raises(QueryRefusedError, match="is not running"):
            attach(query, Policy(**MANUAL))


def test_a_query_without_state_is_refused_and_left_alone(
    spark: SparkSession, checkpoint: Path
) -> None:
    frame = numbers(spark).writeStream.format("noop")
    query = frame.option("checkpointLocation", str(checkpoint)).start()
    try:
        with pytest.raises(QueryRefusedError, match="no state"):
            attach(query, Policy(**MANUAL))
        assert query.isActive
    finally:
        query.stop()


def test_a_setting_that_would_make_moves_cheaper_is_advised_and_the_query_attached(
    spark: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    with counting(spark, checkpoint) as query:
        spark.conf.set(name, "false")
        try:
            with attach(query, Policy(**MANUAL)):
                pass
        finally:
            spark.conf.set(name, "true")
        assert query.isActive
    assert f"{name} is false; set it to true" in caplog.text
