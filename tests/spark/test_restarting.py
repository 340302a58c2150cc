"""A query that was stopped for a change is started again, or it is said that it stays stopped."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, committed_rows, until
from tests.spark.stopping import stop_and_start
from tests.spark.streams import aggregation, aggregation_answer, aggregation_state

from elastream import Attachment, attach, stop_gracefully
from elastream.core.ports import Ticket
from elastream.model.errors import ProblemError, QueryStoppedError, SparkError
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream.spark.sessions.settings import PARTITIONS, changed_settings
from elastream.spark.steer.repartition import SparkRepartitioner
from elastream.spark.steer.restarting import BOUND_S, QueryRestarter, Restart, try_for_a_while

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


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
    back_to_two(SparkInternals.of(spark))
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
    """What fails this many times before, or after, it starts the query."""
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


def break_sources(folder: Path) -> Callable[[], None]:
    """Let a query of this checkpoint fail when it opens its sources; return what mends that."""
    sources = folder / "counting" / "sources"
    away = folder / "sources"
    sources.rename(away)
    sources.write_text("in the way")

    def mend() -> None:
        sources.unlink()
        away.rename(sources)

    return mend


def rates(spark: SparkSession, folder: Path) -> DataStreamWriter:
    """A query whose source keeps a file of its own in the checkpoint."""
    rows = spark.readStream.format("rate").load().groupBy("value").count()
    writer = rows.writeStream.format("noop").outputMode("update").queryName("counting")
    return writer.option("checkpointLocation", str(folder / "counting"))


def restarter(attachment: Attachment, restart: Restart, clock: Clock) -> QueryRestarter:
    """What starts the queries of an attachment in a time of its own."""
    internals = attachment._application.internals
    return QueryRestarter(
        internals, attachment.monitor, lambda _: restart, clock=clock, sleep=clock.sleep
    )


def assert_exact(spark: SparkSession, folder: Path) -> None:
    for query in spark.streams.active:
        stop_gracefully(query)
    rows = committed_rows(folder / "counting")
    assert aggregation_state(spark, str(folder / "counting")) == aggregation_answer(rows)


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_query_that_does_not_start_at_once_is_started_until_it_runs(
    spark: SparkSession, folder: Path, start: Restart, *, after: bool
) -> None:
    restart = failing(start, 1 if after else 2, after=after)
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        stop_and_start(restarter(attachment, restart, Clock()))
        await_tasks(attachment)
        assert [query.name for query in attachment.queries] == ["counting"]
    assert_exact(spark, folder)


def test_a_query_that_stays_stopped_is_reported_with_its_checkpoint_and_what_starts_it(
    spark: SparkSession, folder: Path, start: Restart, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, failing(start, 1000), clock)
        with caplog.at_level(logging.ERROR), pytest.raises(QueryStoppedError) as raised:
            stop_and_start(restarts)
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


@pytest.mark.slow
def test_a_run_that_fails_to_open_its_sources_is_followed_by_another(
    spark: SparkSession, folder: Path
) -> None:
    mends = list[Callable[[], None]]()
    writer = rates(spark, folder)

    def start_again() -> StreamingQuery:
        if mends:
            mends.pop()()
        else:
            mends.append(break_sources(folder))
        return writer.start()

    clock = Clock()
    with attach(writer.start(), BY_HAND) as attachment:
        await_tasks(attachment)
        stop_and_start(restarter(attachment, start_again, clock), places=attachment.where())
        assert clock.waits == [1.0]
        assert [query.name for query in spark.streams.active] == ["counting"]
        await_tasks(attachment)


@pytest.mark.slow
def test_a_query_that_fails_while_it_is_stopped_is_reported_as_stopped_and_not_started(
    spark: SparkSession, folder: Path
) -> None:
    fault = threading.Event()

    def fail(rows: DataFrame, batch: int) -> None:
        rows.collect()
        if fault.is_set():
            raise ValueError(f"no use for batch {batch}")

    def stop_failing(query: StreamingQuery) -> None:
        fault.set()
        until(lambda: not query.isActive, "it has failed")

    def start_again() -> StreamingQuery:
        raise AssertionError("it was started")

    writer = aggregation(spark).writeStream.foreachBatch(fail).outputMode("update")
    writer = writer.queryName("counting").option("checkpointLocation", str(folder / "counting"))
    with attach(writer.start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, start_again, Clock())
        with pytest.raises(QueryStoppedError, match="is STOPPED: it has failed of itself:") as said:
            stop_and_start(restarts, stop=stop_failing)
    assert f"its checkpoint is file:{folder}/counting; start it there with" in str(said.value)


@pytest.mark.slow
def test_a_repartitioning_that_was_begun_and_failed_is_reported_with_what_comes_next(
    folder: Path, start: Restart, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, failing(start, 0), Clock())
        repartitioner = SparkRepartitioner(attachment._application.internals, restarts)
        location = f"file:{folder}/counting"

        def begin_and_fail(*_: object) -> None:
            offsets = folder / "counting" / "offsets"
            last = max(int(each.name) for each in offsets.iterdir() if each.name.isdigit())
            text = (offsets / str(last)).read_text()
            begun = text.replace(f'"{PARTITIONS}":"4"', f'"{PARTITIONS}":"8"')
            assert begun != text
            (offsets / str(last + 1)).write_text(begun)
            raise SparkError("no space left")

        monkeypatch.setattr(repartitioner, "_change", begin_and_fail)
        with caplog.at_level(logging.ERROR), pytest.raises(QueryStoppedError) as raised:
            repartitioner.repartition("counting", 8, {}, ticket=Ticket())
    why = str(raised.value)
    assert why.startswith(
        "query counting is STOPPED: repartitioning was begun and failed: no space left; "
        f"`elastream repartition {location} 8` ends what was begun and comes first; its checkpoint"
    )
    assert why.endswith("start it there with start_counting(), or run its program again")
    assert why in caplog.messages


@pytest.mark.slow
def test_a_query_that_was_repartitioned_before_the_failure_is_reported_with_its_partitions(
    spark: SparkSession, start: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changed_settings(spark, {PARTITIONS: "1"}):
        query = start()
    with attach(query, BY_HAND) as attachment:
        await_tasks(attachment, 1)
        restarts = restarter(attachment, failing(start, 1000), Clock())
        repartitioner = SparkRepartitioner(attachment._application.internals, restarts)
        change = repartitioner._change

        def change_and_fail(location: str, partitions: int) -> None:
            change(location, partitions)
            raise SparkError("no answer came")

        monkeypatch.setattr(repartitioner, "_change", change_and_fail)
        with pytest.raises(QueryStoppedError, match=r"/counting, which has 2 partitions now; "):
            repartitioner.repartition("counting", 2, {}, ticket=Ticket())


@pytest.mark.slow
def test_whoever_leaves_impatiently_lets_the_start_under_way_be_the_last(
    spark: SparkSession, start: Restart
) -> None:
    failed = threading.Event()

    def start_again() -> StreamingQuery:
        failed.set()
        raise OSError("no answer")

    attachment = attach(start(), BY_HAND, restart=start_again)
    await_tasks(attachment)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(stop_and_start, attachment._application.restarter)
        assert failed.wait(PATIENCE_S)
        attachment.detach(patient=False)
        assert not attachment.paused()
        assert not spark.streams.active
        with pytest.raises(QueryStoppedError, match="counting is STOPPED"):
            stopping.result(PATIENCE_S)


@pytest.mark.slow
def test_a_function_that_starts_another_query_is_called_once_and_the_query_stays_stopped(
    spark: SparkSession, folder: Path, start: Restart
) -> None:
    def start_another() -> StreamingQuery:
        writer = aggregation(spark).writeStream.format("noop").outputMode("update")
        writer = writer.trigger(processingTime="500 milliseconds")
        return writer.option("checkpointLocation", str(folder / "another")).start()

    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, start_another, Clock())
        why = "counting is STOPPED: it was not started again in 1 try: what was"
        with pytest.raises(QueryStoppedError, match=why):
            stop_and_start(restarts)
    assert [query.name for query in spark.streams.active] == [None]


@pytest.mark.slow
def test_a_query_is_started_again_also_where_it_was_not_repartitioned(
    spark: SparkSession, folder: Path, start: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attach(start(), BY_HAND) as attachment:
        await_tasks(attachment)
        restarts = restarter(attachment, failing(start, 2), Clock())
        repartitioner = SparkRepartitioner(attachment._application.internals, restarts)

        def fail(*_: object) -> None:
            raise SparkError("no space left")

        monkeypatch.setattr(repartitioner, "_change", fail)
        with pytest.raises(SparkError, match=r"^no space left$"):
            repartitioner.repartition("counting", 8, {}, ticket=Ticket())
        await_tasks(attachment)
    assert_exact(spark, folder)


@pytest.mark.slow
def test_a_query_that_stays_stopped_on_more_partitions_is_reported_with_their_number(
    spark: SparkSession, folder: Path, start: Restart
) -> None:
    with changed_settings(spark, {PARTITIONS: "1"}):
        query = start()
    with attach(query, BY_HAND) as attachment:
        await_tasks(attachment, 1)
        restarts = restarter(attachment, failing(start, 1000), Clock())
        repartitioner = SparkRepartitioner(attachment._application.internals, restarts)
        with pytest.raises(QueryStoppedError, match=r"/counting, which has 2 partitions now; "):
            repartitioner.repartition("counting", 2, {}, ticket=Ticket())
    start()
    until(lambda: len(spark.streams.active) == 1, "it runs")
    assert_exact(spark, folder)


@pytest.mark.slow
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

    with ThreadPoolExecutor(1) as pool, attach(start(), BY_HAND, restart=start_again) as attachment:
        await_tasks(attachment)
        stopping = pool.submit(stop_and_start, attachment._application.restarter)
        assert stopped.wait(PATIENCE_S)
        monkeypatch.setattr("elastream.core.driver.step", fail)
        until(attachment.monitor.ended.is_set, "the loop has failed")
        assert attachment.paused("counting")
        assert not attachment.await_queries(0.5)
        may_start.set()
        stopping.result(PATIENCE_S)
        assert not attachment.paused()
        assert not attachment.await_queries(0.5)


def test_a_query_without_a_checkpoint_of_its_own_is_not_stopped(spark: SparkSession) -> None:
    writer = aggregation(spark).writeStream.outputMode("update").queryName("fleeting")
    query = writer.format("noop").trigger(processingTime="300 milliseconds").start()
    try:
        with attach(query, BY_HAND, restart=lambda: query) as attachment:
            await_tasks(attachment)
            with pytest.raises(ProblemError, match="no checkpointLocation"):
                attachment._application.restarter.resumable("fleeting")
        assert query.isActive
    finally:
        query.stop()
