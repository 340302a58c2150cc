"""What operators take at any rates, and what cannot be placed: compared with an equal problem."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.resilience.planner.problems import all_placements, problems, space_of, value

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import ResilientPlan, ResilientProblem
from elastream.resilience.planner.feasible_set import directions
from elastream.resilience.planner.load_model import linear_load
from elastream.resilience.planner.planner import Method, describe, resilient

PLACES = st.lists(st.integers(0, 2), min_size=6, max_size=6)


@settings(max_examples=60)
@given(problems(max_nodes=3, bounded=False), PLACES, PLACES)
def test_what_is_taken_at_any_rates_is_capacity_that_the_node_does_not_have(
    problem: ResilientProblem, places: list[int], weights: list[int]
) -> None:
    nodes = len(problem.capacity)
    place = np.array(places[: len(problem.load)]) % nodes
    fixed = [weight / 20 for weight in weights[: len(problem.load)]]
    taken = np.bincount(place, fixed, nodes)
    left = np.array(problem.capacity) - taken
    assume((left > 0.01).all())
    report = ResilientProblem.of(problem.load, problem.capacity, fixed=fixed)
    less = ResilientProblem.of(problem.load, left.tolist())
    found = describe(report, space_of(report), place).feasible
    assert found.ratio == pytest.approx(describe(less, space_of(less), place).feasible.ratio)


@settings(max_examples=60)
@given(problems(max_nodes=3), PLACES, st.data())
def test_what_cannot_be_placed_is_an_operator_that_stays(
    problem: ResilientProblem, places: list[int], data: st.DataObject
) -> None:
    nodes, streams = len(problem.capacity), len(problem.lower_bound)
    amounts = st.lists(st.sampled_from([0, 0.5, 1]), min_size=streams, max_size=streams)
    rows = data.draw(st.lists(amounts, min_size=nodes, max_size=nodes))
    place = np.array(places[: len(problem.load)]) % nodes
    least = [bound / 4 for bound in problem.lower_bound]
    report = ResilientProblem.of(problem.load, problem.capacity, least, unplaced=rows)
    more = ResilientProblem.of([*problem.load, *rows], problem.capacity, least)
    whole = np.concatenate([place, np.arange(nodes)])
    found = describe(report, space_of(report), place)
    expected = describe(more, space_of(more), whole)
    assert found.feasible.ratio == pytest.approx(expected.feasible.ratio)
    assert found.feasible.plane_distance == pytest.approx(expected.feasible.plane_distance)
    assert np.array(found.weights) == pytest.approx(np.array(expected.weights))


@pytest.mark.parametrize("method", get_args(Method))
def test_operators_go_where_nothing_else_is(method: Method) -> None:
    problem = ResilientProblem.of([[1]] * 4, [1, 1], fixed=[0.01] * 4, unplaced=[[4], [0]])
    plan = resilient(problem, method)
    assert isinstance(plan, ResilientPlan)
    assert plan.allocation == (1, 1, 1, 1)


@settings(max_examples=8)
@given(problems(max_operators=4, max_nodes=2, max_streams=2, bounded=False), PLACES, PLACES)
def test_refined_is_as_good_as_trying_all(
    problem: ResilientProblem, weights: list[int], apart: list[int]
) -> None:
    fixed = [weight / 20 for weight in weights[: len(problem.load)]]
    rows = [[apart[i] / 4] * len(problem.lower_bound) for i in range(len(problem.capacity))]
    report = ResilientProblem.of(problem.load, problem.capacity, fixed=fixed, unplaced=rows)
    space = space_of(report)
    points = directions(space.shares.shape[1], 10, seed=3)
    best = max(
        value(space, place, points)
        for place in all_placements(len(space.shares), len(space.capacity))
    )
    plan = resilient(report)
    if best == 0:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, ResilientPlan)
        place = np.searchsorted(space.nodes, plan.allocation)
        assert value(space, place, points) >= 0.99 * best


def test_more_than_there_is_at_any_rates_is_infeasible() -> None:
    outcome = resilient(ResilientProblem.of([[1], [1]], [1, 1], fixed=[1.5, 0.5]))
    assert outcome == Infeasible(
        "the lower bound is not inside the ideal set: it needs 2 of the capacity 2 of all nodes, "
        "2 of it at any rates"
    )
    outcome = resilient(ResilientProblem.of([[1], [1]], [1, 0], unplaced=[[0], [1]]))
    assert outcome == Infeasible("node 1 has work that cannot be placed, and no capacity for it")


def test_a_graph_shows_what_its_operators_take_at_any_rates() -> None:
    graph = QueryGraph.of(
        ["I"],
        [GraphOperator.of("o", ["I"], 2, None, fixed=0.5), GraphOperator.of("p", ["o"], 1)],
    )
    problem = linear_load(graph).problem([1, 1], unplaced=[[3], [4]])
    assert problem.fixed == (0.5, 0)
    assert problem.unplaced == ((3, 0), (4, 0))


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"fixed": [1]}, "fixed: has 1 entries where 2 are needed"),
        ({"fixed": [1, -1]}, "fixed[1]: -1 is negative"),
        ({"unplaced": [[1]]}, "unplaced: has 1 rows; there are 2 nodes"),
        ({"unplaced": [[1], [1, 2]]}, "unplaced[1]: has 2 entries where 1 are needed"),
        ({"unplaced": "x"}, "unplaced: 'x' is not a list"),
    ],
)
def test_a_wrong_field_is_refused_by_name(more: dict[str, object], line: str) -> None:
    with pytest.raises(ProblemError) as refused:
        ResilientProblem.of([[1], [1]], [1, 1], **more)  # type: ignore[arg-type]
    assert line in str(refused.value)
