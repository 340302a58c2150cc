"""Attachments that share a loop, and how the loop ends: once, and for all of them."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import BY_HAND, PATIENCE_S, back_to_two, until
from tests.spark.stopping import stop_and_start
from tests.spark.streams import aggregation

from elastream import Attachment, Decision, Goal, Observed, Wanted, attach
from elastream.core.ports import Ticket
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def start(spark: SparkSession) -> Iterator[Callable[[], StreamingQuery]]:
    """What starts a query, and starts it again."""
    folder = scratch_folder(spark) / f"ends-{time.monotonic_ns()}"

    def begin() -> StreamingQuery:
        writer = aggregation(spark).writeStream.format("noop").outputMode("update")
        writer = writer.queryName("counting").option("checkpointLocation", str(folder))
        return writer.trigger(processingTime="300 milliseconds").start()

    yield begin
    for query in spark.streams.active:
        query.stop()
    back_to_two(SparkInternals.of(spark))
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Faulty(Goal):
    """Cannot make sense of what it sees while ``fault`` is set."""

    fault: threading.Event

    @property
    def name(self) -> str:
        return "faulty"

    def wanted(self, memory: None, observed: Observed) -> tuple[None, Wanted, tuple[()]]:
        if self.fault.is_set():
            raise KeyError("a fault")
        return memory, Wanted("hold", len(observed.executors), "fine"), ()


def await_tasks(attachment: Attachment) -> None:
    until(lambda: len(attachment.where()) == 4, "all tasks were seen")


def share_a_loop(one: Attachment, other: Attachment) -> bool:
    return one.monitor is other.monitor


def test_detaching_twice_leaves_the_loop_of_a_newer_attachment_alone(
    start: Callable[[], StreamingQuery],
) -> None:
    query = start()
    first = attach(query, BY_HAND)
    first.detach()
    with attach(query, BY_HAND) as second:
        first.detach()
        with attach(query, BY_HAND) as third:
            assert share_a_loop(second, third)
            second.detach()
            second.detach()
            await_tasks(third)
    assert query.isActive


@pytest.mark.slow
def test_restart_functions_leave_with_the_attachment_that_brought_them(
    spark: SparkSession, start: Callable[[], StreamingQuery]
) -> None:
    query, starts = start(), list[str]()

    def start_by(name: str) -> Callable[[], StreamingQuery]:
        def start_again() -> StreamingQuery:
            starts.append(name)
            return start()

        return start_again

    with attach(query, BY_HAND, restart=start_by("older")) as older:
        newer = attach(query, BY_HAND, restart=start_by("newer"))
        await_tasks(older)
        stop_and_start(older._application.restarter)
        newer.detach()
        (runs,) = spark.streams.active
        until(lambda: [each.runId for each in older.queries] == [runs.runId], "it is watched")
        stop_and_start(older._application.restarter)
    assert starts == ["newer", "older"]


def test_a_loop_that_failed_leaves_nothing_behind_and_is_not_joined(
    start: Callable[[], StreamingQuery],
) -> None:
    query, fault, decisions = start(), threading.Event(), list[Decision]()
    policy = replace(BY_HAND, goal=Faulty(fault))
    failed = attach(query, policy, log=decisions.append)
    await_tasks(failed)
    copies = failed._application.copies
    task, there = next(iter(failed.where().items()))
    (other,) = {each.id for each in failed.executors()} - {there}
    assert copies.copy({task: other}, soon=False, ticket=Ticket()).tasks == {task}
    fault.set()
    until(lambda: bool(decisions) and decisions[-1].kind == "detach", "the loop has failed")
    fault.clear()
    assert decisions[-1].figures == {"failed": 1}
    with attach(query, policy) as second:
        assert not share_a_loop(failed, second)
        assert copies._keepers.read(other) is None, "its copies were dropped"
        await_tasks(second)
        failed.detach()
        with attach(query, policy) as third:
            assert share_a_loop(second, third)


@pytest.mark.slow
def test_queries_are_waited_for_also_where_the_loop_has_failed_before_they_end(
    start: Callable[[], StreamingQuery],
) -> None:
    query, fault = start(), threading.Event()
    with attach(query, replace(BY_HAND, goal=Faulty(fault))) as attachment:
        await_tasks(attachment)
        fault.set()
        until(attachment.monitor.ended.is_set, "nothing is watched any more")
        assert not attachment.await_queries(0.5)
        assert query.isActive
        query.stop()
        assert attachment.await_queries(PATIENCE_S)


@pytest.mark.slow  # a loop that failed is in every run
def test_a_loop_that_receives_nothing_any_more_ends_and_says_why(
    start: Callable[[], StreamingQuery],
) -> None:
    query, decisions = start(), list[Decision]()
    attachment = attach(query, BY_HAND, log=decisions.append)
    await_tasks(attachment)
    attachment.monitor.close()
    with attach(query, BY_HAND) as second:
        assert not share_a_loop(attachment, second)
        await_tasks(second)
    assert decisions[-1].kind == "detach"
    assert "can no longer be watched" in decisions[-1].reason


@pytest.mark.slow
def test_whoever_attaches_while_the_last_waits_for_a_pause_joins_its_loop(
    spark: SparkSession, start: Callable[[], StreamingQuery]
) -> None:
    query, stopped, may_start = start(), threading.Event(), threading.Event()

    def start_again() -> StreamingQuery:
        stopped.set()
        assert may_start.wait(PATIENCE_S)
        return start()

    first = attach(query, BY_HAND, restart=start_again)
    await_tasks(first)
    restarter = first._application.restarter
    pause = threading.Thread(target=stop_and_start, args=(restarter,), daemon=True)
    pause.start()
    assert stopped.wait(PATIENCE_S)
    leaves = threading.Thread(target=first.detach, daemon=True)
    leaves.start()
    until(lambda: not first._application._wanted, "it lets go")
    with attach(spark, BY_HAND, restart={"counting": start}) as second:
        assert share_a_loop(first, second)
        may_start.set()
        pause.join(PATIENCE_S)
        leaves.join(PATIENCE_S)
        await_tasks(second)
        assert not second._application.ends
