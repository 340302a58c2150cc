from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resilience.planner.problems import problems, random_space, space_of

from elastream.resilience.model.problem import Arc, ResilientProblem
from elastream.resilience.planner.planner import describe
from elastream_lab.rivals import placements as rivals
from elastream_lab.rivals.methods import METHODS, drawn_rates


def test_largest_load_first_puts_each_on_the_least_loaded_node() -> None:
    space = space_of(ResilientProblem.of([[5], [4], [3], [2]], [1, 1]))
    assert rivals.largest_load_first(space, np.array([0.5])).tolist() == [0, 1, 1, 0]


def test_largest_load_first_balances_at_the_rates_it_is_given() -> None:
    space = space_of(ResilientProblem.of([[1, 0], [0, 1], [1, 0], [0, 1]], [1, 1]))
    place = rivals.largest_load_first(space, np.array([1.0, 0.0]))
    assert place[0] != place[2]


def test_a_larger_node_is_filled_more() -> None:
    space = space_of(ResilientProblem.of([[1]] * 8, [3, 1]))
    assert np.bincount(rivals.largest_load_first(space, np.array([1.0]))).tolist() == [6, 2]


def test_max_rate_balances_at_the_largest_rates() -> None:
    space = random_space(3, 6, 3, 0)
    series = drawn_rates(space, 4, 20)
    expected = rivals.largest_load_first(space, series.max(axis=0))
    assert rivals.max_rate(space, series).tolist() == expected.tolist()


def test_connected_keeps_a_chain_together_below_the_mean() -> None:
    arcs = [Arc(0, 1, (0.0,)), Arc(1, 2, (0.0,)), Arc(3, 4, (0.0,)), Arc(4, 5, (0.0,))]
    load: list[list[float]] = [[3], [2], [1], [3], [2], [1.5]]
    place = rivals.connected(space_of(ResilientProblem.of(load, [1, 1], arcs=arcs)), np.ones(1))
    # the mean is 6.25: all of a chain of 6 fits below it, a chain of 6.5 does not
    assert place[0] == place[1] == place[2] != place[3] == place[4]


def test_correlation_separates_what_rises_and_falls_together() -> None:
    space = space_of(ResilientProblem.of([[1, 0], [1, 0], [0, 1], [0, 1]], [1, 1]))
    series = drawn_rates(space, 0, 200)
    place = rivals.correlation(space, series)
    assert place[0] != place[1]
    assert place[2] != place[3]


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 7))
def test_random_places_the_same_number_on_each_node(seed: int, count: int, nodes: int) -> None:
    space = space_of(ResilientProblem.of([[1]] * count, [1] * nodes))
    held = np.bincount(rivals.random_even(space, seed), minlength=nodes)
    assert held.max() - held.min() <= 1


def test_drawn_rates_are_inside_the_ideal_set_and_above_the_bound() -> None:
    space = space_of(ResilientProblem.of([[1, 2], [3, 4]], [1, 1], [0.1, 0.05]))
    rates = drawn_rates(space, 0, 500)
    assert (rates >= space.bound).all()
    assert (rates.sum(axis=1) <= 1).all()


def test_a_placement_that_overloads_a_node_at_the_lower_bound_says_so() -> None:
    problem = ResilientProblem.of([[4, 0], [4, 0], [0, 4], [0, 4]], [1, 1], [0.2, 0])
    space = space_of(problem)
    plans = [describe(problem, space, METHODS["random"](space, seed)) for seed in range(20)]
    said = {(plan.status, plan.feasible.ratio > 0) for plan in plans}
    assert said == {("feasible", True), ("unbalanced", False)}


@pytest.mark.parametrize("method", [m for m in METHODS if m != "refined"])
@settings(max_examples=40)
@given(problem=problems(), seed=st.integers(0, 100))
def test_every_method_places_every_operator_on_a_node(
    method: str, problem: ResilientProblem, seed: int
) -> None:
    space = space_of(problem)
    place = METHODS[method](space, seed)
    assert place.shape == (len(problem.load),)
    assert set(place.tolist()) <= set(range(len(problem.capacity)))


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_placement(method: str) -> None:
    space = random_space(2, 6, 3, 0)
    first, second = METHODS[method](space, 7), METHODS[method](space, 7)
    assert first.tolist() == second.tolist()
