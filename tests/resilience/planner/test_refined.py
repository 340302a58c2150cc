from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.resilience.planner.problems import (
    EXAMPLE,
    optimum,
    problems,
    random_space,
    space_of,
    value,
)

from elastream.resilience.model.problem import Arc, ResilientProblem
from elastream.resilience.planner.feasible_set import directions
from elastream.resilience.planner.normalised import Space
from elastream.resilience.planner.pair_exchange import improve
from elastream.resilience.planner.refined import refine
from elastream.resilience.planner.rod import rod


def points_for(space: Space) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return directions(space.shares.shape[1], 7, seed=9)


def with_arcs(problem: ResilientProblem, seed: int) -> ResilientProblem:
    rng = np.random.default_rng(seed)
    operators, streams = len(problem.load), len(problem.lower_bound)
    arcs = [
        Arc(u, v, tuple(rng.integers(0, 3, size=streams).astype(float).tolist()))
        for u in range(operators)
        for v in range(u + 1, operators)
        if rng.random() < 0.4
    ]
    return ResilientProblem.of(problem.load, problem.capacity, problem.lower_bound, arcs)


@settings(max_examples=200)
@given(problems(max_operators=5), st.integers(0, 10**6))
def test_the_search_knows_the_value_of_what_it_returns(
    problem: ResilientProblem, seed: int
) -> None:
    space = space_of(with_arcs(problem, seed))
    rng = np.random.default_rng(seed)
    start = rng.integers(len(space.capacity), size=len(space.shares))
    points = points_for(space)
    place, found, _ = improve(space, points, start, 1e9)
    assume(found > 0)
    assert found == pytest.approx(value(space, place, points), rel=1e-9)
    assert found >= value(space, start, points) * (1 - 1e-9)


@settings(max_examples=100)
@given(problems(max_operators=5), st.integers(0, 10**6))
def test_no_move_and_no_swap_improves_what_the_search_returns(
    problem: ResilientProblem, seed: int
) -> None:
    space = space_of(with_arcs(problem, seed))
    points = points_for(space)
    place, found, _ = improve(space, points, rod(space), 1e9)
    assume(found > 0)
    operators, nodes = len(space.shares), len(space.capacity)
    for j in range(operators):
        for node in range(nodes):
            moved = place.copy()
            moved[j] = node
            assert value(space, moved, points) <= found * (1 + 1e-8)
        for k in range(j):
            swapped = place.copy()
            swapped[[j, k]] = place[[k, j]]
            assert value(space, swapped, points) <= found * (1 + 1e-8)


def test_a_spent_budget_ends_the_search() -> None:
    space = random_space(3, 10, 4, 1)
    start = np.zeros(30, dtype=np.int64)
    place, _, visits = improve(space, points_for(space), start, 0.0)
    assert place.tolist() == start.tolist()
    assert visits < 10_000


@pytest.mark.parametrize(
    ("inputs", "tree", "seed"),
    [(2, 3, 1), (2, 4, 2), (2, 5, 3), (3, 2, 4), (3, 3, 5), (4, 2, 6), (5, 2, 7)],
)
def test_small_graphs_are_placed_best(inputs: int, tree: int, seed: int) -> None:
    space = random_space(inputs, tree, 2, seed)
    points = directions(inputs, 10, seed=3)
    assert value(space, refine(space, rod(space)), points) >= 0.99 * optimum(space, points)


def test_example_2_gets_its_best_plan() -> None:
    space = space_of(EXAMPLE)
    points = directions(2, 10, seed=3)
    assert value(space, refine(space, np.zeros(4, dtype=np.int64)), points) == pytest.approx(
        optimum(space, points)
    )


@pytest.mark.parametrize("seed", range(3))
def test_streams_between_nodes_are_paid_for(seed: int) -> None:
    space = random_space(2, 4, 2, seed, transfer=0.6)
    points = directions(2, 10, seed=3)
    assert value(space, refine(space, rod(space)), points) >= 0.99 * optimum(space, points)


@settings(max_examples=40)
@given(problems(), st.permutations(range(3)))
def test_the_numbers_of_the_nodes_do_not_matter(
    problem: ResilientProblem, order: list[int]
) -> None:
    order = [i for i in order if i < len(problem.capacity)]
    renamed = replace(problem, capacity=tuple(problem.capacity[i] for i in order))
    first, second = space_of(problem), space_of(renamed)
    points = directions(first.shares.shape[1], 10, seed=1)
    values = [value(space, refine(space, rod(space)), points) for space in (first, second)]
    assert values[0] == pytest.approx(values[1])


@settings(max_examples=40)
@given(problems(), st.sampled_from([0.1, 1000.0]))
def test_the_unit_of_a_stream_does_not_matter(problem: ResilientProblem, factor: float) -> None:
    scaled = ResilientProblem.of(
        [[factor * row[0], *row[1:]] for row in problem.load],
        problem.capacity,
        [problem.lower_bound[0] / factor, *problem.lower_bound[1:]],
    )
    first, second = space_of(problem), space_of(scaled)
    points = directions(first.shares.shape[1], 10, seed=1)
    values = [value(space, refine(space, rod(space)), points) for space in (first, second)]
    assert values[0] == pytest.approx(values[1])
