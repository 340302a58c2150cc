from __future__ import annotations

from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastream_lab.benchmarks.elasticity.oracle import START_S, needed, oracle, stays
from elastream_lab.benchmarks.elasticity.run import ReplayedLoad, replayed_load
from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings

if TYPE_CHECKING:
    from collections.abc import Sequence


def least(needs: Sequence[int], start: int, fewest: int) -> int:
    """The least, of all ways in which executors can be there; times in triggers."""
    others = max(0, max(needs) - fewest)
    plans = list(product((False, True), repeat=len(needs)))
    ready = {
        plan: [all(plan[max(0, at - start) : at + 1]) for at in range(len(plan))] for plan in plans
    }
    costs = [
        sum(map(sum, chosen))
        for chosen in combinations_with_replacement(plans, others)
        if all(
            fewest + sum(ready[plan][at] for plan in chosen) >= need
            for at, need in enumerate(needs)
        )
    ]
    return min(costs) + fewest * len(needs)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.integers(0, 3),
    st.integers(1, 2),
)
def test_no_way_to_have_executors_costs_less(needs: list[int], start: int, fewest: int) -> None:
    there = stays(needs, 1.0, float(start), fewest)
    assert sum(went_s - came_s for came_s, went_s in there) == least(needs, start, fewest)


@given(
    st.lists(st.floats(0, 12), min_size=1, max_size=20),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.integers(1, 4),
)
def test_as_few_work_as_do_the_rows_of_a_trigger_within_the_next(
    work: list[float], trigger_s: float, most: int
) -> None:
    needs, done_s = needed(np.array(work), trigger_s, most)
    assert sum(needs) * trigger_s >= sum(work) - 1e-6
    waiting = 0.0
    for at, each in enumerate(work):
        waiting += each
        need = needs[at + 1]
        assert need <= most
        if need < most:
            assert need * trigger_s >= waiting - 1e-6
            assert done_s[at] <= (at + 2) * trigger_s + 1e-6
        assert (need - 1) * trigger_s < waiting or need == 0
        waiting = max(0.0, waiting - need * trigger_s)


def at_rates(*rates: int, seconds: int = 10) -> ReplayedLoad:
    """These many rows a second, one rate after another, evenly spread."""
    due = [
        1000 * (seconds * place + second) + 1000 * row / rate
        for place, rate in enumerate(rates)
        for second in range(seconds)
        for row in range(rate)
    ]
    return ReplayedLoad("rows", True, np.array(due, dtype=np.int64))


def test_an_executor_comes_in_time_and_goes_with_the_load() -> None:
    # A post costs 4 ms: 100 a second are 0.4 executors, 300 are 1.2; a batch is a trigger later.
    found = oracle(ElasticitySettings(), at_rates(100, 100, 300, 100, 100))
    assert found.executors == ((0.0, 1), (22.0 - START_S, 2), (32.0, 1))
    assert found.executor_seconds == pytest.approx(52 + 10 + START_S)
    assert (found.changes, found.took_s) == (2, 52.0)
    assert found.response is not None
    assert 1000 < found.response.median < found.response.worst <= 4000


def test_an_executor_stays_where_to_come_again_takes_longer() -> None:
    found = oracle(ElasticitySettings(), at_rates(300, 100, 300, seconds=6))
    assert found.executors == ((0.0, 2),)
    assert (found.changes, found.executor_seconds) == (0, 40.0)


def test_what_the_most_cannot_do_in_time_waits() -> None:
    found = oracle(ElasticitySettings(max_executors=2), at_rates(100, 1000, 100))
    assert max(number for _, number in found.executors) == 2
    assert found.response is not None
    assert found.response.worst > 4000


def test_the_made_day_costs_less_than_the_fewest_executors_that_bear_its_peak() -> None:
    settings = ElasticitySettings(seconds=100)
    found = oracle(settings, replayed_load(settings))
    assert found.took_s < found.executor_seconds < 3 * found.took_s
    assert set(found.as_json()) == {
        "executor_seconds",
        "response_ms",
        "changes",
        "start_s",
        "executors",
    }
