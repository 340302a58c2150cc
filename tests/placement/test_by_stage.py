"""Planners of one limit on problems with several stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.placement.exhaustive import cheapest_within
from tests.strategies import staged_problems

from elastream.core.routes import interval_placement
from elastream.foresight.ahead.by_schedule import ScheduledPlanner
from elastream.foresight.ahead.planner import FreeAheadPlanner
from elastream.foresight.mtm.problem import MigrationChain
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan, StepPlanner
from elastream.placement.certificate import certify_step
from elastream.placement.even_spread import attainable

CHAIN = MigrationChain.of([2, 3], [[0.3, 0.7], [0.6, 0.4]], 0.8)


@st.composite
def consecutive(draw: st.DrawFn) -> StepProblem:
    """A problem whose nodes hold consecutive tasks of each stage, with attainable limits."""
    problem = draw(staged_problems(max_tasks=6))
    where = tuple(sorted(problem.current.nodes_of_tasks))
    copies = problem.copies - frozenset(enumerate(where))
    current = Assignment(where, problem.current.nodes)
    found = replace(
        problem, current=current, copies=copies, memory=(), lasting=frozenset(), seats=()
    )
    assert found.consecutive
    return attainable(found, contiguous=True)


@given(consecutive())
@settings(max_examples=150)
def test_single_step_keeps_the_limits_with_consecutive_tasks_of_each_stage(
    problem: StepProblem,
) -> None:
    best = cheapest_within(problem)
    plan = single_step(problem)
    assert isinstance(plan, StepPlan)
    assert certify_step(problem, plan, contiguous=True).faults == ()
    assert best is not None
    assert plan.lower_bound <= best * (1 + 1e-9)
    assert plan.cost >= best * (1 - 1e-9)


@given(consecutive())
@settings(max_examples=50)
def test_an_interval_placement_is_consecutive_in_each_stage(problem: StepProblem) -> None:
    plan = interval_placement(problem)
    faults = certify_step(problem, plan, contiguous=True, balanced=False).faults
    assert faults == ()
    assert len(set(plan.assignment.nodes_of_tasks)) <= problem.target.nodes


@pytest.mark.parametrize("planner", [ScheduledPlanner((3, 2), 0.2, 1.0), FreeAheadPlanner(CHAIN)])
@given(staged_problems())
@settings(max_examples=30)
def test_planners_that_look_ahead_keep_the_limits(
    planner: StepPlanner, problem: StepProblem
) -> None:
    problem = attainable(replace(problem, memory=(), lasting=frozenset(), seats=()))
    plan = planner(problem)
    assert isinstance(plan, StepPlan)
    balanced = plan.status != "unbalanced"
    assert certify_step(problem, plan, balanced=balanced).faults == ()


def test_slack_goes_to_the_stage_that_moves_less_with_it() -> None:
    # Stage 0 is even as it is; stage 1 is not, and an uneven spread of it fits into the batch.
    problem = StepProblem.of_stages(
        [4, 4, 3, 2, 1], [9] * 5, [0, 1, 0, 0, 1], 2, 0.3, stages=[0, 0, 1, 1, 1]
    )
    plan = single_step(problem)
    assert isinstance(plan, StepPlan)
    assert (plan.status, plan.cost, plan.batch) == ("optimal", 0, 9)
    assert plan.batch_limit == pytest.approx(9.1)
