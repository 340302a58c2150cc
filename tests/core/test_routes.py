from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.core.goal import MadePlanner
from elastream.core.policy import Policy
from elastream.core.routes import (
    Route,
    RouteOrder,
    interval_placement,
    rehearse,
    route,
)
from elastream.foresight.live_planners import SINGLE_STEP
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.certificate import certify_step
from elastream.placement.even_spread import attainable_tau
from elastream.placement.live_planners import FREE_STEP

WORK, STATE = (0.3, 0.1, 0.2, 0.4, 0.2, 0.1), (3, 1, 4, 1, 5, 9)
PLANNERS: list[MadePlanner] = [SINGLE_STEP, FREE_STEP]


def looking_ahead() -> TransitionPlanner:
    chain = MigrationChain.of([2, 3], [[0, 1], [1, 0]], gamma=0.8)
    values = partition_values(ProjectionProblem(WORK, STATE, 0.4, chain))
    assert isinstance(values, PartitionValues)
    return TransitionPlanner(values)


@dataclass(frozen=True)
class Reversing:
    """A planner made for a moment: the other way round, and it says so."""

    name: str = "reversing"
    contiguous: bool = False

    def __call__(self, problem: StepProblem, /) -> StepPlan | Infeasible:
        if problem.target.nodes == 1:
            return Infeasible("one node cannot be reversed")
        return step_plan(problem, problem.current.nodes_of_tasks[::-1])

    def explain(self, plan: StepPlan) -> str:
        return f"{len(plan.moves)} tasks the other way round"


@st.composite
def orders(draw: st.DrawFn) -> RouteOrder:
    """What the loop asks for: tasks anywhere, and a tau that can be met."""
    tasks = draw(st.integers(1, 8))
    nodes = draw(st.integers(1, 4))
    work = tuple(draw(st.lists(st.floats(0, 1), min_size=tasks, max_size=tasks)))
    state = draw(st.lists(st.integers(0, 1000), min_size=tasks, max_size=tasks))
    where = draw(st.lists(st.integers(0, nodes - 1), min_size=tasks, max_size=tasks))
    target = draw(st.integers(1, 4))
    planner = draw(st.sampled_from(PLANNERS))
    asked = draw(st.sampled_from([0.0, 0.2, 1.0]))
    tau = attainable_tau(work, target, asked, contiguous=planner.contiguous)
    return RouteOrder(
        StepProblem.of(work, state, Assignment(tuple(where), nodes), target, tau),
        planner,
        draw(st.none() | st.integers(1, 3)),
        draw(st.none() | st.integers(1, 1500)),
    )


@given(orders())
@settings(max_examples=120)
def test_a_route_leads_to_a_valid_plan_in_portions_within_the_bounds(order: RouteOrder) -> None:
    found = route(order)
    plan = found.outcome
    assert isinstance(plan, StepPlan), "a tau that can be met has a plan"
    assert not certify_step(order.problem, plan, contiguous=order.planner.contiguous).faults
    moved = [task for step in found.steps for task in step]
    assert sorted(moved) == [move.task for move in plan.moves]
    for step in found.steps:
        assert order.max_tasks is None or len(step) <= order.max_tasks
        if order.max_bytes is not None and len(step) > 1:
            assert sum(order.problem.state[task] for task in step) <= order.max_bytes


def test_arbitrary_places_get_intervals_before_single_step_can_work() -> None:
    problem = StepProblem.of([1] * 4, [5, 1, 1, 5], [0, 1, 0, 1], 2, 0)
    note = "single-step needs consecutive tasks, which are not found: interval placement first"
    found = route(RouteOrder(problem, SINGLE_STEP, None, None))
    assert found == Route(step_plan(problem, (0, 0, 1, 1)), ((1, 2),), (note,))


def test_intervals_keep_the_most_state_where_it_is() -> None:
    problem = StepProblem.of([1] * 4, [1, 1, 9, 9], [1, 2, 0, 0], 2, 0)
    assert interval_placement(problem).assignment.nodes_of_tasks[2:] == (0, 0)


def test_a_plan_without_moves_has_no_steps() -> None:
    problem = StepProblem.of([1, 1], [5, 5], [0, 1], 2, 0)
    assert route(RouteOrder(problem, SINGLE_STEP, 1, None)).steps == ()


def test_no_bounds_mean_one_step() -> None:
    problem = StepProblem.of([1] * 4, [1] * 4, [0, 0, 0, 0], 4, 0)
    assert len(route(RouteOrder(problem, SINGLE_STEP, None, None)).steps) == 1


def test_a_task_larger_than_a_batch_may_move_is_reported() -> None:
    problem = StepProblem.of([1] * 2, [100, 100], [0, 0], 2, 0)
    found = route(RouteOrder(problem, SINGLE_STEP, None, 50))
    assert len(found.steps) == 1
    assert found.notes == ("1 tasks are larger than a batch may move: each alone",)


@pytest.mark.parametrize("planner", PLANNERS)
def test_the_same_order_gives_the_same_route(planner: MadePlanner) -> None:
    problem = StepProblem.of(WORK, STATE, [0, 0, 0, 1, 1, 1], 3, 0.4)
    order = RouteOrder(problem, planner, 2, None)
    assert route(order) == route(order)


def test_a_planner_that_was_made_for_the_query_is_used_as_it_is() -> None:
    planner = looking_ahead()
    policy = Policy(max_executors=3, planner=planner)
    assert (policy.planner_name, policy.contiguous) == ("transition", True)
    problem = StepProblem.of(WORK, STATE, [0, 0, 0, 1, 1, 1], 3, 0.4)
    found = route(RouteOrder(problem, planner, None, None))
    assert found.outcome == planner(problem)


def test_a_made_planner_that_needs_intervals_gets_them_first() -> None:
    problem = StepProblem.of(WORK, STATE, [0, 1, 0, 1, 0, 1], 3, 0.4)
    found = route(RouteOrder(problem, looking_ahead(), None, None))
    assert isinstance(found.outcome, StepPlan)
    assert found.outcome.assignment.intervals is not None
    assert found.notes == (
        "transition needs consecutive tasks, which are not found: interval placement first",
    )


def test_a_planner_that_explains_itself_is_heard_after_the_notes_of_the_order() -> None:
    problem = StepProblem.of([1] * 4, [1] * 4, [0, 1, 0, 0], 2, 1)
    found = route(RouteOrder(problem, Reversing(), None, None, ("chosen by hand",)))
    assert found == Route(
        step_plan(problem, (0, 0, 1, 0)),
        ((1, 2),),
        ("chosen by hand", "2 tasks the other way round"),
    )


def test_a_rehearsal_plans_and_reports_nothing() -> None:
    rehearse(10, 2)


def test_no_plan_is_no_route_and_says_why() -> None:
    problem = StepProblem.of([1] * 2, [1] * 2, [0, 1], 1, 1)
    found = route(RouteOrder(problem, Reversing(), 1, 1))
    assert found == Route(Infeasible("one node cannot be reversed"), ())


def test_a_plan_that_puts_too_much_state_on_an_executor_is_none() -> None:
    problem = StepProblem.of_stages([1, 1], [10, 20], [0, 1], 2, 0.5, memory=[25, 25])
    kept = route(RouteOrder(problem, Reversing(), None, None)).outcome
    assert isinstance(kept, StepPlan)
    tight = StepProblem.of_stages([1, 1], [10, 20], [0, 1], 2, 0.5, memory=[15, 25])
    refused = route(RouteOrder(tight, Reversing(), None, None)).outcome
    assert refused == Infeasible("reversing would put more state on an executor than it may hold")
