from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.control.runtime_contract import RuntimeContract
from tests.spark.conftest import MAX_EXECUTORS
from tests.spark.processes import kill
from tests.spark.running_query import PATIENCE_S, RunningQuery, running
from tests.spark.streams import (
    aggregation,
    aggregation_answer,
    aggregation_state,
)

from elastream.model.errors import ProblemError, SparkError, StateHeldError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def runtime(spark: SparkSession) -> Iterator[RunningQuery]:
    with running(aggregation(spark), mode="update") as run:
        yield run


class TestSparkRuntime(RuntimeContract):
    """The suite that every runtime of the loop passes."""


def test_a_request_for_more_executors_than_there_are_slots_ends_and_says_so(
    runtime: RunningQuery, caplog: pytest.LogCaptureFixture
) -> None:
    before = runtime.executor_ids()
    full = runtime.pool.grow(MAX_EXECUTORS, timeout_s=PATIENCE_S)
    with caplog.at_level(logging.WARNING):
        alive = runtime.pool.grow(MAX_EXECUTORS + 2, timeout_s=1.0)
    assert [e.id for e in alive] == [e.id for e in full]
    assert f"{MAX_EXECUTORS} of {MAX_EXECUTORS + 2} executors" in caplog.text
    runtime.pass_batches(1)
    runtime.pool.release([e.id for e in full if e.id not in before])
    assert runtime.executor_ids() == before


def test_an_executor_that_state_is_heading_for_is_not_released(runtime: RunningQuery) -> None:
    first, second = runtime.executor_ids()
    runtime.settle(dict.fromkeys(runtime.placement.tasks, first))
    runtime.placement.place({runtime.placement.tasks[0]: second})
    with pytest.raises(StateHeldError, match=f"executors {second} are not released"):
        runtime.pool.release([second])
    assert runtime.placement.wait_settled(PATIENCE_S)


def test_an_executor_that_another_query_has_state_on_is_not_released(
    spark: SparkSession, runtime: RunningQuery
) -> None:
    first, second = runtime.executor_ids()
    with running(aggregation(spark), mode="update") as other:
        other.settle(dict.fromkeys(other.placement.tasks, second))
        runtime.settle(dict.fromkeys(runtime.placement.tasks, first))
        with pytest.raises(StateHeldError, match=f"the query {other.sink} has 4 state stores"):
            runtime.pool.release([second])
    assert runtime.executor_ids() == [first, second]


def test_requests_that_make_no_sense_are_refused(runtime: RunningQuery) -> None:
    with pytest.raises(ProblemError, match="total"):
        runtime.pool.grow(0, timeout_s=1.0)
    for request in (runtime.pool.release, runtime.pool.warm):
        with pytest.raises(SparkError, match="executor 99 is not alive"):
            request(["99"])


def test_the_query_goes_on_and_stays_exact_when_executors_are_killed(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        for victim in ("target", "source"):
            first, second = run.executor_ids()
            run.settle(dict.fromkeys(run.placement.tasks, first))
            run.placement.place(dict.fromkeys(run.placement.tasks, second))
            kill(spark, second if victim == "target" else first)
            run.pass_batches(3)
            assert run.placement.wait_settled(PATIENCE_S)
            assert len(run.pool.grow(2, timeout_s=PATIENCE_S)) == 2
        alive = set(run.executor_ids())
        assert set(run.placement.where().values()) <= alive
        assert {entry.why for entry in run.given_up} <= {"the executor died"}
        run.query.stop()
        state = aggregation_state(spark, str(run.checkpoint))
        assert state == aggregation_answer(run.committed_rows())
