"""A query that was stopped for a change is started again, or it is said that it stays stopped."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import Attachment, Decision, attach, stop_gracefully
from elastream.core.ports import Ticket
from elastream.launch.restarts import CaughtQueries
from elastream.model.errors import QueryStoppedError, SparkError
from elastream.spark.internals.spark_internals import PrivateDoor
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream.spark.sessions.query_settings import PARTITIONS, changed_settings
from elastream.spark.steer.pauser import SparkPauser
from elastream.spark.steer.repartitioner import SparkRepartitioner
from elastream.spark.steer.restarting import BOUND_S, QueryRestarter, Restart, try_for_a_while

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PAUSES = replace(BY_HAND, mechanism="pause")


class Clock:
    """Time that passes while somebody sleeps, and not otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds


def never(_: Exception) -> bool:
    return False


def test_an_attempt_that_failed_is_followed_by_others_after_longer_and_longer_waits() -> None:
    clock, left = Clock(), [OSError("one"), OSError("two"), OSError("three")]

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    found = try_for_a_while(attempt, is_hopeless=never, clock=clock, sleep=clock.sleep)
    assert (found, clock.waits) == ("done", [1.0, 2.0, 4.0])


def test_attempts_end_with_one_at_the_bound() -> None:
    clock, at_s = Clock(), list[float]()

    def attempt() -> None:
        at_s.append(clock())
        raise OSError(f"{len(at_s)}")

    with pytest.raises(OSError, match=r"^15$"):
        try_for_a_while(attempt, is_hopeless=never, clock=clock, sleep=clock.sleep)
    assert at_s[-1] == BOUND_S
    assert max(clock.waits) == 30.0


def test_an_attempt_that_shows_that_others_are_hopeless_is_the_last() -> None:
    clock = Clock()

    def attempt() -> None:
        raise OSError("gone for good")

    with pytest.raises(OSError, match="gone"):
        try_for_a_while(
            attempt,
            is_hopeless=lambda error: "for good" in str(error),
            clock=clock,
            sleep=clock.sleep,
        )
    assert clock.waits == []


@pytest.fixture
def folder(spark: SparkSession) -> Iterator[Path]:
    made = scratch_folder(spark) / f"restarting-{time.monotonic_ns()}"
    made.mkdir()
    yield made
    for query in spark.streams.active:
        query.stop()
    back_to_two(PrivateDoor.of(spark))
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def start(spark: SparkSession, folder: Path) -> Callable[[], StreamingQuery]:
    """What starts a query, and starts it again."""

    def begin() -> StreamingQuery:
        writer = aggregation(spark).writeStream.format("noop").outputMode("update")
        writer = writer.queryName("counting").option("checkpointLocation", str(folder / "counting"))
        return writer.trigger(processingTime="300 milliseconds").start()

    return begin


def failing(start: Restart, times: int, *, after: bool = False) -> Restart:
    """What fails so many times before, or after, it starts the query."""
    left = [times]

    def start_counting() -> StreamingQuery:
        if after:
            start()
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(f"no answer\nfrom storage, {left[0]} left")
        return start()

    return start_counting


def await_tasks(attachment: Attachment, number: int = 4) -> None:
    until(lambda: len(attachment.where()) == number, "all tasks were seen")


def swap(attachment: Attachment) -> None:
    """Ask every task to go to the other executor."""
    await_tasks(attachment)
    first, second = [each.id for each in attachment.executors()]
    there = attachment.where()
    attachment.move({task: second if at == first else first for task, at in there.items()})


def restarter(attachment: Attachment, restart: Restart, clock: Clock) -> QueryRestarter:
    """What starts the queries of an attachment in a time of its own."""
    door = attachment._application.door
    return QueryRestarter(
        door, attachment.monitor, lambda _: restart, clock=clock, sleep=clock.sleep
    )


def assert_exact(spark: SparkSession, folder: Path) -> None:
    for query in spark.streams.active:
        stop_gracefully(query)
    rows = committed_rows(folder / "counting")
    assert aggregation_state(spark, str(folder / "counting")) == aggregation_answer(rows)


@pytest.mark.parametrize("after", [False, True])
def test_a_query_that_does_not_start_at_once_is_started_until_it_runs(
    spark: SparkSession, folder: Path, start: Restart, *, after: bool
) -> None:
    told = list[Decision]()
    restart = failing(start, 1 if after else 2, after=after)
    with attach(start(), PAUSES, log=told.append, restart=restart) as attachment:
        swap(attachment)
        assert attachment.wait(PATIENCE_S)
        await_tasks(attachment)
        assert [query.name for query in attachment.queries] == ["counting"]
    kinds = [each.kind for each in told]
    assert "done" in kinds
    assert "abandon" not in kinds
    assert_exact(spark, folder)


