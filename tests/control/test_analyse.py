from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.control.builders import executors, load

from elastream.control.analyse import Assessment, analyse, attainable_tau
from elastream.control.balance import even_bounds
from elastream.control.observation import Executor
from elastream.control.policy import Planner, Policy
from elastream.control.smoothing import SmoothedLoad

POLICY = Policy(max_executors=8)


def judged(found: Assessment) -> tuple[str, int]:
    return found.need, found.executors


def test_a_utilisation_within_the_band_holds() -> None:
    found = analyse(load([0.35] * 4, "aabb"), executors("a", "b"), POLICY)
    assert judged(found) == ("hold", 2)
    assert found.utilisation == pytest.approx(0.7)


def test_a_utilisation_above_the_target_but_within_the_band_holds() -> None:
    found = analyse(load([0.15] * 10, "aaaaabbbbb"), executors("a", "b"), POLICY)
    assert judged(found) == ("hold", 2)
    assert found.figures["needed"] == 3


def test_a_utilisation_above_the_band_scales_out_to_the_target() -> None:
    found = analyse(load([0.25] * 8, "aaaabbbb"), executors("a", "b"), POLICY)
    assert judged(found) == ("scale-out", 3)
    assert found.figures["wanted"] == 3


def test_a_low_utilisation_scales_in_to_where_it_stays_below_the_band() -> None:
    found = analyse(load([0.1] * 8, "aabbccdd"), executors(*"abcd"), POLICY)
    assert judged(found) == ("scale-in", 2)


def test_an_idle_query_scales_in_to_the_minimum() -> None:
    policy = Policy(min_executors=2, max_executors=8)
    found = analyse(load([0.0] * 4, "abcd"), executors(*"abcd"), policy)
    assert judged(found) == ("scale-in", 2)


def test_never_more_executors_than_the_maximum() -> None:
    policy = Policy(max_executors=3)
    found = analyse(load([0.5] * 8, "aaaabbbb"), executors("a", "b"), policy)
    assert judged(found) == ("scale-out", 3)
    held = analyse(load([0.5] * 8, "aaabbbcc"), executors(*"abc"), policy)
    assert judged(held) == ("hold", 3)
    assert "maximum" in held.reason


def test_bounds_are_kept_before_anything_is_measured() -> None:
    policy = Policy(min_executors=2, max_executors=3)
    assert judged(analyse(SmoothedLoad(), executors("a"), policy)) == ("scale-out", 2)
    assert judged(analyse(SmoothedLoad(), executors(*"abcd"), policy)) == ("scale-in", 3)
    assert judged(analyse(SmoothedLoad(), executors(*"ab"), policy)) == ("hold", 2)


def test_nothing_is_decided_while_no_executor_is_alive() -> None:
    assert judged(analyse(load([0.9], "a"), (), POLICY)) == ("hold", 0)


def test_an_overloaded_executor_among_idle_ones_calls_for_a_rebalance() -> None:
    found = analyse(load([0.3, 0.3, 0.3, 0.3, 0.1], "aaabc"), executors(*"abc"), POLICY)
    assert judged(found) == ("rebalance", 3)


def test_imbalance_that_hurts_nobody_is_left_alone() -> None:
    policy = Policy(min_executors=2, max_executors=8)
    assert judged(analyse(load([0.2, 0.2], "aa"), executors(*"ab"), policy)) == ("hold", 2)


def test_executors_that_cannot_help_one_heavy_task_are_not_asked_for() -> None:
    found = analyse(load([0.95, 0.1], "ab"), executors(*"ab"), POLICY)
    assert judged(found) == ("hold", 2)
    assert "heaviest task" in found.reason


def test_never_more_executors_than_tasks() -> None:
    found = analyse(load([0.99, 0.99, 0.99], "abb"), executors(*"ab"), POLICY)
    assert judged(found) == ("scale-out", 3)


def test_a_number_of_executors_that_leaves_one_overloaded_is_passed_over() -> None:
    # Of six tasks of 0.5, four and five executors hold two somewhere, as three do.
    found = analyse(load([0.5] * 6, "aabbcc"), executors(*"abc"), Policy(max_executors=6))
    assert judged(found) == ("scale-out", 6)


def test_cores_count() -> None:
    found = analyse(load([0.5] * 4, "aabb"), executors(*"ab", cores=2), POLICY)
    assert found.utilisation == pytest.approx(0.5)


