from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elastream.placement.free_step.knapsack import knapsacks

Items = list[tuple[int, int]]

items = st.lists(st.tuples(st.integers(0, 12), st.integers(-3, 15)), max_size=9)


def most_profit(weighed: Items, capacity: int) -> int:
    """Try every set."""
    sets = chain.from_iterable(combinations(weighed, k) for k in range(len(weighed) + 1))
    return max(sum(p for _, p in s) for s in sets if sum(w for w, _ in s) <= capacity)


def solve(
    weighed: Items, capacity: int, room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], int]:
    """Return weights and profits of the useful items, those taken and the bound."""
    useful = [(w, p) for w, p in weighed if p > 0 and w <= capacity]
    useful.sort(key=lambda item: -item[1] / item[0] if item[0] else -np.inf)
    weights, profits = np.array(useful, dtype=np.int64).reshape(-1, 2).T
    taken, (bound,) = knapsacks(weights, profits, np.array([0, len(useful)]), capacity, room)
    return weights, profits, taken, int(bound)


@given(items, st.integers(0, 40))
@settings(max_examples=400)
def test_no_set_that_fits_has_more_profit(weighed: Items, capacity: int) -> None:
    weights, profits, taken, bound = solve(weighed, capacity, 1 << 12)
    assert weights[taken].sum() <= capacity
    assert profits[taken].sum() == bound == most_profit(weighed, capacity)


@given(items, st.integers(0, 40), st.integers(2, 12))
@settings(max_examples=400)
def test_short_of_room_it_still_proves_a_bound(weighed: Items, capacity: int, room: int) -> None:
    weights, profits, taken, bound = solve(weighed, capacity, room)
    assert weights[taken].sum() <= capacity
    assert profits[taken].sum() <= most_profit(weighed, capacity) <= bound


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_plain_and_the_compiled_kernel_fill_all_nodes_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks, nodes = int(rng.integers(1, 25)), int(rng.integers(1, 5))
    work, state = rng.integers(0, 30, size=(2, tasks))
    first = np.sort(np.concatenate([[0, tasks], rng.integers(0, tasks, size=nodes - 1)]))
    plain = knapsacks.plain(work, state, first, 60, 1 << 10)
    fast = knapsacks.compiled(work, state, first, 60, 1 << 10)
    assert [each.tolist() for each in plain] == [each.tolist() for each in fast]