def test_a_query_that_stays_stopped_is_reported_with_its_checkpoint_and_what_starts_it(
    spark: SparkSession, folder: Path, start: Restart, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        pauser = SparkPauser(restarter(attachment, failing(start, 1000), clock))
        with (
            caplog.at_level(logging.ERROR),
            pytest.raises(QueryStoppedError) as raised,
        ):
            pauser.pause("counting", {}, ticket=Ticket())
        assert clock.now_s == BOUND_S
        why = str(raised.value)
        assert why.startswith(
            "query counting is STOPPED: it was not started again in 15 tries: query counting did "
            "not start again: OSError: no answer"
        )
        assert f"its checkpoint is file:{folder}/counting; start it there with" in why
        assert why.endswith("with start_counting(), or run its program again")
        assert why in caplog.messages
        assert not spark.streams.active
        start()
        await_tasks(attachment)
    assert_exact(spark, folder)


def test_the_log_says_of_a_query_that_stays_stopped_that_it_is_and_what_was_started_instead(
    spark: SparkSession, folder: Path, start: Restart
) -> None:
    def start_another() -> StreamingQuery:
        writer = aggregation(spark).writeStream.format("noop").outputMode("update")
        return writer.option("checkpointLocation", str(folder / "another")).start()

    told = list[Decision]()
    with attach(start(), PAUSES, log=told.append, restart=start_another) as attachment:
        swap(attachment)
        assert attachment.wait(PATIENCE_S)
    (given_up,) = [each for each in told if each.kind == "abandon"]
    assert "counting is STOPPED: it was not started again in 1 try: what was" in given_up.reason
    assert "was not paused" not in given_up.reason
    assert [query.name for query in spark.streams.active] == [None]


def test_a_query_is_started_again_also_where_it_was_not_repartitioned(
    spark: SparkSession, folder: Path, start: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, failing(start, 2), Clock())
        repartitioner = SparkRepartitioner(attachment._application.door, restarts)

        def fail(*_: object) -> None:
            raise SparkError("no space left")

        monkeypatch.setattr(repartitioner, "_change", fail)
        with pytest.raises(SparkError, match=r"^no space left$"):
            repartitioner.repartition("counting", 8, {}, ticket=Ticket())
        await_tasks(attachment)
    assert_exact(spark, folder)


def test_a_query_that_stays_stopped_on_more_partitions_is_reported_with_their_number(
    spark: SparkSession, folder: Path, start: Restart
) -> None:
    with changed_settings(spark, {PARTITIONS: "1"}):
        query = start()
    with attach(query, BY_HAND) as attachment:
        await_tasks(attachment, 1)
        restarts = restarter(attachment, failing(start, 1000), Clock())
        repartitioner = SparkRepartitioner(attachment._application.door, restarts)
        with pytest.raises(QueryStoppedError, match=r"/counting, which has 2 partitions now; "):
            repartitioner.repartition("counting", 2, {}, ticket=Ticket())
    start()
    until(lambda: len(spark.streams.active) == 1, "it runs")
    assert_exact(spark, folder)


def test_a_query_counts_as_paused_until_it_runs_also_where_the_loop_fails_meanwhile(
    start: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, may_start = threading.Event(), threading.Event()

    def fail(*_: object) -> None:
        raise KeyError("a fault")

    def start_again() -> StreamingQuery:
        stopped.set()
        assert may_start.wait(PATIENCE_S)
        return start()

    with attach(start(), PAUSES, restart=start_again) as attachment:
        swap(attachment)
        assert stopped.wait(PATIENCE_S)
        monkeypatch.setattr("elastream.core.driver.step", fail)
        until(attachment.monitor.ended.is_set, "the loop has failed")
        assert attachment.paused("counting")
        assert not attachment.await_queries(0.5)
        may_start.set()
        until(lambda: not attachment.paused(), "the query runs")
        assert not attachment.await_queries(0.5)


def test_a_program_that_waits_for_a_query_that_did_not_start_again_sees_it_fail(
    spark: SparkSession, folder: Path, start: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[str] = []
    caught = CaughtQueries(lambda name: name in paused)
    for owner, name, method in caught.hooks():
        monkeypatch.setattr(owner, name, method)
    query = start()
    start_again = caught.restarts["counting"]
    stop_gracefully(query)
    other = aggregation(spark).writeStream.format("noop").outputMode("update")
    other = other.queryName("counting").option("checkpointLocation", str(folder / "other"))
    in_the_way = other.start()
    paused.append("counting")
    with pytest.raises(Exception, match="counting"):
        start_again()
    paused.clear()
    with pytest.raises(StreamingQueryException, match="counting was stopped for a change and did"):
        query.awaitTermination()
    in_the_way.stop()
    start_again()
    stop_gracefully(query)
    assert query.awaitTermination(600)
