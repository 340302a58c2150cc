from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from elastream.placement import matchings
from elastream.placement.matchings import most_pairs, most_valuable


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 30), st.integers(0, 10**6))
def test_an_assignment_is_worth_what_scipys_is(
    rows: int, columns: int, largest: int, seed: int
) -> None:
    value = np.random.default_rng(seed).integers(0, largest + 1, (rows, columns)).astype(float)
    chosen, partners = most_valuable(value)
    assert len(chosen) == min(rows, columns)
    assert len(set(partners.tolist())) == len(partners)
    assert (np.diff(chosen) > 0).all()
    assert value[chosen, partners].sum() == value[linear_sum_assignment(value, maximize=True)].sum()


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 1), st.integers(0, 10**6))
def test_a_matching_has_as_many_pairs_as_scipys_and_only_edges(
    lefts: int, rights: int, density: float, seed: int
) -> None:
    edges = np.random.default_rng(seed).random((lefts, rights)) < density
    graph = csr_array(edges.astype(np.int8))
    partner = most_pairs(*_edges_of(edges), rights)
    matched = partner[partner >= 0]
    assert len(set(matched.tolist())) == len(matched)
    assert edges[partner >= 0, matched].all()
    theirs = maximum_bipartite_matching(graph, perm_type="column")
    assert len(matched) == (theirs >= 0).sum()


@pytest.mark.parametrize("size", [0, 60])
def test_large_and_empty_problems_are_matched(size: int) -> None:
    value = np.random.default_rng(3).random((size, size))
    chosen, partners = most_valuable(value)
    best = value[linear_sum_assignment(value, maximize=True)].sum()
    assert value[chosen, partners].sum() == pytest.approx(best, rel=1e-12)
    ring = np.eye(size, dtype=np.bool_) | np.roll(np.eye(size, dtype=np.bool_), 1, axis=1)
    assert sorted(most_pairs(*_edges_of(ring), size).tolist()) == list(range(size))


def test_an_assignment_and_a_matching_are_the_same_compiled() -> None:
    rng = np.random.default_rng(4)
    for size in (1, 2, 5, 12):
        cost = rng.integers(0, 4, (size, size + 2)).astype(float)
        starts, right = _edges_of(cost < 1)
        assert np.array_equal(matchings._assign.plain(cost), matchings._assign.compiled(cost))
        plain = matchings._match.plain(starts, right, size + 2)
        assert np.array_equal(plain, matchings._match.compiled(starts, right, size + 2))


def _edges_of(edges: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
    return starts, np.nonzero(edges)[1]
