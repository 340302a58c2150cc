from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from tests.resilience.planner.problems import EXAMPLE, all_placements, problems

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import Arc, ResilientPlan, ResilientProblem
from elastream.resilience.planner.normalised import Space, normalise
from elastream.resilience.planner.packing_at_bound import packing_at_bound
from elastream.resilience.planner.planner import Method, resilient
from elastream_lab.studies.resilience.graphs import problem_of, random_graph


def planned(problem: ResilientProblem, method: Method = "refined") -> ResilientPlan:
    plan = resilient(problem, method)
    assert isinstance(plan, ResilientPlan)
    return plan


def test_example_2_is_placed_as_plan_c() -> None:
    plan = planned(EXAMPLE)
    assert plan.allocation in ((0, 1, 1, 0), (1, 0, 0, 1))
    assert plan.status == "feasible"
    assert plan.feasible.ratio == pytest.approx(0.756, abs=5e-4)
    assert plan.feasible.plane_distance == pytest.approx(1 / np.hypot(1.4, 0.875))
    assert plan.with_transfer is None


@settings(max_examples=60)
@given(problems())
def test_weights_follow_from_load_and_allocation(problem: ResilientProblem) -> None:
    plan = planned(problem, "rod")
    load, capacity = np.array(problem.load, float), np.array(problem.capacity, float)
    totals = load.sum(axis=0)
    for i, row in enumerate(plan.weights):
        held = load[[j for j, node in enumerate(plan.allocation) if node == i]].sum(axis=0)
        share = capacity[i] / capacity.sum()
        expected = [h / t / share if t else 0.0 for h, t in zip(held, totals, strict=True)]
        assert row == pytest.approx(expected)


@settings(max_examples=40)
@given(problems())
def test_refined_is_never_below_rod(problem: ResilientProblem) -> None:
    outcome = resilient(problem)
    rod = planned(problem, "rod").feasible.ratio
    if isinstance(outcome, Infeasible):
        assert rod == 0
    else:
        assert outcome.feasible.ratio >= rod


@pytest.mark.parametrize("seed", range(3))
def test_refined_is_never_below_rod_on_random_graphs(seed: int) -> None:
    problem = problem_of(random_graph(4, 8, np.random.default_rng(seed)), 5)
    assert planned(problem).feasible.ratio >= planned(problem, "rod").feasible.ratio


def test_a_stream_that_costs_nothing_limits_nothing() -> None:
    with_zeros = ResilientProblem.of([[*row, 0] for row in EXAMPLE.load], [1, 1], [0, 0, 99])
    plan = planned(with_zeros)
    assert plan.feasible == planned(EXAMPLE).feasible
    assert [row[2] for row in plan.weights] == [0, 0]


def test_an_operator_without_load_is_placed_and_changes_nothing() -> None:
    idle = ResilientProblem.of([*EXAMPLE.load, [0, 0]], [1, 1])
    assert planned(idle).feasible.ratio == pytest.approx(planned(EXAMPLE).feasible.ratio)


@pytest.mark.parametrize("method", get_args(Method))
def test_a_node_without_capacity_holds_nothing(method: Method) -> None:
    problem = ResilientProblem.of([*EXAMPLE.load, [0, 0]], [1, 0, 1, 1e-30])
    plan = planned(problem, method)
    assert set(plan.allocation) <= {0, 2}
    assert plan.weights[1] == plan.weights[3] == (0, 0)


def test_no_capacity_at_all_is_infeasible() -> None:
    assert resilient(replace(EXAMPLE, capacity=(0, 0))) == Infeasible("no node has any capacity")


@pytest.mark.parametrize("least", [(0.1, 0), (0.05, 0.07), (1e99, 0)])
def test_a_lower_bound_outside_the_ideal_set_is_infeasible(least: tuple[float, float]) -> None:
    outcome = resilient(replace(EXAMPLE, lower_bound=least))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("the lower bound is not inside the ideal set: it needs ")


def test_an_operator_too_heavy_at_the_lower_bound_is_named() -> None:
    outcome = resilient(ResilientProblem.of([[1], [5], [1]], [3, 3], [0.7]))
    assert outcome == Infeasible(
        "operator 1 alone needs 1.16667 times the largest node at the lower bound"
    )


def test_a_lower_bound_that_no_packing_bears_is_infeasible() -> None:
    outcome = resilient(ResilientProblem.of([[2], [2], [2]], [3, 3], [0.9]))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason == (
        "no placement is feasible above the lower bound: some node needs 1.2 times its capacity"
    )


def test_refined_finds_a_packing_where_greedy_ones_fail() -> None:
    load = [[7], [6], [5], [4], [3], [3], [2]]
    problem = ResilientProblem.of(load, [15, 15], [0.99])
    assert planned(problem).status == "feasible"
    assert planned(problem).feasible.ratio > 0


@settings(max_examples=60)
@given(problems(max_operators=5))
def test_packing_is_decided_as_by_trying_all(problem: ResilientProblem) -> None:
    assume(any(problem.lower_bound))
    tight = replace(problem, lower_bound=tuple(1.6 * b for b in problem.lower_bound))
    space = normalise(tight)
    assume(isinstance(space, Space))
    assert isinstance(space, Space)
    fits = any(
        (space.weights(place) @ space.bound).max() < 1 - 1e-9
        for place in all_placements(len(space.shares), len(space.capacity))
    )
    found = packing_at_bound(space)
    if fits:
        assert not isinstance(found, Infeasible)
        assert found is not None
        assert (space.weights(found) @ space.bound).max() < 1
    else:
        assert isinstance(found, Infeasible)


def test_transfers_are_reported_next_to_the_load_alone() -> None:
    arcs = [Arc(0, 1, (7.0, 0.0)), Arc(2, 3, (0.0, 4.0))]
    plan = planned(ResilientProblem.of(EXAMPLE.load, [1, 1], arcs=arcs))
    assert plan.with_transfer is not None
    assert plan.with_transfer.ratio <= plan.feasible.ratio
    assert plan.borne == plan.with_transfer


@pytest.mark.parametrize(
    ("load", "capacity", "least", "line"),
    [
        ([], [1], None, "load: is empty"),
        ([[]], [1], None, "load[0]: is empty"),
        ([[1], [1, 2]], [1], None, "load[1]: has 2 entries where 1 are needed"),
        ([[1], [-2]], [1], None, "load[1][0]: -2 is negative"),
        ([[0], [0]], [1], None, "load: is 0 everywhere"),
        ([[1]], [], None, "capacity: is empty"),
        ([[1]], [-1], None, "capacity[0]: -1 is negative"),
        ([[1]], [1], [1, 2], "lower_bound: has 2 entries where 1 are needed"),
        ("load", [1], None, "load: 'load' is not a list"),
    ],
)
def test_a_wrong_problem_is_refused_by_name(
    load: object, capacity: object, least: object, line: str
) -> None:
    with pytest.raises(ProblemError) as refused:
        ResilientProblem.of(load, capacity, least)  # type: ignore[arg-type]
    assert line in str(refused.value)
