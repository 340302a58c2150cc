"""What every runtime must hold: one suite for all that play the loop's ports.

A test class inherits :class:`RuntimeContract` and gives a ``runtime`` fixture: a running query with
at least four stateful tasks on two executors, and room for two more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import pytest

from elastream.control.observation import BatchObservation, TaskId
from elastream.control.ports import ExecutorPool, Monitor, StatePlacement
from elastream.model.errors import ElastreamError

__all__ = ["Runtime", "RuntimeContract"]

GROW_S = 90.0
"""How long a new executor may take."""


class Runtime(Protocol):
    """A running query, as its tests see it."""

    @property
    def monitor(self) -> Monitor: ...
    @property
    def pool(self) -> ExecutorPool: ...
    @property
    def placement(self) -> StatePlacement: ...

    def pass_batches(self, number: int) -> None:
        """Return when so many more batches with rows have committed and been heard of."""


def heard(runtime: Runtime, batches: int) -> list[BatchObservation]:
    """Return what the monitor tells while so many batches pass."""
    told: list[BatchObservation] = []
    unsubscribe = runtime.monitor.subscribe(told.append)
    try:
        runtime.pass_batches(batches)
    finally:
        unsubscribe()
    return told


def settled(runtime: Runtime, wanted: dict[TaskId, str], *, tries: int = 5) -> dict[TaskId, str]:
    """Ask until the placement holds, as the loop does; return where the tasks ran at last."""
    ran: dict[TaskId, str] = {}
    for _ in range(tries):
        runtime.placement.place(wanted)
        last = heard(runtime, 2)[-1]
        ran = {task.task: task.executor for task in last.tasks}
        if wanted.items() <= ran.items():
            break
    return ran


class RuntimeContract:
    """Inherit, and give the ``runtime`` fixture."""

    def test_every_batch_is_heard_once_and_in_order(self, runtime: Runtime) -> None:
        told = [batch.batch for batch in heard(runtime, 4)]
        assert len(told) >= 4
        assert told == list(range(told[0], told[0] + len(told)))

    def test_time_goes_forward_and_intervals_fit_it(self, runtime: Runtime) -> None:
        told = heard(runtime, 3)
        for before, after in pairwise(told):
            assert after.finished_at_ms > before.finished_at_ms
            assert after.interval_ms is not None
            passed = after.finished_at_ms - before.finished_at_ms
            assert after.interval_ms == pytest.approx(passed, abs=0.25 * passed + 50)

    def test_every_task_is_seen_with_a_living_executor(self, runtime: Runtime) -> None:
        batch = heard(runtime, 2)[-1]
        alive = {executor.id for executor in runtime.pool.executors()}
        assert len(batch.tasks) >= 4
        assert len({task.task for task in batch.tasks}) == len(batch.tasks)
        assert {task.executor for task in batch.tasks} <= alive
        assert all(task.run_ms >= 0 and task.state_bytes >= 0 for task in batch.tasks)
        assert sum(task.rows for task in batch.tasks) > 0

    def test_the_placement_knows_where_tasks_ran(self, runtime: Runtime) -> None:
        batch = heard(runtime, 2)[-1]
        assert dict(runtime.placement.where()) == {t.task: t.executor for t in batch.tasks}

    def test_who_unsubscribed_hears_no_more(self, runtime: Runtime) -> None:
        told: list[BatchObservation] = []
        unsubscribe = runtime.monitor.subscribe(told.append)
        runtime.pass_batches(1)
        unsubscribe()
        unsubscribe()
        number = len(told)
        runtime.pass_batches(1)
        assert len(told) == number

    def test_executors_are_told_oldest_first(self, runtime: Runtime) -> None:
        ages = [executor.age_s for executor in runtime.pool.executors()]
        assert ages == sorted(ages, reverse=True)
        assert len({executor.id for executor in runtime.pool.executors()}) == len(ages)

    def test_tasks_go_where_they_are_placed_and_stay(self, runtime: Runtime) -> None:
        runtime.pass_batches(1)
        tasks = sorted(runtime.placement.where())
        ids = [executor.id for executor in runtime.pool.executors()]
        wanted = {task: ids[j % len(ids)] for j, task in enumerate(tasks)}
        turned = {task: ids[(j + 1) % len(ids)] for j, task in enumerate(tasks)}
        assert settled(runtime, wanted) == wanted
        assert settled(runtime, turned) == turned
        last = heard(runtime, 3)[-1]
        assert {task.task: task.executor for task in last.tasks} == turned

    def test_an_executor_comes_is_warmed_takes_state_is_drained_and_goes(
        self, runtime: Runtime
    ) -> None:
        before = runtime.pool.executors()
        after = runtime.pool.grow(len(before) + 1, timeout_s=GROW_S)
        assert [e.id for e in after[: len(before)]] == [e.id for e in before]
        (new,) = after[len(before) :]
        runtime.pool.warm([new.id])
        assert runtime.pool.executors()[-1].warm
        runtime.pass_batches(1)
        task = min(runtime.placement.where())
        assert settled(runtime, {task: new.id})[task] == new.id
        with pytest.raises(ElastreamError):
            runtime.pool.release([new.id])
        assert new.id in {e.id for e in runtime.pool.executors()}, "a refused release harms nobody"
        assert settled(runtime, {task: before[0].id})[task] == before[0].id
        holding = [t for t, node in runtime.placement.where().items() if node == new.id]
        settled(runtime, dict.fromkeys(holding, before[0].id))
        runtime.pool.release([new.id])
        assert new.id not in {e.id for e in runtime.pool.executors()}
        runtime.pass_batches(1)

    def test_growing_to_fewer_than_there_are_takes_nobody_away(self, runtime: Runtime) -> None:
        before = [executor.id for executor in runtime.pool.executors()]
        assert [e.id for e in runtime.pool.grow(1, timeout_s=GROW_S)] == before
