"""What every runtime must hold: one suite for all that play the loop's ports.

A test class inherits :class:`RuntimeContract` and gives a ``runtime`` fixture: an application with
one running query that has at least four stateful tasks, on two executors, with room for two more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import pytest

from elastream.core.events import BatchObserved, ExecutorsChanged, Fact, QueryJoined, Status
from elastream.core.ports import ExecutorPool, Monitor, StatePlacement, Ticket
from elastream.model.errors import ElastreamError, GivenUpError
from elastream.model.observation import BatchObservation, TaskId

__all__ = ["RunningApplication", "RuntimeContract"]

GROW_S = 600.0
"""How long a new executor may take."""


class RunningApplication(Protocol):
    """An application with one query, as its tests see it."""

    @property
    def monitor(self) -> Monitor: ...
    @property
    def pool(self) -> ExecutorPool: ...
    @property
    def placement(self) -> StatePlacement: ...

    def pass_batches(self, number: int) -> None:
        """Return when this many more batches with rows have committed and been reported."""

    def pass_time(self) -> None:
        """Return when the monitor has had the time to tell how it is."""


def next_facts(runtime: RunningApplication, batches: int) -> list[Fact]:
    """Return the facts that are reported while this many batches pass."""
    facts: list[Fact] = []
    unsubscribe = runtime.monitor.subscribe(facts.append)
    try:
        runtime.pass_batches(batches)
    finally:
        unsubscribe()
    return facts


def next_batches(runtime: RunningApplication, batches: int) -> list[BatchObservation]:
    """Return the batches that are reported while this many pass."""
    return [fact.batch for fact in next_facts(runtime, batches) if isinstance(fact, BatchObserved)]


def where(runtime: RunningApplication) -> dict[TaskId, str]:
    """Return where tasks run, as the next batches show it."""
    last = next_batches(runtime, 2)[-1]
    return {task.task: task.executor for task in last.tasks}


def settled(
    runtime: RunningApplication, wanted: dict[TaskId, str], *, tries: int = 5
) -> dict[TaskId, str]:
    """Ask until the placement holds, as the loop does; return where the tasks ran at last."""
    ran: dict[TaskId, str] = {}
    for _ in range(tries):
        if wanted:
            query = next(iter(wanted)).query
            runtime.placement.place(query, wanted, ticket=Ticket())
        ran = where(runtime)
        if wanted.items() <= ran.items():
            break
    return ran


def drained(runtime: RunningApplication, executor: str, onto: str) -> dict[TaskId, str]:
    """Move all tasks of one executor onto another; return where the tasks ran at last."""
    holding = [task for task, node in where(runtime).items() if node == executor]
    return settled(runtime, dict.fromkeys(holding, onto))


def ids(runtime: RunningApplication) -> list[str]:
    return [executor.id for executor in runtime.pool.executors()]


def cancelled() -> Ticket:
    ticket = Ticket()
    ticket.cancel()
    return ticket


class RuntimeContract:
    """Inherit, and give the ``runtime`` fixture."""

    def test_the_queries_that_take_part_are_reported_first(
        self, runtime: RunningApplication
    ) -> None:
        first, *later = next_facts(runtime, 1)
        assert isinstance(first, QueryJoined)
        assert first.tasks >= 4
        assert first.graph.feeds
        assert not any(isinstance(fact, QueryJoined) for fact in later)

    def test_every_batch_is_reported_once_and_in_order(self, runtime: RunningApplication) -> None:
        numbers = [batch.batch for batch in next_batches(runtime, 4)]
        assert len(numbers) >= 4
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    def test_batches_are_those_of_the_query_that_joined(self, runtime: RunningApplication) -> None:
        joined, *facts = next_facts(runtime, 2)
        assert isinstance(joined, QueryJoined)
        batches = [fact.batch for fact in facts if isinstance(fact, BatchObserved)]
        assert {(batch.query, batch.run) for batch in batches} == {(joined.query, joined.run)}
        assert all(len(batch.tasks) == joined.tasks for batch in batches)
        tasks = {task.task for batch in batches for task in batch.tasks}
        assert {task.query for task in tasks} == {joined.query}
        assert {task.operator for task in tasks} == set(joined.graph.feeds)

    def test_time_goes_forward_and_intervals_fit_it(self, runtime: RunningApplication) -> None:
        for before, after in pairwise(next_batches(runtime, 3)):
            assert after.finished_at_ms > before.finished_at_ms
            assert after.interval_ms is not None
            passed = after.finished_at_ms - before.finished_at_ms
            assert after.interval_ms == pytest.approx(passed, abs=0.25 * passed + 50)

    def test_every_task_is_seen_on_a_living_executor(self, runtime: RunningApplication) -> None:
        batch = next_batches(runtime, 2)[-1]
        assert len(batch.tasks) >= 4
        assert len({task.task for task in batch.tasks}) == len(batch.tasks)
        assert {task.executor for task in batch.tasks} <= set(ids(runtime))
        assert all(task.run_ms >= 0 and task.state_bytes >= 0 for task in batch.tasks)
        assert sum(task.rows for task in batch.tasks) > 0
        assert set(batch.outside_ms) <= set(ids(runtime))

    def test_the_status_is_reported_while_time_passes(self, runtime: RunningApplication) -> None:
        facts: list[Fact] = []
        unsubscribe = runtime.monitor.subscribe(facts.append)
        runtime.pass_time()
        unsubscribe()
        moments = [fact.at_ms for fact in facts if isinstance(fact, Status)]
        assert moments
        assert moments == sorted(moments)

    def test_who_unsubscribed_receives_no_more(self, runtime: RunningApplication) -> None:
        facts: list[Fact] = []
        unsubscribe = runtime.monitor.subscribe(facts.append)
        runtime.pass_batches(1)
        unsubscribe()
        unsubscribe()
        number = len(facts)
        runtime.pass_batches(1)
        assert len(facts) == number

    def test_executors_are_reported_oldest_first(self, runtime: RunningApplication) -> None:
        since = [executor.since_ms for executor in runtime.pool.executors()]
        assert since == sorted(since)
        assert len(set(ids(runtime))) == len(since) == 2

    def test_tasks_go_where_they_are_placed_and_stay(self, runtime: RunningApplication) -> None:
        alive, tasks = ids(runtime), sorted(where(runtime))
        wanted = {task: alive[j % len(alive)] for j, task in enumerate(tasks)}
        turned = {task: alive[(j + 1) % len(alive)] for j, task in enumerate(tasks)}
        assert settled(runtime, wanted) == wanted
        assert settled(runtime, turned) == turned
        last = next_batches(runtime, 3)[-1]
        assert {task.task: task.executor for task in last.tasks} == turned

    def test_a_placement_that_was_given_up_is_not_asked_for(
        self, runtime: RunningApplication
    ) -> None:
        before = where(runtime)
        task, node = next(iter(before.items()))
        other = next(each for each in ids(runtime) if each != node)
        with pytest.raises(GivenUpError):
            runtime.placement.place(task.query, {task: other}, ticket=cancelled())
        assert where(runtime) == before

    def test_an_executor_comes_is_warmed_takes_state_is_drained_and_goes(
        self, runtime: RunningApplication
    ) -> None:
        before = ids(runtime)
        after = runtime.pool.grow(len(before) + 1, timeout_s=GROW_S, ticket=Ticket())
        assert [executor.id for executor in after[: len(before)]] == before
        (new,) = after[len(before) :]
        runtime.pool.warm([new.id], ticket=Ticket())
        assert runtime.pool.executors()[-1].warm
        task = min(where(runtime))
        assert settled(runtime, {task: new.id})[task] == new.id
        with pytest.raises(ElastreamError):
            runtime.pool.release([new.id], ticket=Ticket())
        assert new.id in ids(runtime), "a refused release has no effect"
        assert new.id not in drained(runtime, new.id, before[0]).values()
        runtime.pool.release([new.id], ticket=Ticket())
        assert ids(runtime) == before
        runtime.pass_batches(1)

    def test_executors_that_come_and_go_are_reported(self, runtime: RunningApplication) -> None:
        facts: list[Fact] = []
        unsubscribe = runtime.monitor.subscribe(facts.append)
        first, *_, new = (
            executor.id for executor in runtime.pool.grow(3, timeout_s=GROW_S, ticket=Ticket())
        )
        runtime.pass_time()
        assert new not in drained(runtime, new, first).values()
        runtime.pool.release([new], ticket=Ticket())
        runtime.pass_time()
        unsubscribe()
        changes = [
            {executor.id for executor in fact.executors}
            for fact in facts
            if isinstance(fact, ExecutorsChanged)
        ]
        assert any(new in alive for alive in changes)
        assert new not in changes[-1]

    def test_growing_to_fewer_than_there_are_takes_no_one_away(
        self, runtime: RunningApplication
    ) -> None:
        before = ids(runtime)
        after = runtime.pool.grow(1, timeout_s=GROW_S, ticket=Ticket())
        assert [executor.id for executor in after] == before

    def test_a_request_for_executors_that_was_given_up_changes_nothing(
        self, runtime: RunningApplication
    ) -> None:
        before = ids(runtime)
        with pytest.raises(GivenUpError):
            runtime.pool.grow(3, timeout_s=GROW_S, ticket=cancelled())
        runtime.pass_batches(2)
        assert ids(runtime) == before

    def test_a_release_that_was_given_up_takes_no_one_away(
        self, runtime: RunningApplication
    ) -> None:
        new = runtime.pool.grow(3, timeout_s=GROW_S, ticket=Ticket())[-1].id
        with pytest.raises(GivenUpError):
            runtime.pool.release([new], ticket=cancelled())
        assert new in ids(runtime)
        drained(runtime, new, ids(runtime)[0])
        runtime.pool.release([new], ticket=Ticket())
