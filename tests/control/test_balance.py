from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.control.balance import even_bounds, even_max_load

works = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 1.0, 2.5]), min_size=1, max_size=7)


def lightest_intervals(work: list[float], nodes: int) -> float:
    return (
        min(
            max(sum(work[lb:ub]) for lb, ub in pairwise((0, *cuts, len(work))))
            for cuts in combinations(range(len(work) + 1), nodes - 1)
        )
        if nodes <= len(work) + 2
        else max(work)
    )


def lightest_spread(work: list[float], nodes: int) -> float:
    return min(
        max(
            sum(w for w, at in zip(work, spread, strict=True) if at == node)
            for node in range(nodes)
        )
        for spread in product(range(nodes), repeat=len(work))
    )


@given(works, st.integers(1, 4))
@settings(max_examples=400)
def test_intervals_are_as_even_as_intervals_can_be(work: list[float], nodes: int) -> None:
    bounds = even_bounds(work, nodes)
    assert bounds[0] == 0
    assert bounds[-1] == len(work)
    assert bounds == sorted(bounds)
    assert len(bounds) - 1 <= nodes
    found = even_max_load(work, nodes, contiguous=True)
    assert found == pytest.approx(lightest_intervals(work, nodes))


@given(works.filter(lambda work: len(work) <= 6), st.integers(1, 3))
@settings(max_examples=200)
def test_a_free_spread_is_within_a_third_of_the_best(work: list[float], nodes: int) -> None:
    best = lightest_spread(work, nodes)
    found = even_max_load(work, nodes, contiguous=False)
    assert best - 1e-9 <= found <= best * 4 / 3 + 1e-9


def test_six_equal_tasks_on_four_nodes_leave_two_on_one() -> None:
    assert even_max_load([1.0] * 6, 4, contiguous=False) == 2
    assert even_max_load([1.0] * 6, 4, contiguous=True) == 2
