from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, HalfspaceIntersection
from tests.resilience.planner.problems import EXAMPLE, problems, space_of

from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.feasible_set import directions, volume_ratio
from elastream.resilience.planner.normalised import Floats
from elastream_lab.studies.resilience.volume_bounds import exact_area_ratio, sphere_ratio


def drawn_weights(nodes: int, streams: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    weights: Floats = nodes * rng.dirichlet(np.ones(nodes), size=streams).T
    return weights


def exact_volume_ratio(rows: Floats) -> float:
    """By qhull, in any dimension."""
    streams = rows.shape[1]
    positive = np.hstack([-np.eye(streams), np.zeros((streams, 1))])
    below = np.hstack([rows, -np.ones((len(rows), 1))])
    inside = np.full(streams, 0.5 / max(1.0, rows.sum(axis=1).max()))
    corners = HalfspaceIntersection(np.vstack([positive, below]), inside).intersections
    return float(ConvexHull(corners).volume) * math.factorial(streams)


@pytest.mark.parametrize(
    ("place", "ratio"), [((0, 0, 1, 1), 0.500), ((0, 1, 0, 1), 0.635), ((0, 1, 1, 0), 0.756)]
)
def test_the_plans_of_example_2_bear_what_figures_5_and_6_show(
    place: tuple[int, ...], ratio: float
) -> None:
    weights = space_of(EXAMPLE).weights(np.array(place))
    assert volume_ratio(weights).value == pytest.approx(ratio, abs=5e-4)
    assert exact_area_ratio(weights) == pytest.approx(ratio, abs=5e-4)


@settings(max_examples=150)
@given(st.integers(1, 8), st.integers(0, 10**6))
def test_volumes_agree_with_the_exact_area_to_three_digits(nodes: int, seed: int) -> None:
    weights = drawn_weights(nodes, 2, seed)
    found = volume_ratio(weights)
    exact = exact_area_ratio(weights)
    assert found.value == pytest.approx(exact, rel=5e-4)
    assert abs(found.value - exact) <= 8 * found.standard_error + 1e-9


@pytest.mark.parametrize("streams", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_volumes_agree_with_exact_polytopes_to_three_digits(streams: int, seed: int) -> None:
    weights = drawn_weights(6, streams, seed)
    assert volume_ratio(weights).value == pytest.approx(exact_volume_ratio(weights), rel=5e-4)


@settings(max_examples=150)
@given(problems(max_streams=2))
def test_volumes_above_a_lower_bound_agree_with_the_exact_area(problem: ResilientProblem) -> None:
    space = space_of(problem)
    rows = space.above_bound(np.zeros(len(problem.load), dtype=np.int64))
    assume(rows is not None and rows.shape[1] == 2)
    assert rows is not None
    assert volume_ratio(rows).value == pytest.approx(exact_area_ratio(rows), rel=5e-4)


def test_a_lower_bound_cuts_the_set_at_that_corner() -> None:
    space = space_of(ResilientProblem.of([[1, 0], [0, 1]], [1, 1], [0.5, 0]))
    # the ideal triangle above (1/4, 0) has legs of 3/4, of which a rectangle 1/4 x 1/2 is borne
    rows = space.above_bound(np.array([0, 1]))
    assert rows is not None
    assert exact_area_ratio(rows) == pytest.approx(0.25 * 0.5 / (0.75**2 / 2))


def test_an_ideal_placement_bears_all() -> None:
    assert volume_ratio(np.ones((3, 4))) == (1.0, 0.0)


def test_nothing_is_borne_where_a_node_is_full_at_the_lower_bound() -> None:
    assert volume_ratio(None) == (0.0, 0.0)


def test_one_stream_is_borne_up_to_the_heaviest_node() -> None:
    assert volume_ratio(np.array([[0.5], [1.25]])) == (0.8, 0.0)


@pytest.mark.parametrize("streams", [2, 3, 6])
def test_directions_are_uniform_on_the_face(streams: int) -> None:
    points = directions(streams, 12, seed=5)
    assert points.min() >= 0
    assert points.sum(axis=1) == pytest.approx(1)
    assert points.mean(axis=0) == pytest.approx(1 / streams, abs=1e-3)
    second = 2 / (streams * (streams + 1))
    assert (points**2).mean(axis=0) == pytest.approx(second, abs=1e-3)


def axis_bound(rows: Floats) -> float:
    """Return what section 4.1 proves: the simplex through the nearest intersections is borne."""
    return float(np.prod(1.0 / rows.max(axis=0)))


def sphere_bound(rows: Floats) -> float:
    return sphere_ratio(1.0 / float(np.linalg.norm(rows, axis=1).max()), rows.shape[1])


@settings(max_examples=150)
@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 10**6))
def test_section_4_bounds_hold(nodes: int, streams: int, seed: int) -> None:
    weights = drawn_weights(nodes, streams, seed)
    found = volume_ratio(weights)
    slack = 5 * found.standard_error + 1e-9
    assert axis_bound(weights) <= found.value + slack
    assert sphere_bound(weights) <= found.value + slack
    assert found.value <= 1


def test_the_ideal_matrix_meets_the_axis_bound() -> None:
    assert axis_bound(np.ones((2, 3))) == 1.0


def test_the_sphere_bound_of_two_streams_is_a_quarter_disc() -> None:
    weights = np.array([[1.4, 0.875], [0.6, 1.125]])
    radius = 1 / math.hypot(1.4, 0.875)
    assert sphere_bound(weights) == pytest.approx(math.pi * radius**2 / 4 / 0.5)
