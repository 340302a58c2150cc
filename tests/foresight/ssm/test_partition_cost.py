from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from elastream.foresight.ssm.partition_cost import Matching, cheapest_matching, kept_state

Cut = list[int]


@st.composite
def states_and_cuts(
    draw: st.DrawFn, cuts: int = 2, max_tasks: int = 12
) -> tuple[list[int], list[Cut]]:
    tasks = draw(st.integers(1, max_tasks))
    state = draw(st.lists(st.integers(0, 5), min_size=tasks, max_size=tasks))
    inner = st.sets(st.sampled_from(range(1, tasks))) if tasks > 1 else st.just(set[int]())
    return state, [[0, *sorted(draw(inner)), tasks] for _ in range(cuts)]


def by_hungarian(weights: list[int], old: Cut, new: Cut) -> int:
    """The greatest weight that can stay, by a general matching algorithm."""
    shared = [
        [sum(weights[max(a, c) : max(a, c, min(b, d))]) for c, d in pairwise(new)]
        for a, b in pairwise(old)
    ]
    table = np.array(shared)
    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def moved(state: list[int], old: Cut, new: Cut) -> int:
    sums = np.concatenate([[0], np.cumsum(state)])
    return int(sums[-1]) - int(kept_state(sums[old], sums[new]))


@settings(max_examples=min(700, settings().max_examples))
@given(states_and_cuts())
def test_the_state_kept_is_what_the_hungarian_algorithm_keeps(
    given: tuple[list[int], list[Cut]],
) -> None:
    state, (old, new) = given
    assert moved(state, old, new) == sum(state) - by_hungarian(state, old, new)


@given(states_and_cuts())
@settings(max_examples=1000)
def test_the_matching_is_one_to_one_and_moves_the_least_state_then_the_fewest_tasks(
    given: tuple[list[int], list[Cut]],
) -> None:
    state, (old, new) = given
    matching = cheapest_matching(state, old, new)
    used = [i for i in matching.continues if i is not None]
    assert len(set(used)) == len(used)
    stay = {
        task
        for j, i in enumerate(matching.continues)
        if i is not None
        for task in range(max(old[i], new[j]), min(old[i + 1], new[j + 1]))
    }
    assert matching.cost == sum(size for task, size in enumerate(state) if task not in stay)
    weights = [size * (len(state) + 1) + 1 for size in state]
    assert sum(weights[task] for task in stay) == by_hungarian(weights, old, new)


@given(states_and_cuts(cuts=3))
@settings(max_examples=500)
def test_the_cost_is_a_metric(given: tuple[list[int], list[Cut]]) -> None:
    state, (first, second, third) = given
    assert moved(state, first, first) == 0
    assert moved(state, first, second) == moved(state, second, first)
    assert moved(state, first, third) <= moved(state, first, second) + moved(state, second, third)


@given(states_and_cuts(max_tasks=40))
@settings(max_examples=200)
def test_the_plain_and_the_compiled_kernel_do_the_same(
    given: tuple[list[int], list[Cut]],
) -> None:
    state, (old, new) = given
    sums = np.concatenate([[0], np.cumsum(state)])
    assert kept_state.plain(sums[old], sums[new]) == kept_state.compiled(sums[old], sums[new])


def test_an_interval_continues_the_one_with_which_it_shares_the_most() -> None:
    matching = cheapest_matching([5, 1, 1, 7], [0, 2, 4], [0, 1, 4])
    assert matching == Matching(1, (0, 1))


def test_an_interval_that_shares_nothing_worthwhile_continues_none() -> None:
    matching = cheapest_matching([4, 3, 2], [0, 3], [0, 1, 2, 3])
    assert matching == Matching(5, (0, None, None))


def test_equal_cuts_continue_interval_by_interval_even_without_state() -> None:
    assert cheapest_matching([0, 0, 0], [0, 1, 3], [0, 1, 3]) == Matching(0, (0, 1))


def test_sizes_of_any_magnitude_are_compared_exactly() -> None:
    huge = 10**30
    assert cheapest_matching([huge, huge + 1], [0, 2], [0, 1, 2]) == Matching(huge, (None, 0))
    assert cheapest_matching([0.1, 0.3, 0.1], [0, 3], [0, 1, 2, 3]).cost == 0.2
