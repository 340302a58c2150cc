from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.running_query import PATIENCE_S, running
from tests.spark.streams import aggregation, numbers

from elastream.control.observation import TaskId
from elastream.model.errors import ProblemError, QueryRefusedError, SparkError
from elastream.spark.monitor import Monitor
from elastream.spark.placement import Asked, GivenUp, StatePlacement, await_operators, settle
from elastream.spark.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK = TaskId(0, 0)


def test_a_task_that_ran_where_it_was_asked_to_is_settled() -> None:
    assert settle({TASK: Asked("2", "1")}, {TASK: "2"}, {"1", "2"}, tries=3) == ({}, ())


def test_a_task_that_ran_elsewhere_is_asked_again_and_its_place_is_remembered() -> None:
    again = {TASK: Asked("2", "3", tries=2)}
    assert settle({TASK: Asked("2", "1")}, {TASK: "3"}, {"2", "3"}, tries=3) == (again, ())


def test_a_task_is_given_up_after_the_last_try() -> None:
    lost = GivenUp(TASK, "2", "1", "not obeyed in 3 batches")
    assert settle({TASK: Asked("2", "1", 3)}, {TASK: "1"}, {"1", "2"}, 3) == ({}, (lost,))


def test_a_task_is_given_up_at_once_when_its_executor_died() -> None:
    lost = GivenUp(TASK, "2", "1", "the executor died")
    assert settle({TASK: Asked("2", "1")}, {}, {"1"}, tries=3) == ({}, (lost,))


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.integers(0, 5).map(lambda partition: TaskId(0, partition)),
        st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(1, 4)),
    ),
    st.sets(st.sampled_from("abc")),
)
def test_every_request_is_settled_repeated_or_given_up(
    requests: dict[TaskId, tuple[str, str, int]], alive: set[str]
) -> None:
    asked = {task: Asked(wanted, None, tries) for task, (wanted, _, tries) in requests.items()}
    ran = {task: place for task, (_, place, _) in requests.items()}
    again, lost = settle(asked, ran, alive, tries=4)
    settled = {task for task in asked if ran[task] == asked[task].executor}
    assert settled | set(again) | {entry.task for entry in lost} == set(asked)
    assert len(settled) + len(again) + len(lost) == len(asked)
    assert all(request.executor in alive and request.tries <= 4 for request in again.values())


def test_where_tells_where_a_task_ran_and_not_where_it_was_asked_to_go(
    spark: SparkSession,
) -> None:
    with running(aggregation(spark), mode="update") as run:
        first, second = run.executor_ids()
        run.settle(dict.fromkeys(run.placement.tasks, first))
        run.placement.place(dict.fromkeys(run.placement.tasks, second))
        batches = len(run.told)
        where = set(run.placement.where().values())
        assert where == {first} or len(run.told) > batches
        assert run.placement.wait_settled(PATIENCE_S)
        assert set(run.placement.where().values()) == {second}
        run.pass_batches(2)
        assert {task.executor for task in run.told[-1].tasks} == {second}


def test_tasks_and_executors_that_do_not_exist_are_refused_and_nothing_moves(
    spark: SparkSession,
) -> None:
    with running(aggregation(spark), mode="update") as run:
        before = run.placement.where()
        there = run.executor_ids()[0]
        with pytest.raises(ProblemError, match=r"no task \(0, 99\)"):
            run.placement.place({run.placement.tasks[0]: there, TaskId(0, 99): there})
        with pytest.raises(SparkError, match="executor 99 is not alive; alive are"):
            run.placement.place({run.placement.tasks[0]: "99"})
        assert run.placement.unsettled == {}
        run.pass_batches(2)
        assert run.placement.where() == before


def test_a_query_without_state_is_refused(spark: SparkSession) -> None:
    query = numbers(spark).writeStream.format("noop").start()
    try:
        with pytest.raises(QueryRefusedError, match="keeps no state"):
            await_operators(PrivateDoor.of(spark), query, timeout_s=PATIENCE_S)
    finally:
        query.stop()


def test_a_stopped_query_is_refused(spark: SparkSession) -> None:
    with running(aggregation(spark), mode="update") as run:
        run.query.stop()
        with pytest.raises(QueryRefusedError, match="is not running"):
            Monitor(run.door, run.query)
        with pytest.raises(QueryRefusedError, match="is not running"):
            StatePlacement(run.door, run.query, run.monitor)
        assert run.monitor.ended.wait(PATIENCE_S)