def test_rows_that_are_not_worked_off_count_as_work() -> None:
    busy = load(
        [0.23] * 6, "aaabbb", rows_per_s=100.0, arrivals_per_s=150.0, backlog=0, interval_ms=1000.0
    )
    found = analyse(busy, executors("a", "b"), POLICY)
    assert judged(found) == ("scale-out", 3)
    assert found.figures["demand"] == 1.5


def test_a_backlog_is_to_be_worked_off_within_the_catch_up_time() -> None:
    late = load(
        [0.35] * 4,
        "aabb",
        rows_per_s=100.0,
        arrivals_per_s=100.0,
        backlog=6100,
        interval_ms=1000.0,
    )
    policy = Policy(max_executors=8, catch_up_s=60)
    assert analyse(late, executors("a", "b"), policy).figures["demand"] == 2


def test_a_trigger_to_keep_makes_time_outside_the_tasks_count() -> None:
    known = load([0.17] * 6, "aaabbb", outside_ms=500.0)
    assert judged(analyse(known, executors("a", "b"), POLICY)) == ("hold", 2)
    policy = Policy(max_executors=8, trigger_s=1.0)
    assert judged(analyse(known, executors("a", "b"), policy)) == ("scale-out", 3)


def test_tau_is_widened_only_where_it_must_be() -> None:
    work = (1.0,) * 6
    assert attainable_tau(work, 3, Policy(max_executors=8, tau=0.2)) == 0.2
    assert attainable_tau(work, 4, Policy(max_executors=8, tau=0.2)) == pytest.approx(1 / 3)


def spread(work: list[float], number: int, planner: Planner) -> tuple[SmoothedLoad, list[Executor]]:
    """Return the load as a good plan would leave it on so many executors."""
    ids = [f"e{i}" for i in range(number)]
    where = [""] * len(work)
    if planner == "single-step":
        bounds = even_bounds(work, number)
        for i, (lb, ub) in enumerate(pairwise(bounds)):
            where[lb:ub] = [ids[i]] * (ub - lb)
    else:
        loads = dict.fromkeys(ids, 0.0)
        for j in sorted(range(len(work)), key=lambda j: -work[j]):
            where[j] = min(ids, key=lambda node: loads[node])
            loads[where[j]] += work[j]
    return load(work, where), list(executors(*ids))


policies = st.builds(
    Policy,
    min_executors=st.integers(1, 3),
    max_executors=st.integers(3, 10),
    target_utilisation=st.floats(0.4, 0.8),
    hysteresis=st.floats(0.02, 0.19),
    tau=st.sampled_from([0.0, 0.1, 0.2, 0.5]),
    planner=st.sampled_from(["single-step", "free-step"]),
)
works = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(works, st.integers(1, 12), policies)
@settings(max_examples=300)
def test_a_constant_load_settles_after_one_change(
    work: list[float], number: int, policy: Policy
) -> None:
    observed, nodes = spread(work, number, policy.planner)
    found = analyse(observed, tuple(nodes), policy)
    assume(found.need != "hold")
    if not policy.min_executors <= number <= policy.max_executors:
        observed, nodes = spread(work, found.executors, policy.planner)
        found = analyse(observed, tuple(nodes), policy)
    observed, nodes = spread(work, found.executors, policy.planner)
    assert judged(analyse(observed, tuple(nodes), policy)) == ("hold", found.executors)


@given(works, st.integers(3, 3), policies, st.floats(-0.99, 0.99))
@settings(max_examples=300)
def test_going_back_takes_a_change_of_load_as_wide_as_the_band(
    work: list[float], number: int, policy: Policy, noise: float
) -> None:
    observed, nodes = spread(work, number, policy.planner)
    first = analyse(observed, tuple(nodes), policy)
    assume(first.need in ("scale-out", "scale-in"))
    factor = 1 + noise * policy.hysteresis / policy.target_utilisation
    observed, nodes = spread([w * factor for w in work], first.executors, policy.planner)
    then = analyse(observed, tuple(nodes), policy)
    assert {first.need, then.need} != {"scale-out", "scale-in"}


def test_state_is_not_moved_to_save_one_executor_in_many() -> None:
    ids = [f"e{i}" for i in range(40)]
    policy = Policy(max_executors=100)
    nearly = analyse(load([0.58] * 40, ids), executors(*ids), policy)
    assert judged(nearly) == ("hold", 40)
    clearly = analyse(load([0.2] * 80, ids * 2), executors(*ids), policy)
    assert judged(clearly) == ("scale-in", 27)
