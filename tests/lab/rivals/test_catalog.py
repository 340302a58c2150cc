"""One contract, kept by every planner of a single migration."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import step_problems

from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.placement.certificate import certify_step
from elastream_lab.rivals.catalog import STEP_PLANNERS
from elastream_lab.rivals.consistent_hashing import average_cost, ring_assignment

BASELINES = {"even-split", "consistent-hashing", "bounded-hashing", "redist"}
CONTIGUOUS = {"single-step", "even-split"}
INTERVALS_ONLY = {"single-step"}

every_planner = pytest.mark.parametrize(
    ("name", "planner"), STEP_PLANNERS.items(), ids=list(STEP_PLANNERS)
)


@st.composite
def scattered_problems(draw: st.DrawFn) -> StepProblem:
    """A migration from any assignment, consecutive or not."""
    tasks = draw(st.integers(1, 7))
    amounts = st.lists(st.integers(0, 6), min_size=tasks, max_size=tasks)
    current = st.lists(st.integers(0, 3), min_size=tasks, max_size=tasks)
    tau = draw(st.sampled_from([0, 0.25, 1]))
    return StepProblem.of(draw(amounts), draw(amounts), draw(current), draw(st.integers(1, 4)), tau)


def faults(name: str, problem: StepProblem, plan: StepPlan) -> tuple[str, ...]:
    balanced = plan.status != "unbalanced"
    return certify_step(problem, plan, contiguous=name in CONTIGUOUS, balanced=balanced).faults


@every_planner
@given(problem=step_problems())
@settings(max_examples=50)
def test_a_plan_passes_the_certificate_and_no_plan_comes_with_a_reason(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    plan = planner(problem)
    if isinstance(plan, Infeasible):
        assert name not in BASELINES
        assert plan.reason
    else:
        assert faults(name, problem, plan) == ()


@every_planner
@given(problem=step_problems())
@settings(max_examples=60)
def test_every_task_is_on_a_numbered_node_and_no_more_nodes_hold_tasks_than_may(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    plan = planner(problem)
    if isinstance(plan, StepPlan):
        assert len(plan.assignment.nodes_of_tasks) == len(problem.work)
        assert plan.assignment.nodes == problem.nodes_after
        used = set(plan.assignment.nodes_of_tasks)
        assert used <= set(range(problem.nodes_after))
        assert len(used) <= problem.target.nodes
        assert name not in BASELINES or max(used) < problem.target.nodes


@every_planner
@given(problem=step_problems())
@settings(max_examples=60)
def test_only_baselines_exceed_the_limit_and_they_say_so(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    plan = planner(problem)
    if isinstance(plan, StepPlan):
        over = certify_step(problem, plan, balanced=False).max_load > problem.limit * (1 + 1e-6)
        assert (plan.status == "unbalanced") == over
        assert name in BASELINES or not over


@every_planner
@given(problem=step_problems())
@settings(max_examples=30)
def test_the_same_problem_gives_the_same_plan(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    del name
    assert planner(problem) == planner(problem)


@every_planner
@given(problem=scattered_problems())
@settings(max_examples=60)
def test_tasks_that_are_not_consecutive_are_planned_or_refused_by_name(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    if name in INTERVALS_ONLY and problem.current.intervals is None:
        with pytest.raises(ProblemError, match=r"^current: "):
            planner(problem)
    else:
        plan = planner(problem)
        assert isinstance(plan, Infeasible) or faults(name, problem, plan) == ()


@every_planner
@given(problem=step_problems())
@settings(max_examples=60)
def test_no_plan_within_the_limit_moves_less_than_the_proven_optimum(
    name: str, planner: StepPlanner, problem: StepProblem
) -> None:
    plan = planner(problem)
    optimum = STEP_PLANNERS["single-step" if name in CONTIGUOUS else "free-step"](problem)
    if isinstance(plan, StepPlan) and plan.status != "unbalanced":
        assert isinstance(optimum, StepPlan)
        assert plan.cost >= optimum.lower_bound - 1e-9
        assert plan.status != "optimal" or plan.cost == pytest.approx(optimum.cost)


@every_planner
def test_all_tasks_go_to_the_one_node_that_is_left(name: str, planner: StepPlanner) -> None:
    problem = StepProblem.of([3, 1, 2], [5, 7, 9], [[0, 1], [1, 2], [2, 3]], 1, 0)
    plan = planner(problem)
    assert isinstance(plan, StepPlan)
    assert len(set(plan.assignment.nodes_of_tasks)) == 1
    assert faults(name, problem, plan) == ()


def test_every_planner_has_one_name() -> None:
    assert list(STEP_PLANNERS) == [
        "single-step",
        "free-step",
        "even-split",
        "consistent-hashing",
        "bounded-hashing",
        "redist",
    ]


def test_the_figures_of_the_baselines_page_are_what_happens() -> None:
    figures = Path(__file__).parents[3] / "lab" / "docs" / "figures"
    problem = StepProblem.of(**json.loads((figures / "baselines.json").read_text()))
    with (figures / "baselines.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    plans = {name: planner(problem) for name, planner in STEP_PLANNERS.items()}
    assert rows == [
        [name, plan.status, str(plan.cost)]
        for name, plan in plans.items()
        if isinstance(plan, StepPlan)
    ]
    assert sum(problem.state) == 560


def test_a_ring_of_ten_nodes_that_shrinks_to_eight_moves_a_fifth() -> None:
    start = ring_assignment(tasks=64, nodes=10, seed=0)
    problem = StepProblem.of([1] * 64, [1] * 64, start, nodes=8, tau=1.2)
    assert round(100 * average_cost(problem) / 64, 1) == 19.5
