from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.exhaustive import cheapest_placement
from tests.strategies import step_problems, taus

from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.planner import free_step


@st.composite
def scattered_problems(draw: st.DrawFn) -> StepProblem:
    """Problems whose nodes hold any tasks."""
    tasks = draw(st.integers(1, 6))
    numbers = st.lists(st.integers(0, 7), min_size=tasks, max_size=tasks)
    nodes = draw(st.lists(st.integers(0, 3), min_size=tasks, max_size=tasks))
    target = draw(st.integers(1, 4))
    return StepProblem.of(draw(numbers), draw(numbers), nodes, target, draw(taus))


@given(st.one_of(step_problems(max_tasks=6), scattered_problems()))
def test_it_equals_exhaustive_search(problem: StepProblem) -> None:
    best = cheapest_placement(problem)
    plan = free_step(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, StepPlan)
        assert certify_step(problem, plan).faults == ()
        assert plan.cost == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert plan.status == "optimal"


def skewed(tasks: int, before: int, after: int, tau: float, seed: int) -> StepProblem:
    rng = np.random.default_rng(seed)
    work, state = rng.integers(10, 200, size=(2, tasks))
    cuts = [0, *sorted(rng.integers(0, tasks, size=before - 1).tolist()), tasks]
    return StepProblem.of(work, state, list(pairwise(cuts)), after, tau)


@given(st.integers(0, 2**32), st.sampled_from([0.1, 0.2, 0.4, 0.8]))
@settings(max_examples=60)
def test_it_never_moves_more_than_single_step(seed: int, tau: float) -> None:
    rng = np.random.default_rng(seed)
    before, after = map(int, rng.integers(2, 12, size=2))
    problem = skewed(40, before, after, tau, seed)
    free, single = free_step(problem), single_step(problem)
    if isinstance(free, StepPlan):
        assert certify_step(problem, free).faults == ()
        if isinstance(single, StepPlan):
            assert free.cost <= single.cost
    else:
        assert isinstance(single, Infeasible)


@pytest.mark.parametrize(("before", "after"), [(8, 16), (10, 8)])
@pytest.mark.parametrize("tau", [0.1, 0.4, 0.8])
def test_sixty_four_tasks_on_sixteen_nodes_are_proven(before: int, after: int, tau: float) -> None:
    plan = free_step(skewed(64, before, after, tau, seed=1))
    assert isinstance(plan, StepPlan)
    assert plan.status == "optimal"


def test_a_large_problem_has_a_plan_and_a_bound() -> None:
    problem = skewed(2000, 80, 100, 0.2, seed=2)
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.cost <= 1.05 * plan.lower_bound


def drifted(tasks: int, before: int, after: int, seed: int) -> StepProblem:
    """Some tasks carry most of the work; all were spread evenly, and then their work changed."""
    rng = np.random.default_rng(seed)
    work = 1e6 * np.arange(1, tasks + 1) ** -0.7
    home = np.zeros(tasks, dtype=int)
    loads = np.zeros(before)
    for task in range(tasks):
        home[task] = loads.argmin()
        loads[home[task]] += work[task]
    limit = 1.15 * work.sum() / max(before, after)
    work = np.minimum(work * rng.lognormal(0, 0.2, size=tasks), limit).astype(int) + 1
    state = rng.lognormal(15, 1.5, size=tasks).astype(int)
    return StepProblem.of(work, state, home.tolist(), after, 0.2)


@pytest.mark.parametrize("after", [110, 100, 97, 90])
def test_thousands_of_tasks_on_a_hundred_nodes_are_proven(after: int) -> None:
    problem = drifted(2500, 100, after, seed=3)
    plan = free_step(problem)
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan).faults == ()
    assert plan.status == "optimal"


def test_the_same_problem_has_the_same_plan() -> None:
    problem = drifted(1200, 60, 54, seed=1)
    assert free_step(problem) == free_step(problem)


def test_tasks_that_cannot_be_packed_are_infeasible() -> None:
    assert isinstance(free_step(StepProblem.of([2] * 3, [1] * 3, [(0, 3)], 2, 0)), Infeasible)


def test_a_task_heavier_than_the_limit_is_named() -> None:
    outcome = free_step(StepProblem.of([1, 9, 1], [0, 0, 0], [(0, 3)], 3, 0))
    assert isinstance(outcome, Infeasible)
    assert "task 1" in outcome.reason
