from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.foresight.chain import ChainSettings, migration_chain, migrations, node_counts
from elastream.model.errors import ProblemError

PLAIN = ChainSettings(smoothing=0.0)


def test_nodes_are_proportional_to_totals_and_fill_the_range() -> None:
    assert node_counts([100, 500, 300, 900], 8, 16) == (8, 12, 10, 16)


def test_a_total_beyond_the_given_bounds_needs_the_fewest_or_the_most_nodes() -> None:
    assert node_counts([0, 100, 200, 900], 2, 4, low=100, high=200) == (2, 2, 4, 4)


def test_equal_totals_need_the_fewest_nodes() -> None:
    assert node_counts([7, 7], 3, 9) == (3, 3)


@given(st.lists(st.integers(0, 10**9), min_size=1), st.integers(1, 20), st.integers(0, 20))
@settings(max_examples=300)
def test_more_load_never_needs_fewer_nodes(totals: list[int], least: int, span: int) -> None:
    counts = node_counts(totals, least, least + span)
    in_order = [count for _, count in sorted(zip(totals, counts, strict=True))]
    assert in_order == sorted(in_order)
    assert least <= min(counts)
    assert max(counts) <= least + span


def test_equal_neighbours_are_no_migration() -> None:
    assert migrations([8, 8, 9, 9, 8, 8]) == (8, 9, 8)


def test_the_matrix_is_the_normalised_count_of_migrations() -> None:
    chain = migration_chain([2, 3, 2, 4, 2, 3, 3, 4], PLAIN)
    assert chain.sizes == (2, 3, 4)
    assert chain.matrix == ((0, 2 / 3, 1 / 3), (0.5, 0, 0.5), (1, 0, 0))


def test_smoothing_gives_every_other_size_a_chance_and_the_near_ones_more() -> None:
    chain = migration_chain([2, 5, 2, 5], ChainSettings(smoothing=0.1))
    of_two = chain.matrix[0]
    assert chain.sizes == (2, 3, 4, 5)
    assert of_two[0] == 0
    assert of_two[3] > 0.9
    assert of_two[1] == pytest.approx(2 * of_two[2])


def test_a_size_never_left_has_the_kernel_alone() -> None:
    chain = migration_chain([2, 4, 2], ChainSettings(smoothing=0.1), sizes=[2, 3, 4, 5])
    assert chain.matrix[1] == pytest.approx((0.4, 0, 0.4, 0.2))


def test_a_chain_with_directions_goes_on_the_way_it_went() -> None:
    day = [2, 3, 4, 5, 4, 3]
    chain = migration_chain(day * 5 + [2], ChainSettings(smoothing=0.0, directed=True))
    states = list(zip(chain.sizes, chain.directions or (), strict=True))
    assert (2, "up") not in states
    assert (5, "down") not in states
    rising = chain.matrix[states.index((3, "up"))]
    falling = chain.matrix[states.index((3, "down"))]
    assert rising[states.index((4, "up"))] == 1
    assert falling[states.index((2, "down"))] == 1


@given(
    st.lists(st.integers(2, 7), min_size=2).filter(lambda counts: len(set(counts)) > 1),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.booleans(),
)
@settings(max_examples=200)
def test_rows_sum_to_one_and_no_migration_leads_to_the_same_size(
    counts: list[int], smoothing: float, directed: bool
) -> None:
    chain = migration_chain(counts, ChainSettings(smoothing=smoothing, directed=directed))
    matrix = np.array(chain.matrix)
    assert matrix.sum(axis=1) == pytest.approx(1)
    same = np.equal.outer(chain.sizes, chain.sizes)
    assert matrix[same].max() == 0
    for before, after in pairwise(migrations(counts)):
        rows = [z for z, size in enumerate(chain.sizes) if size == before]
        columns = [y for y, size in enumerate(chain.sizes) if size == after]
        if smoothing < 1 and not directed:
            assert matrix[np.ix_(rows, columns)].max() > 0


def test_a_load_that_never_changes_has_no_chain() -> None:
    with pytest.raises(ProblemError, match="never change"):
        migration_chain([8, 8, 8], PLAIN)


@pytest.mark.parametrize(
    ("totals", "least", "most", "line"),
    [
        ([], 1, 2, "totals: is empty"),
        ([1], 0, 2, "least: 0 is too small"),
        ([1], 3, 2, "most: 2 is too small; the least is 3"),
        ([1, -1], 1, 2, r"totals\[1\]: -1 is negative"),
    ],
)
def test_wrong_input_is_named(totals: list[int], least: int, most: int, line: str) -> None:
    with pytest.raises(ProblemError, match=line):
        node_counts(totals, least, most)
