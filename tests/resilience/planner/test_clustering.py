from __future__ import annotations

import numpy as np
import pytest
from tests.resilience.planner.problems import random_space, space_of

from elastream.resilience.model.problem import Arc, ResilientProblem
from elastream.resilience.planner.clustering import (
    Approach,
    clusters,
    rod_of_clusters,
    rod_with_clustering,
)
from elastream.resilience.planner.normalised import Space
from elastream.resilience.planner.rod import rod


def chain(transfers: list[float]) -> Space:
    """Operators of load 1, one after the other; arc j costs ``transfers[j]`` if it crosses."""
    operators = len(transfers) + 1
    arcs = [Arc(j, j + 1, (cost,)) for j, cost in enumerate(transfers)]
    return space_of(ResilientProblem.of([[1.0]] * operators, [1, 1], arcs=arcs))


@pytest.mark.parametrize("approach", ["by_ratio", "by_weight"])
def test_arcs_below_the_threshold_are_left_alone(approach: Approach) -> None:
    labels = clusters(chain([0.9, 0.1, 0.9]), approach, threshold=0.5, heaviest=1.0)
    assert labels.tolist() == [0, 0, 1, 1]


def test_by_ratio_the_dearest_arc_goes_first() -> None:
    labels = clusters(chain([0.5, 0.9, 0.5]), "by_ratio", threshold=0.5, heaviest=0.5)
    assert labels.tolist() == [0, 1, 1, 2]


def test_by_weight_the_lightest_pair_goes_first() -> None:
    arcs = [Arc(0, 1, (9.0,)), Arc(1, 2, (5.0,))]
    space = space_of(ResilientProblem.of([[4.0], [2.0], [1.0], [1.0]], [1], arcs=arcs))
    assert clusters(space, "by_weight", 0.5, heaviest=0.75).tolist() == [0, 1, 1, 2]
    assert clusters(space, "by_ratio", 0.5, heaviest=0.75).tolist() == [0, 1, 1, 2]


def test_no_cluster_is_heavier_than_the_bound() -> None:
    space = chain([5.0] * 9)
    labels = clusters(space, "by_ratio", threshold=0.1, heaviest=0.3)
    assert np.bincount(labels).max() == 3


def test_arcs_between_the_same_clusters_count_together() -> None:
    arcs = [Arc(0, 1, (9.0,)), Arc(0, 2, (0.3,)), Arc(1, 2, (0.3,))]
    space = space_of(ResilientProblem.of([[1.0]] * 3, [1], arcs=arcs))
    assert clusters(space, "by_ratio", threshold=0.5, heaviest=1.0).tolist() == [0, 0, 0]


def test_a_cluster_stays_on_one_node() -> None:
    space = random_space(3, 8, 4, 2, transfer=0.5)
    labels = clusters(space, "by_ratio", threshold=0.3, heaviest=0.25)
    place = rod_of_clusters(space, labels)
    for label in range(labels.max() + 1):
        assert len(set(place[labels == label].tolist())) == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_sweep_is_never_nearer_than_plain_rod(seed: int) -> None:
    space = random_space(3, 8, 3, seed, transfer=0.8)
    swept, plain = (
        space.plane_distance(place) for place in (rod_with_clustering(space), rod(space))
    )
    assert swept >= plain


def test_the_sweep_helps_where_transfers_are_dear() -> None:
    spaces = [random_space(3, 8, 3, seed, transfer=1.0) for seed in range(6)]
    gains = [
        space.plane_distance(rod_with_clustering(space)) / space.plane_distance(rod(space))
        for space in spaces
    ]
    assert np.mean(gains) > 1.05


def test_crossing_streams_cost_both_ends() -> None:
    space = chain([0.5])
    apart, together = space.weights(np.array([0, 1])), space.weights(np.array([0, 0]))
    assert apart.tolist() == [[1.5], [1.5]]
    assert together.tolist() == [[2.0], [0.0]]
