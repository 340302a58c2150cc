from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resilience.planner.problems import EXAMPLE, problems, random_space, space_of

from elastream.resilience.model.problem import Arc, ResilientProblem
from elastream.resilience.planner.normalised import Ints, Space
from elastream.resilience.planner.rod import falling_order, rod


def paper_rod(space: Space) -> Ints:
    """Figure 10 word for word (with max for min), the classes checked at every step."""
    place = np.full(len(space.shares), -1)
    for j in falling_order(space.shares):
        candidates = []
        for i in range(len(space.capacity)):
            load = space.shares[(place == i) | (np.arange(len(place)) == j)].sum(axis=0)
            weights = load / space.capacity[i]
            norm = max(float(np.linalg.norm(weights)), 1e-100)
            distance = (1 - weights @ space.bound) / norm
            candidates.append((bool((weights <= 1 + 1e-9).all()), distance))
        # the largest distance, in class I where there is any
        best = max(range(len(candidates)), key=lambda i: candidates[i])
        place[j] = best
    return place


def test_example_2_gets_plan_c() -> None:
    assert rod(space_of(EXAMPLE)).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_are_placed_as_figure_10_says(seed: int) -> None:
    space = random_space(3, 8, 4, seed)
    free = replace(space, ends=space.ends[:0], transfers=space.transfers[:0])
    ours, theirs = (space.weights(place) for place in (rod(free), paper_rod(free)))
    assert sorted(map(tuple, ours.round(9).tolist())) == sorted(
        map(tuple, theirs.round(9).tolist())
    )


def test_class_one_takes_the_node_that_leaves_fewest_streams_between_nodes() -> None:
    load = [[4], [4], [1], [1]]
    arcs = [Arc(0, 3, (0.0,)), Arc(1, 2, (0.0,))]
    place = rod(space_of(ResilientProblem.of(load, [1, 1], arcs=arcs)))
    assert place[3] == place[0] != place[1] == place[2]


def test_a_lower_bound_changes_which_hyperplane_matters() -> None:
    load = [[10, 0], [0, 10], [6, 0], [0, 6], [5, 5]]
    at_origin = space_of(ResilientProblem.of(load, [1, 1]))
    above = space_of(ResilientProblem.of(load, [1, 1], [0.08, 0]))
    aware = above.plane_distance(rod(above))
    unaware = above.plane_distance(rod(at_origin))
    assert aware >= unaware


def test_operators_without_load_are_placed_where_their_neighbours_are() -> None:
    problem = ResilientProblem.of([[1], [0], [1]], [1, 1], arcs=[Arc(1, 2, (0.0,))])
    place = rod(space_of(problem))
    assert place[1] == place[2]


@settings(max_examples=200)
@given(problems(), st.randoms(use_true_random=False))
def test_the_numbers_of_the_nodes_do_not_matter(problem: ResilientProblem, random: object) -> None:
    order = np.random.default_rng(random.getrandbits(32)).permutation(  # type: ignore[attr-defined]
        len(problem.capacity)
    )
    renamed = replace(problem, capacity=tuple(problem.capacity[i] for i in order))
    space, other = space_of(problem), space_of(renamed)
    place = rod(other)
    weights = space.weights(rod(space))
    assert sorted(map(tuple, other.weights(place).tolist())) == sorted(map(tuple, weights.tolist()))


@settings(max_examples=200)
@given(problems(), st.sampled_from([1e-6, 0.1, 3.0, 1000.0]))
def test_the_unit_of_a_stream_does_not_matter(problem: ResilientProblem, factor: float) -> None:
    scaled = ResilientProblem.of(
        [[factor * row[0], *row[1:]] for row in problem.load],
        problem.capacity,
        [problem.lower_bound[0] / factor, *problem.lower_bound[1:]],
    )
    assert rod(space_of(scaled)).tolist() == rod(space_of(problem)).tolist()


@settings(max_examples=200)
@given(problems(bounded=False))
def test_the_unit_of_capacity_does_not_matter(problem: ResilientProblem) -> None:
    doubled = replace(problem, capacity=tuple(2 * c for c in problem.capacity))
    assert rod(space_of(doubled)).tolist() == rod(space_of(problem)).tolist()
