from __future__ import annotations

import logging
from queue import Queue
from typing import TYPE_CHECKING

import pytest
from tests.conftest import MAX_EXECUTORS
from tests.core.runtime_contract import RuntimeContract
from tests.spark.processes import kill
from tests.spark.running_query import PATIENCE_S, RunningQuery, running, until
from tests.spark.streams import (
    aggregation,
    aggregation_answer,
    aggregation_state,
)

from elastream import ProblemError, SparkError, StateHeldError
from elastream.core.events import Status
from elastream.core.ports import Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


class Application(RunningQuery):
    """A running query, as the suite for all runtimes wants it."""

    def pass_time(self) -> None:
        received: Queue[Status] = Queue()
        unsubscribe = self.monitor.subscribe(
            lambda fact: received.put(fact) if isinstance(fact, Status) else None
        )
        try:
            for _ in range(2):
                received.get(timeout=PATIENCE_S)
        finally:
            unsubscribe()


@pytest.fixture(scope="module")
def runtime(spark: SparkSession) -> Iterator[Application]:
    with running(aggregation(spark), mode="update") as run:
        run.__class__ = Application
        assert isinstance(run, Application)
        yield run


class TestSparkRuntime(RuntimeContract):
    """The suite that every runtime of the loop passes."""

    @pytest.mark.slow  # the executor that is warmed comes and goes in every run
    def test_executors_that_come_and_go_are_reported(self, runtime: Application) -> None:  # type: ignore[override]
        super().test_executors_that_come_and_go_are_reported(runtime)


@pytest.mark.slow
def test_a_request_for_more_executors_than_there_are_slots_ends_and_says_so(
    runtime: Application, caplog: pytest.LogCaptureFixture
) -> None:
    before = runtime.executor_ids()
    full = runtime.pool.grow(MAX_EXECUTORS, timeout_s=PATIENCE_S, ticket=Ticket())
    with caplog.at_level(logging.WARNING):
        alive = runtime.pool.grow(MAX_EXECUTORS + 2, timeout_s=1.0, ticket=Ticket())
    assert [e.id for e in alive] == [e.id for e in full]
    assert f"{MAX_EXECUTORS} of {MAX_EXECUTORS + 2} executors" in caplog.text
    runtime.pass_batches(1)
    runtime.pool.release([e.id for e in full if e.id not in before], ticket=Ticket())
    assert runtime.executor_ids() == before


def test_an_executor_that_state_is_heading_for_is_not_released(runtime: Application) -> None:
    first, second = runtime.executor_ids()
    runtime.settle(dict.fromkeys(runtime.tasks, first))
    runtime.placement.place(runtime.sink, {runtime.tasks[0]: second}, ticket=Ticket())
    with pytest.raises(StateHeldError, match=f"executors {second} are not released"):
        runtime.pool.release([second], ticket=Ticket())
    runtime.settle(dict.fromkeys(runtime.tasks, first))


def test_an_executor_that_a_query_no_one_steers_has_state_on_is_not_released(
    spark: SparkSession, runtime: Application
) -> None:
    first, second = runtime.executor_ids()
    with running(aggregation(spark), mode="update") as other:
        other.settle(dict.fromkeys(other.tasks, second))
        other.attachment.detach()
        until(lambda: len(runtime.attachment.queries) == 1, "no attachment has it")
        runtime.settle(dict.fromkeys(runtime.tasks, first))
        with pytest.raises(StateHeldError, match=f"the query {other.sink} has 4 state stores"):
            runtime.pool.release([second], ticket=Ticket())
    assert runtime.executor_ids() == [first, second]


def test_requests_that_make_no_sense_are_refused(runtime: Application) -> None:
    with pytest.raises(ProblemError, match="total"):
        runtime.pool.grow(0, timeout_s=1.0, ticket=Ticket())
    for request in (runtime.pool.release, runtime.pool.warm):
        with pytest.raises(SparkError, match="executor 99 is not alive"):
            request(["99"], ticket=Ticket())


@pytest.mark.slow
def test_the_query_goes_on_and_stays_exact_when_executors_are_killed(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        for victim in ("target", "source"):
            first, second = run.executor_ids()
            run.settle(dict.fromkeys(run.tasks, first))
            run.attachment.move(dict.fromkeys(run.tasks, second))
            kill(spark, second if victim == "target" else first)
            run.pass_batches(3)
            assert run.attachment.wait(PATIENCE_S)
            assert len(run.pool.grow(2, timeout_s=PATIENCE_S, ticket=Ticket())) == 2
            until(lambda: len(run.attachment.executors()) == 2, "the loop knows both")
        assert set(run.where().values()) <= set(run.executor_ids())
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())
