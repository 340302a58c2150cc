from __future__ import annotations

from itertools import chain, combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.placement.free_step.knapsack import fill, knapsack, knapsacks

Items = list[tuple[int, int]]

items = st.lists(st.tuples(st.integers(0, 12), st.integers(-3, 15)), max_size=9)


def most_profit(weighed: Items, capacity: int) -> int:
    """Try every set."""
    sets = chain.from_iterable(combinations(weighed, k) for k in range(len(weighed) + 1))
    return max(sum(p for _, p in s) for s in sets if sum(w for w, _ in s) <= capacity)


@given(items, st.integers(0, 40))
@settings(max_examples=400)
def test_no_set_that_fits_has_more_profit(weighed: Items, capacity: int) -> None:
    weights, profits = np.array(weighed, dtype=np.int64).reshape(-1, 2).T
    taken, profit, bound = knapsack(weights, profits, capacity, 1 << 12)
    assert profit == bound == most_profit(weighed, capacity)
    assert weights[taken].sum() <= capacity
    assert profits[taken].sum() == profit


@given(items, st.integers(0, 40), st.integers(2, 12))
@settings(max_examples=400)
def test_short_of_room_it_still_proves_a_bound(weighed: Items, capacity: int, room: int) -> None:
    weights, profits = np.array(weighed, dtype=np.int64).reshape(-1, 2).T
    taken, profit, bound = knapsack(weights, profits, capacity, room)
    assert profits[taken].sum() == profit <= most_profit(weighed, capacity) <= bound


@given(items, st.integers(0, 40), st.integers(0, 60))
@settings(max_examples=400)
def test_only_a_set_better_than_the_known_one_is_returned(
    weighed: Items, capacity: int, least: int
) -> None:
    useful = [(w, p) for w, p in weighed if p > 0 and w <= capacity]
    useful.sort(key=lambda item: -item[1] / item[0] if item[0] else -np.inf)
    weights, profits = np.array(useful, dtype=np.int64).reshape(-1, 2).T
    best = most_profit(weighed, capacity)
    known = min(least, best)
    trace, pairs = np.empty(1 << 12, np.int64), np.empty((4, (1 << 12) + 2), np.int64)
    taken, profit, bound, _ = fill(weights, profits, capacity, known, trace, pairs)
    assert profit == bound == best
    assert profits[taken].sum() == (best if best > known else 0)


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_plain_and_the_compiled_kernel_fill_all_nodes_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tasks, nodes = int(rng.integers(1, 25)), int(rng.integers(1, 5))
    work, state, raise_ = rng.integers(0, 30, size=(3, tasks))
    home = np.sort(rng.integers(0, nodes, size=tasks))
    price = state + raise_
    own = np.lexsort((-price / np.maximum(work, 0.5), home))
    guests = np.flatnonzero(raise_)
    guests = guests[np.argsort(-raise_[guests] / np.maximum(work[guests], 0.5), kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(home, minlength=nodes))])
    least = np.zeros(nodes, dtype=np.int64)
    given_ = (work, price, raise_, own, first, guests, least, 60, 1 << 10)
    (plain, *plain_rest), (fast, *fast_rest) = knapsacks.plain(*given_), knapsacks.compiled(*given_)
    assert plain.tolist() == fast.tolist()
    assert [np.array(a).tolist() for a in plain_rest] == [np.array(a).tolist() for a in fast_rest]
