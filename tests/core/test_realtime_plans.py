"""Plans for queries in Real-time Mode: what loads an executor, and the slots that tasks keep."""

from __future__ import annotations

from tests.core.builders import QUERY, RUN, executors, task
from tests.core.scenes import POLICY, after

from elastream.core.events import LoadObserved, Plan, QueryJoined, ScaleRequested
from elastream.core.migrator.problem import stages_of
from elastream.core.step import start_loop
from elastream.model.migration import StepProblem
from elastream.model.observation import LoadObservation, OperatorGraph, RunningTaskLoad, TaskId

TRIGGER_MS = 60_000


def problem(task_cpus: float, *, tasks: int = 4, sources: int = 2) -> StepProblem:
    """The problem of a move to three executors of a query that is on two."""
    state, _ = start_loop(POLICY, executors("a", "b", "c", task_cpus=task_cpus), now_ms=0)
    slots = tasks + sources
    event = QueryJoined(0, QUERY, RUN, OperatorGraph({0: None}), tasks, TRIGGER_MS, True, slots)
    seen = tuple(RunningTaskLoad(task(j), "ab"[j % 2], 100.0) for j in range(tasks))
    look = LoadObserved(LoadObservation(QUERY, RUN, 0, 1000, TRIGGER_MS, 1000.0, seen))
    _, report = after(state, event, look, ScaleRequested(3))
    (plan,) = (each for each in report if isinstance(each, Plan))
    return plan.order.problem


def test_the_stages_of_all_real_time_queries_are_one() -> None:
    tasks = [TaskId(name, operator, 0) for name in "abc" for operator in (0, 1)]
    assert stages_of(tasks) == ((0, 1, 2, 3, 4, 5), (0, 0, 1, 1, 2, 2))
    assert stages_of(tasks, {"a", "c"}) == ((0, 0, 1, 2, 0, 0), (0, 1, 1))
    assert stages_of(tasks, set("abc")) == ((), ())


def test_a_plan_leaves_the_slots_that_sources_take() -> None:
    seen = problem(0.25)
    assert (seen.lasting, seen.seats) == (frozenset({0}), (3, 3, 3))
    assert problem(0.25, sources=4).seats == (2, 2, 2)


def test_slots_that_suffice_for_all_tasks_are_no_limit() -> None:
    assert problem(0.1).seats == ()
