from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from elastream.planners.partition_cost import cheapest_matching, kept_state

Cut = list[int]


@st.composite
def cuts(draw: st.DrawFn, count: int, max_tasks: int = 12) -> tuple[list[int], list[Cut]]:
    """State sizes, zeros among them, and some cuts of the tasks."""
    state = draw(st.lists(st.integers(0, 9), min_size=1, max_size=max_tasks))
    tasks = len(state)
    inner = st.sets(st.integers(1, tasks - 1)) if tasks > 1 else st.just(set[int]())
    return state, [[0, *sorted(draw(inner)), tasks] for _ in range(count)]


def hungarian(state: list[int], old: Cut, new: Cut) -> int:
    """Return the most state that stays, by a general matching algorithm."""
    shared = np.array(
        [[sum(state[max(a, c) : min(b, d)]) for c, d in pairwise(new)] for a, b in pairwise(old)]
    )
    rows, columns = linear_sum_assignment(shared, maximize=True)
    return int(shared[rows, columns].sum())


def sums_at(state: list[int], cut: Cut) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([sum(state[:bound]) for bound in cut], dtype=np.int64)


@given(cuts(2))
def test_the_sweep_keeps_what_a_general_matching_keeps(case: tuple[list[int], list[Cut]]) -> None:
    state, (old, new) = case
    best = hungarian(state, old, new)
    bounds = (sums_at(state, old), sums_at(state, new))
    assert kept_state.plain(*bounds) == best
    assert kept_state.compiled(*bounds) == best
    assert cheapest_matching(state, old, new).cost == sum(state) - best


@given(cuts(2))
def test_a_matching_costs_what_it_says_and_uses_each_interval_once(
    case: tuple[list[int], list[Cut]],
) -> None:
    state, (old, new) = case
    matching = cheapest_matching(state, old, new)
    used = [i for i in matching.continues if i is not None]
    assert len(used) == len(set(used))
    stays = {
        task
        for j, i in enumerate(matching.continues)
        if i is not None
        for task in range(max(old[i], new[j]), min(old[i + 1], new[j + 1]))
    }
    assert matching.cost == sum(size for task, size in enumerate(state) if task not in stays)


@given(cuts(3))
def test_the_cost_is_a_metric(case: tuple[list[int], list[Cut]]) -> None:
    state, (first, second, third) = case

    def cost(old: Cut, new: Cut) -> float:
        return cheapest_matching(state, old, new).cost

    assert cost(first, first) == 0
    assert cost(first, second) == cost(second, first)
    assert cost(first, third) <= cost(first, second) + cost(second, third)
