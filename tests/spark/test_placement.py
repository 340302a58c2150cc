from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import RunningQuery, running
from tests.spark.streams import aggregation

from elastream import ProblemError, QueryRefusedError, SparkError, TaskId
from elastream.core.ports import Ticket
from elastream.model.errors import GivenUpError
from elastream.spark.internals.realtime import Gauges
from elastream.spark.observe.watched_query import WatchedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Iterator[RunningQuery]:
    with running(aggregation(spark), mode="update") as running_query:
        yield running_query


def test_where_shows_where_a_task_ran_and_not_where_it_was_asked_to_go(run: RunningQuery) -> None:
    first, second = run.executor_ids()
    run.settle(dict.fromkeys(run.tasks, first))
    run.attachment.move(dict.fromkeys(run.tasks, second))
    batches = len(run.batches)
    where = set(run.where().values())
    assert where == {first} or len(run.batches) > batches
    assert run.attachment.wait(180)
    assert set(run.where().values()) == {second}
    run.pass_batches(2)
    assert {task.executor for task in run.batches[-1].tasks} == {second}


def test_tasks_and_executors_that_do_not_exist_are_refused_and_nothing_moves(
    run: RunningQuery,
) -> None:
    before, there = run.where(), run.executor_ids()[0]
    strange = TaskId(run.sink, 0, 99)
    for port in (run.placement,):
        with pytest.raises(ProblemError, match=f"no task {strange}"):
            port.place(run.sink, {run.tasks[0]: there, strange: there}, ticket=Ticket())
        with pytest.raises(SparkError, match="executor 99 is not alive; alive are"):
            port.place(run.sink, {run.tasks[0]: "99"}, ticket=Ticket())
        with pytest.raises(QueryRefusedError, match="query nobody does not take part"):
            port.place("nobody", {run.tasks[0]: there}, ticket=Ticket())
    with pytest.raises(ProblemError, match=f"task {strange} is not known"):
        run.attachment.move({strange: there})
    with pytest.raises(ProblemError, match="executor 99 is not alive"):
        run.attachment.move({run.tasks[0]: "99"})
    run.pass_batches(2)
    assert run.where() == before


def test_a_placement_that_was_given_up_reports_nothing(run: RunningQuery) -> None:
    before = run.where()
    other = next(node for node in run.executor_ids() if node != before[run.tasks[0]])
    ticket = Ticket()
    ticket.cancel()
    with pytest.raises(GivenUpError):
        run.placement.place(run.sink, {run.tasks[0]: other}, ticket=ticket)
    run.pass_batches(2)
    assert run.where() == before


class ThirdTime(Ticket):
    """A ticket that is cancelled when it is looked at for the third time."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def check(self) -> None:
        self.looks += 1
        if self.looks == 3:
            self.cancel()
        super().check()


def test_a_placement_given_up_in_the_middle_requests_no_more_than_was_reported(
    run: RunningQuery,
) -> None:
    before = run.where()
    first, second = run.tasks[:2]
    ids = run.executor_ids()
    wanted = {task: next(n for n in ids if n != before[task]) for task in (first, second)}
    with pytest.raises(GivenUpError):
        run.placement.place(run.sink, wanted, ticket=ThirdTime())
    assert second not in run.watched.places.now.requested
    run.pass_batches(2)
    assert run.where()[second] == before[second]


def test_stores_asked_for_before_a_batch_was_planned_are_found_afterwards(
    run: RunningQuery,
) -> None:
    watched = WatchedQuery(run.internals, run.watched.query, run.sink, None, Gauges(run.internals))
    task = run.tasks[0]
    assert watched.stores(task) == ()
    assert watched.planned()
    found = [each.name for each in watched.stores(task)]
    assert found == [each.name for each in run.watched.stores(task)]
    assert found
