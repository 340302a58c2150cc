from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.foresight.mtm.exact import (
    cuts,
    exact_values,
    moved,
    projection_problems,
    serves,
)

from elastream.foresight.mtm import growth
from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.partitions import all_partitions, count_partitions
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, even_cuts, partition_values
from elastream.model.plan import Infeasible

POOLED = GrowthSettings(most_listed=0, pool=150, parents=40, rounds=5)
"""A pool is grown however few partitions there are."""


def medium(seed: int, gamma: float = 0.8, tau: float = 0.6) -> ProjectionProblem:
    """A problem with some hundred partitions: a pool has to choose."""
    random = np.random.default_rng(seed)
    sizes = [3, 4, 5, 6]
    matrix = random.random((4, 4))
    np.fill_diagonal(matrix, 0)
    chain = MigrationChain.of(sizes, matrix / matrix.sum(axis=1, keepdims=True), gamma)
    work, state = random.integers(5, 30, (2, 13)).tolist()
    return ProjectionProblem.of(work, state, tau, chain)


def ground_of(problem: ProjectionProblem) -> Ground:
    return Ground.of(problem.work, problem.state, problem.tau, problem.chain)


def valued(problem: ProjectionProblem, settings: GrowthSettings | None = None) -> PartitionValues:
    values = partition_values(problem, settings=settings)
    assert isinstance(values, PartitionValues)
    return values


@given(projection_problems())
@settings(max_examples=200)
def test_the_partitions_listed_and_counted_are_those_that_serve_a_size(
    problem: ProjectionProblem,
) -> None:
    expected = {
        cut
        for cut in cuts(len(problem.work))
        if any(serves(cut, n, problem.work, problem.tau) for n in problem.chain.sizes)
    }
    ground = ground_of(problem)
    listed = all_partitions(ground)
    assert {listed.cut(i) for i in range(len(listed))} == expected
    assert len(listed) == count_partitions(ground) == len(expected)


@given(projection_problems())
@settings(max_examples=150)
def test_the_most_even_partitions_are_found_exactly_where_all_sizes_are_served(
    problem: ProjectionProblem,
) -> None:
    good = [
        [cut for cut in cuts(len(problem.work)) if serves(cut, size, problem.work, problem.tau)]
        for size in problem.chain.sizes
    ]
    found = even_cuts(problem)
    if isinstance(found, Infeasible):
        assert not all(good)
        return

    def heaviest(cut: tuple[int, ...]) -> float:
        return max(sum(problem.work[a:b]) for a, b in pairwise(cut))

    for cut, others in zip(found, good, strict=True):
        assert cut in others
        assert heaviest(cut) == pytest.approx(min(map(heaviest, others)), rel=1e-8)


@given(projection_problems())
@settings(max_examples=250)
def test_values_are_those_of_exact_value_iteration(problem: ProjectionProblem) -> None:
    values = partition_values(problem)
    if isinstance(values, Infeasible):
        assert isinstance(even_cuts(problem), Infeasible)
        return
    expected = exact_values(problem)
    assert values.complete
    assert len(expected) == values.values.size
    for (z, cut), value in expected.items():
        place = [values.members.cut(i) for i in range(len(values.members))].index(cut)
        assert values.values[z, place] == pytest.approx(value, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_values_of_neighbouring_partitions_differ_by_no_more_than_the_way(seed: int) -> None:
    problem = medium(seed)
    values = valued(problem)
    members = [values.members.cut(i) for i in range(0, len(values.members), 17)]
    for row in values.values[:, ::17]:
        for p, of_p in zip(members, row, strict=True):
            for q, of_q in zip(members, row, strict=True):
                assert of_p <= of_q + moved(problem.state, p, q) + 1e-6


@pytest.mark.parametrize("gamma", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_values_of_a_grown_pool_are_never_below_the_exact_ones_and_close(
    seed: int, gamma: float
) -> None:
    problem = medium(seed, gamma)
    exact, grown = valued(problem), valued(problem, POOLED)
    assert exact.complete
    assert not grown.complete
    assert len(grown.members) <= POOLED.pool < len(exact.members)
    places = exact.members.places(grown.members)
    above = grown.values / exact.values[:, places] - 1
    assert above.min() > -1e-9
    most_visited = above[:, :10]
    assert most_visited.max() < 0.05
    assert most_visited.mean() < 0.002


def test_the_value_of_the_starts_never_rises_while_the_pool_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[float] = []
    value_of = growth._value

    def noted(*given: Any) -> float:
        found.append(value_of(*given))
        return found[-1]

    monkeypatch.setattr(growth, "_value", noted)
    rounds: list[int] = []
    partition_values(medium(2), settings=POOLED, finished=lambda number, _: rounds.append(number))
    assert rounds == list(range(1, len(found) + 1))
    assert len(rounds) > 2
    assert all(b <= a * (1 + 1e-6) for a, b in pairwise(found))


def test_a_size_that_cannot_be_served_is_named() -> None:
    chain = MigrationChain.of([2, 4], [[0, 1], [1, 0]], 0.8)
    outcome = partition_values(ProjectionProblem.of([5, 1, 1, 1], [1, 1, 1, 1], 0.4, chain))
    assert isinstance(outcome, Infeasible)
    assert outcome.reason.startswith("a migration to 4 nodes may follow, and task 0 has work 5")


def test_problems_that_differ_have_different_fingerprints() -> None:
    one, other = medium(1), medium(2)
    assert one.fingerprint == medium(1).fingerprint
    assert len({one.fingerprint, other.fingerprint, medium(1, 0.7).fingerprint}) == 3
