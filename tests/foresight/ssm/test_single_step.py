from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.foresight.ssm.simple_ssm import simple_ssm
from tests.placement.exhaustive import cheapest_then_flattest
from tests.strategies import step_problems

from elastream.foresight.ssm import interval_gain
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Interval
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream_lab.rivals.paper_ssm import paper_ssm


def planned(problem: StepProblem) -> StepPlan:
    plan = single_step(problem)
    assert isinstance(plan, StepPlan)
    return plan


@given(step_problems())
def test_it_equals_exhaustive_search_in_cost_and_then_in_maximum_load(
    problem: StepProblem,
) -> None:
    best = cheapest_then_flattest(problem)
    plan = single_step(problem)
    if best is None:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, StepPlan)
        assert certify_step(problem, plan, contiguous=True).faults == ()
        assert (plan.cost, plan.max_load) == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert plan.status == "optimal"


@given(step_problems(max_tasks=6, max_nodes=3))
@settings(max_examples=300)
def test_the_papers_simple_recurrence_costs_the_same(problem: StepProblem) -> None:
    plan = single_step(problem)
    cost = simple_ssm(problem)
    assert (plan.cost if isinstance(plan, StepPlan) else None) == pytest.approx(cost)


@st.composite
def medium_problems(draw: st.DrawFn) -> StepProblem:
    """Up to 60 tasks on up to 12 nodes, drawn from a seed so that they are not all small."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tasks, before, after = (int(rng.integers(8, 60)), *map(int, rng.integers(1, 13, size=2)))
    cuts = sorted(rng.integers(0, tasks + 1, size=before - 1).tolist())
    intervals = list(zip([0, *cuts], [*cuts, tasks], strict=True))
    rng.shuffle(intervals)
    state = rng.integers(0, 4, size=tasks) * rng.integers(1, 10 ** rng.integers(1, 9), size=tasks)
    work = rng.integers(1, 10 ** rng.integers(1, 4), size=tasks)
    tau = float(rng.choice([0.05, 0.2, 0.4, 0.8, 1.2]))
    return StepProblem.of(work, state, intervals, after, tau)


@given(medium_problems())
@settings(max_examples=400)
def test_the_papers_own_recurrence_costs_the_same_on_medium_problems(
    problem: StepProblem,
) -> None:
    plan = single_step(problem)
    cost = paper_ssm(problem, compiled=True)
    if isinstance(plan, Infeasible):
        assert cost is None
    else:
        assert certify_step(problem, plan, contiguous=True).faults == ()
        assert plan.cost == cost


@given(medium_problems())
@settings(max_examples=150)
def test_the_plain_and_the_compiled_kernel_do_the_same(problem: StepProblem) -> None:
    intervals = problem.current.intervals
    assert intervals is not None
    starts = [*sorted({lb for lb, ub in intervals if lb < ub}), len(problem.work)]
    block = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    work = np.concatenate([[0.0], np.cumsum(problem.work)])
    state = np.concatenate([[0], np.cumsum(problem.state)])
    found = []
    for least_moved in (interval_gain.least_moved.plain, interval_gain.least_moved.compiled):
        cuts, match = np.full((2, min(problem.target.nodes, len(block)) + 1), -1, dtype=np.int64)
        held = interval_gain.Held(state, np.array(starts), block)
        count = least_moved(work, held, problem.limit, 0.5, cuts, match)
        found.append((count, cuts[: count + 1].tolist(), match[:count].tolist()))
    assert found[0] == found[1]


def test_the_step_of_table_3_that_the_papers_call_optimal_at_6_costs_4() -> None:
    problem = StepProblem.of([1] * 20, [1] * 20, [(0, 9), (9, 18), (18, 20)], 4, 0.4)
    assert planned(problem).cost == 4


def test_the_first_step_of_table_3_costs_4() -> None:
    problem = StepProblem.of([1] * 20, [1] * 20, [(0, 13), (13, 20)], 3, 0.4)
    assert planned(problem).cost == 4


def test_the_example_of_the_plan_files_keeps_every_byte_where_it_is() -> None:
    problem = StepProblem.of([3, 1, 2, 4], [10, 5, 0, 7], [(0, 3), (3, 4)], 3, 0.4)
    plan = planned(problem)
    assert plan.assignment.intervals == (Interval(0, 2), Interval(3, 4), Interval(2, 3))
    assert plan.cost == 0
    assert plan.max_load == 4


def test_whole_sizes_give_whole_costs() -> None:
    size = 2**40 + 1
    plan = planned(StepProblem.of([1, 1], [size, size], [(0, 2)], 2, 0))
    assert plan.cost == size
    assert isinstance(plan.cost, int)


def test_sizes_beyond_the_ticks_are_planned_up_to_their_rounding() -> None:
    plan = planned(StepProblem.of([1, 1, 1], [10**30, 1, 10**30], [(0, 3)], 2, 0.4))
    assert plan.cost in (10**30, 10**30 + 1)


def test_a_node_without_tasks_may_stay_idle() -> None:
    plan = planned(StepProblem.of([1, 1], [5, 5], [(0, 2), (2, 2)], 2, 1))
    assert plan.moves == ()


def test_more_nodes_than_tasks_leave_nodes_idle() -> None:
    plan = planned(StepProblem.of([1], [1], [(0, 1)], 5, 8))
    assert plan.assignment.nodes == 5
    assert plan.moves == ()


def test_a_task_heavier_than_the_limit_is_named() -> None:
    outcome = single_step(StepProblem.of([1, 9, 1], [0, 0, 0], [(0, 3)], 3, 0))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("task 1 has work 9 and a node may hold 3.66667")


def test_tasks_that_need_more_nodes_are_counted() -> None:
    outcome = single_step(StepProblem.of([2, 2, 2], [0, 0, 0], [(0, 3)], 2, 0))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("consecutive tasks need 3 nodes, 2 are allowed")


def test_tasks_that_are_not_consecutive_are_refused() -> None:
    with pytest.raises(ProblemError, match=r"^current: a node holds tasks that are not con"):
        single_step(StepProblem.of([1, 1, 1], [1, 1, 1], [0, 1, 0], 2, 1))


def test_a_large_problem_passes_the_certificate() -> None:
    rng = np.random.default_rng(7)
    tasks, before, after = 5000, 90, 120
    cuts = sorted(rng.integers(0, tasks, size=before - 1).tolist())
    intervals = list(zip([0, *cuts], [*cuts, tasks], strict=True))
    work, state = rng.pareto(4, size=(2, tasks))
    problem = StepProblem.of(work, state, intervals, after, 0.6)
    assert certify_step(problem, planned(problem), contiguous=True).faults == ()
