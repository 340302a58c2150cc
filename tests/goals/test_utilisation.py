from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.core.builders import batch, bounds, executors, load, observed

from elastream.core.application import GoalBounds, Observed, Query
from elastream.core.goal import Wanted, mean_utilisation
from elastream.core.load import QueryLoad
from elastream.core.policy import Policy
from elastream.core.usage import demand
from elastream.goals.forecast import MOST_MORE, Forecaster
from elastream.goals.utilisation import Utilisation, attainable_tau
from elastream.model.errors import ProblemError
from elastream.model.observation import Executor
from elastream.placement.even_spread import even_bounds
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    even_workload,
    rate_steps,
    simulated,
)

GOAL = Utilisation()


def wanted(seen: Observed, goal: Utilisation = GOAL) -> Wanted:
    memory, found, questions = goal.wanted(None, seen)
    assert (memory, questions) == (None, ())
    return found


def judged(seen: Observed, goal: Utilisation = GOAL) -> tuple[str, int]:
    found = wanted(seen, goal)
    return found.need, found.executors


def on(
    work: Sequence[float], where: str, alive: tuple[Executor, ...], within: GoalBounds | None = None
) -> Observed:
    return observed(load(work, where), alive, within=within)


def test_a_utilisation_within_the_band_holds() -> None:
    found = wanted(on([0.35] * 4, "aabb", executors("a", "b")))
    assert (found.need, found.executors) == ("hold", 2)
    assert found.utilisation == pytest.approx(0.7)
    assert found.reason == ("utilisation 0.70, busiest executor 0.70: within 0.60 to 0.80")
    assert found.figures == {
        "busiest": 0.7,
        "cores_needed": 1.4,
        "demand": 1.0,
        "outside": 0.0,
        "state_bytes": 4000,
        "needed": 2,
    }


def test_a_utilisation_above_the_target_but_within_the_band_holds() -> None:
    found = wanted(on([0.15] * 10, "aaaaabbbbb", executors("a", "b")))
    assert (found.need, found.executors) == ("hold", 2)
    assert found.figures["needed"] == 3


def test_a_utilisation_above_the_band_scales_out_to_the_target() -> None:
    found = wanted(on([0.25] * 8, "aaaabbbb", executors("a", "b")))
    assert (found.need, found.executors) == ("scale-out", 3)
    assert found.figures["wanted"] == 3
    assert not found.firm


def test_a_low_utilisation_scales_in_to_where_it_stays_below_the_band() -> None:
    assert judged(on([0.1] * 8, "aabbccdd", executors(*"abcd"))) == ("scale-in", 2)


def test_a_real_time_query_keeps_the_slots_that_its_batches_take_at_once() -> None:
    alive = executors(*"abc", task_cpus=0.25)
    seen = on([0.1] * 6, "aabbcc", alive)
    query = replace(seen.queries["query"], slots=8)
    seen = replace(seen, queries={"query": replace(query, load=replace(query.load, realtime=True))})
    assert judged(seen) == ("scale-in", 2)
    seen = replace(seen, queries={"query": replace(query, slots=9)})
    assert "low, and Real-time batches take 9 slots at once" in wanted(seen).reason


def test_rows_that_wait_for_a_real_time_query_are_asked_for() -> None:
    seen = load([0.1], "a", realtime=True, rows_per_s=100.0, backlog=2400)
    assert demand(Query("query", "run", load=seen), 120.0) == pytest.approx(1.2)


def waiting(latency_ms: float | None, *, realtime: bool = True, most: int = 8) -> Observed:
    seen = on([0.1] * 6, "aabbcc", executors(*"abc"), bounds(most=most))
    slow = replace(seen.queries["query"].load, latency_ms=latency_ms, realtime=realtime)
    return replace(seen, queries={"query": replace(seen.queries["query"], load=slow)})


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (waiting(101), ("scale-out", 4)),
        (waiting(101, most=3), ("hold", 3)),
        (waiting(100), ("scale-in", 1)),
        (waiting(None), ("scale-in", 1)),
        (waiting(101, realtime=False), ("scale-in", 1)),
    ],
)
def test_rows_that_wait_longer_than_they_may_call_for_one_more_executor(
    seen: Observed, found: tuple[str, int]
) -> None:
    assert judged(seen, Utilisation(latency_ms=100)) == found
    assert judged(seen) == ("scale-in", 1)


def test_the_reason_names_the_query_whose_rows_wait() -> None:
    found = wanted(waiting(340.4), Utilisation(latency_ms=100))
    assert found.reason.endswith(": rows of query wait 340 ms, above 100 ms")


def test_a_latency_is_positive() -> None:
    with pytest.raises(ProblemError) as refused:
        Utilisation(latency_ms=0)
    assert refused.value.field == "goal.latency_ms"


def test_a_query_without_work_scales_in_to_the_minimum() -> None:
    seen = on([0.0] * 4, "abcd", executors(*"abcd"), bounds(least=2))
    assert judged(seen) == ("scale-in", 2)


def test_never_more_executors_than_the_maximum() -> None:
    within = bounds(most=3)
    assert judged(on([0.5] * 8, "aaaabbbb", executors(*"ab"), within)) == ("scale-out", 3)
    held = wanted(on([0.5] * 8, "aaabbbcc", executors(*"abc"), within))
    assert (held.need, held.executors) == ("hold", 3)
    assert "the maximum is 3" in held.reason


@pytest.mark.parametrize(
    ("alive", "need", "number"), [("a", "scale-out", 2), ("abcd", "scale-in", 3), ("ab", "hold", 2)]
)
def test_bounds_are_kept_before_anything_is_measured(alive: str, need: str, number: int) -> None:
    seen = observed(QueryLoad(), executors(*alive), within=bounds(2, 3))
    assert judged(seen) == (need, number)


def test_nothing_is_decided_while_no_executor_is_alive_and_none_is_needed() -> None:
    assert judged(on([0.9], "a", (), bounds(least=0))) == ("hold", 0)


def test_the_fewest_executors_are_wanted_where_none_is_alive() -> None:
    assert judged(on([0.9], "a", (), bounds(least=2))) == ("scale-out", 2)


def test_an_overloaded_executor_among_idle_ones_calls_for_a_rebalance() -> None:
    seen = on([0.3, 0.3, 0.3, 0.3, 0.1], "aaabc", executors(*"abc"))
    assert judged(seen) == ("rebalance", 3)


def test_imbalance_that_hurts_no_one_is_left_alone() -> None:
    seen = on([0.2, 0.2], "aa", executors(*"ab"), bounds(least=2))
    assert judged(seen) == ("hold", 2)


def test_executors_that_cannot_help_one_heavy_task_are_not_asked_for() -> None:
    found = wanted(on([0.95, 0.1], "ab", executors(*"ab")))
    assert (found.need, found.executors) == ("hold", 2)
    assert "the heaviest task alone makes 0.95" in found.reason


def test_never_more_executors_than_tasks() -> None:
    assert judged(on([0.99] * 3, "abb", executors(*"ab"))) == ("scale-out", 3)


def test_a_number_of_executors_that_leaves_one_overloaded_is_passed_over() -> None:
    # Of six tasks of 0.5, four and five executors hold two somewhere, as three do.
    seen = on([0.5] * 6, "aabbcc", executors(*"abc"), bounds(most=6))
    assert judged(seen) == ("scale-out", 6)


def test_cores_count() -> None:
    found = wanted(on([0.5] * 4, "aabb", executors(*"ab", cores=2)))
    assert found.utilisation == pytest.approx(0.5)


def test_rows_that_are_not_worked_off_count_as_work() -> None:
    busy = load(
        [0.23] * 6, "aaabbb", rows_per_s=100.0, arrivals_per_s=150.0, backlog=0, interval_ms=1000.0
    )
    found = wanted(observed(busy, executors("a", "b")))
    assert (found.need, found.executors) == ("scale-out", 3)
    assert found.figures["demand"] == 1.5
    assert "1.50 times what is worked off" in found.reason


def test_a_backlog_is_to_be_worked_off_within_the_catch_up_time() -> None:
    late = load(
        [0.35] * 4,
        "aabb",
        rows_per_s=100.0,
        arrivals_per_s=100.0,
        backlog=6100,
        interval_ms=1000.0,
    )
    assert demand(Query("late", "run", load=late), 60) == 2


@pytest.mark.parametrize("unknown", ["rows_per_s", "arrivals_per_s", "backlog"])
def test_demand_is_what_is_done_while_rates_or_backlog_are_not_known(unknown: str) -> None:
    known = load([0.5], "a", rows_per_s=10.0, arrivals_per_s=90.0, backlog=900, interval_ms=1.0)
    assert demand(Query("known", "run", load=known), 60) > 1
    less = replace(known, **{unknown: None})  # type: ignore[arg-type]
    assert demand(Query("less", "run", load=less), 60) == 1


LIMITED = load(
    [0.2] * 4,
    "aabb",
    rows_per_s=80.0,
    arrivals_per_s=100.0,
    backlog=60_000,
    interval_ms=1000.0,
    limit_rows=200,
)


@pytest.mark.parametrize(
    ("trigger_ms", "grown", "asked"),
    [
        (2000, 1.0, 1.25),
        (2000, 3.0, 1.25),
        (2000, 0.05, 0.05 * 13.75),
        (4000, 1.0, 1.0),
        (100, 1.0, 13.75),
        (None, 1.0, 13.75),
    ],
)
def test_no_more_is_asked_for_than_the_source_gives_a_trigger(
    trigger_ms: float | None, grown: float, asked: float
) -> None:
    query = Query("limited", "run", trigger_ms=trigger_ms, load=LIMITED)
    waiting = replace(LIMITED, backlog=60_100)
    assert demand(replace(query, load=waiting), 60, grown) == pytest.approx(asked)


def test_executors_are_not_asked_for_where_the_source_gives_no_more_rows() -> None:
    free = observed(LIMITED, executors(*"ab"))
    (query,) = free.queries.values()
    bound = replace(free, queries={query.name: replace(query, trigger_ms=2000)})
    assert wanted(free).need == "scale-out"
    held = wanted(bound)
    assert held.need == "hold"
    assert held.figures["demand"] == pytest.approx(1.25)
    assert "query gets at most 200 rows a trigger, fewer than are asked for" in held.reason
    assert "gets at most" not in wanted(free).reason


@pytest.mark.parametrize(("most_rows", "changes"), [(400, []), (4000, ["scale-out"])])
def test_a_backlog_that_the_source_holds_back_moves_nothing(
    most_rows: int, changes: list[str]
) -> None:
    workload = even_workload(8, 1000, most_rows=most_rows)
    cluster = SimulatedCluster(workload, ClusterSettings(executors=1))
    with simulated(cluster, Policy(max_executors=6)) as loop:
        cluster.advance(120)
    assert loop.changes[:1] == changes, loop.story
    reports = "query gets at most 400 rows a trigger" in loop.of("hold")[-1].reason
    assert reports == (most_rows == 400)


def test_executors_are_not_asked_for_what_the_heaviest_tasks_cannot_do() -> None:
    """Four times the rows arrive that are worked off, and one task keeps a slot busy."""
    late = load(
        [0.9, 0.1, 0.1, 0.1],
        "abbb",
        rows_per_s=100.0,
        arrivals_per_s=400.0,
        backlog=50_000,
        interval_ms=1000.0,
    )
    found = wanted(observed(late, executors(*"ab")))
    assert found.need == "hold"
    assert found.figures["demand"] == pytest.approx(1 / 0.9, abs=1e-4)
    assert "the heaviest tasks of query allow 1.11 times its rows" in found.reason


@pytest.mark.parametrize(("cores", "busiest"), [(1, 1.2), (2, 0.9), (4, 0.9)])
def test_a_query_is_as_busy_as_its_heaviest_task_whatever_the_slots(
    cores: int, busiest: float
) -> None:
    found = wanted(observed(load([0.9, 0.1, 0.1, 0.1], "aaaa"), executors("a", cores=cores)))
    assert found.figures["busiest"] == pytest.approx(busiest)
    assert found.need == ("scale-out" if cores == 1 else "hold")
    if cores > 1:
        assert "the heaviest tasks of the stages alone make 0.90" in found.reason


def test_a_stream_that_its_heaviest_task_holds_back_is_scaled_once_at_most() -> None:
    shares = (0.6, *[0.04] * 10)
    tasks = tuple(SimulatedTask(0, j, share, 1.0, 1000) for j, share in enumerate(shares))
    workload = Workload(tasks, rate_steps({0: 2000}), most_rows=4000)
    cluster = SimulatedCluster(workload, ClusterSettings(executors=2))
    with simulated(cluster, Policy(max_executors=32, cooldown_s=10)) as loop:
        cluster.advance(400)
    assert len(loop.changes) <= 1, loop.story
    assert len(cluster.executors()) <= 3


def test_each_query_has_a_demand_of_its_own() -> None:
    calm = load([0.2] * 2, "ab", query="calm", rows_per_s=10.0, arrivals_per_s=10.0, backlog=0)
    late = load([0.2] * 2, "ab", query="late", rows_per_s=10.0, arrivals_per_s=20.0, backlog=0)
    found = wanted(observed({"calm": calm, "late": late}, executors(*"ab")))
    assert found.figures["cores_needed"] == pytest.approx(0.4 + 2 * 0.4)
    assert found.figures["demand"] == pytest.approx(1.2 / 0.8)
    assert found.utilisation == pytest.approx(0.6)


def test_the_loads_of_two_queries_add_up() -> None:
    one, other = load([0.25] * 4, "aabb", query="q"), load([0.25] * 4, "aabb", query="r")
    alone = wanted(observed(one, executors(*"ab")))
    both = wanted(observed({"q": one, "r": other}, executors(*"ab")))
    assert alone.utilisation == pytest.approx(0.5)
    assert both.utilisation == pytest.approx(1.0)
    assert (alone.need, both.need, both.executors) == ("hold", "scale-out", 3)


def test_an_executor_is_as_busy_as_all_queries_together_make_it() -> None:
    one, other = load([0.5, 0.1], "ab", query="q"), load([0.45, 0.1], "ab", query="r")
    found = wanted(observed({"q": one, "r": other}, executors(*"ab")))
    assert found.figures["busiest"] == pytest.approx(0.95)


def test_work_without_state_counts_in_the_mean_and_on_its_executor() -> None:
    reading = load([0.2, 0.2], "ab", outside={"a": 0.7, "b": 0.3})
    found = wanted(observed(reading, executors(*"ab")))
    assert found.utilisation == pytest.approx(0.7)
    assert found.figures["busiest"] == pytest.approx(0.9)
    assert found.figures["outside"] == pytest.approx(1.0)


def test_work_without_state_calls_for_executors_as_work_with_state_does() -> None:
    reading = load([0.1] * 4, "aabb", outside={"a": 0.8, "b": 0.8})
    assert judged(observed(reading, executors(*"ab"))) == ("scale-out", 3)


def test_work_of_no_one_who_takes_part_counts_too() -> None:
    seen = observed(load([0.1] * 4, "aabb"), executors(*"ab"), other={"a": 0.8, "b": 0.8})
    assert judged(seen) == ("scale-out", 3)
    assert wanted(seen).utilisation == pytest.approx(1.0)


def test_work_on_executors_that_are_gone_still_has_to_be_done_by_those_left() -> None:
    found = wanted(on([0.4] * 4, "aabb", executors("a")))
    assert found.utilisation == pytest.approx(1.6)
    assert found.figures["busiest"] == pytest.approx(0.8)
    assert (found.need, found.executors) == ("scale-out", 3)


def with_trigger(known: QueryLoad, trigger_ms: float | None, alive: str) -> Observed:
    seen = observed(known, executors(*alive))
    queries = {n: replace(q, trigger_ms=trigger_ms) for n, q in seen.queries.items()}
    return replace(seen, queries=queries)


def test_a_trigger_to_keep_makes_time_outside_the_tasks_count() -> None:
    seen = with_trigger(load([0.17] * 6, "aaabbb", overhead_ms=500.0), 1000.0, "ab")
    assert judged(seen) == ("hold", 2)
    assert judged(seen, Utilisation(keep_triggers=True)) == ("scale-out", 3)


def test_without_a_trigger_there_is_none_to_keep() -> None:
    seen = with_trigger(load([0.17] * 6, "aaabbb", overhead_ms=500.0), None, "ab")
    assert judged(seen, Utilisation(keep_triggers=True)) == ("hold", 2)


def test_a_trigger_that_no_executor_can_keep_does_not_ask_for_the_moon() -> None:
    seen = with_trigger(load([0.1] * 20, "aaaaabbbbb" * 2, overhead_ms=5000.0), 1000.0, "ab")
    found = wanted(seen, Utilisation(keep_triggers=True))
    assert found.utilisation == pytest.approx(5.0)


def idle(seen: Observed, seconds: float) -> Observed:
    queries = {
        name: replace(query, idle_since_ms=1000 - round(1000 * seconds))
        for name, query in seen.queries.items()
    }
    return replace(seen, queries=queries)


def test_an_idle_application_gives_the_last_executor_back_where_none_is_needed() -> None:
    seen = on([0.0] * 2, "ab", executors(*"ab"), bounds(least=0, idle_s=30.0))
    found = wanted(idle(seen, 30))
    assert (found.need, found.executors, found.firm) == ("scale-in", 0, True)
    assert found.figures["wanted"] == 0
    assert found.reason == "nothing has run for 30 s, and the state is in the checkpoint"


def test_an_idle_application_keeps_one_executor_where_one_is_the_fewest() -> None:
    seen = on([0.0] * 2, "ab", executors(*"ab"), bounds(least=1, idle_s=30.0))
    assert judged(idle(seen, 3600)) == ("scale-in", 1)


def test_an_application_that_has_not_been_idle_for_long_keeps_one_executor() -> None:
    seen = on([0.0] * 2, "ab", executors(*"ab"), bounds(least=0, idle_s=30.0))
    assert judged(idle(seen, 29)) == ("scale-in", 1)
    assert judged(seen) == ("scale-in", 1)


def test_an_application_with_a_job_of_somebody_is_not_idle() -> None:
    seen = idle(on([0.0], "a", executors("a"), bounds(least=0, idle_s=30.0)), 60)
    assert judged(seen) == ("scale-in", 0)
    assert judged(replace(seen, jobs=1)) == ("hold", 1)


def test_idle_time_counts_from_the_last_that_ran_of_anybody() -> None:
    seen = idle(on([0.0], "a", executors("a"), bounds(least=0, idle_s=30.0)), 60)
    assert judged(replace(seen, busy_ms=1000 - 29_000)) == ("hold", 1)
    assert judged(replace(seen, busy_ms=1000 - 30_000)) == ("scale-in", 0)


def test_the_mean_of_a_goal_without_targets_is_work_over_cores() -> None:
    reading = load([0.2, 0.2], "ab", outside={"a": 0.7, "b": 0.3})
    seen = observed(reading, executors(*"ab", cores=2))
    assert mean_utilisation(seen) == pytest.approx(0.35)
    assert mean_utilisation(observed(QueryLoad(), executors("a"))) is None
    assert mean_utilisation(observed(reading, ())) is None


@pytest.mark.parametrize(
    ("nodes", "contiguous", "tau"),
    [(3, False, 0.2), (4, False, 1 / 3), (4, True, 1 / 3), (6, False, 0.2), (0, False, 0.2)],
)
def test_tau_is_widened_only_where_it_must_be(nodes: int, contiguous: bool, tau: float) -> None:
    assert attainable_tau((1.0,) * 6, nodes, 0.2, contiguous=contiguous) == pytest.approx(tau)


def test_consecutive_tasks_may_need_a_wider_tau_than_free_ones() -> None:
    work = (3.0, 3.0, 1.0, 1.0, 1.0, 3.0)
    assert attainable_tau(work, 3, 0.2, contiguous=False) == 0.2
    assert attainable_tau(work, 3, 0.2, contiguous=True) == pytest.approx(5 * 3 / 12 - 1)


def test_without_work_any_tau_can_be_met() -> None:
    assert attainable_tau((0.0,) * 3, 2, 0.1, contiguous=True) == 0.1


def spread(work: list[float], number: int, within: GoalBounds) -> Observed:
    """The load as a good plan would leave it on this many executors."""
    ids = [f"e{i}" for i in range(number)]
    where = [""] * len(work)
    if within.contiguous:
        for i, (lb, ub) in enumerate(pairwise(even_bounds(work, number))):
            where[lb:ub] = [ids[i]] * (ub - lb)
    else:
        loads = dict.fromkeys(ids, 0.0)
        for j in sorted(range(len(work)), key=lambda j: -work[j]):
            where[j] = min(ids, key=lambda node: loads[node])
            loads[where[j]] += work[j]
    return observed(load(work, where), executors(*ids), within=within)


goals = st.builds(Utilisation, target=st.floats(0.4, 0.8), hysteresis=st.floats(0.02, 0.19))
boundaries = st.builds(
    GoalBounds,
    least=st.integers(0, 3),
    most=st.integers(3, 10),
    tau=st.sampled_from([0.0, 0.1, 0.2, 0.5]),
    contiguous=st.booleans(),
)
works = st.lists(st.floats(0, 1), min_size=1, max_size=20)


@given(works, st.integers(1, 12), goals, boundaries)
@settings(max_examples=300)
def test_a_constant_load_settles_after_one_change(
    work: list[float], number: int, goal: Utilisation, within: GoalBounds
) -> None:
    found = wanted(spread(work, number, within), goal)
    assume(found.need != "hold")
    if not within.least <= number <= within.most:
        found = wanted(spread(work, found.executors, within), goal)
    assert judged(spread(work, found.executors, within), goal) == ("hold", found.executors)


@given(works, goals, boundaries, st.floats(-0.99, 0.99))
@settings(max_examples=300)
def test_going_back_takes_a_change_of_load_as_wide_as_the_band(
    work: list[float], goal: Utilisation, within: GoalBounds, noise: float
) -> None:
    first = wanted(spread(work, 3, within), goal)
    assume(first.need in ("scale-out", "scale-in"))
    factor = 1 + noise * goal.hysteresis / goal.target
    then = wanted(spread([w * factor for w in work], first.executors, within), goal)
    assert {first.need, then.need} != {"scale-out", "scale-in"}


def test_state_is_not_moved_to_save_one_executor_in_many() -> None:
    ids = [f"e{i}" for i in range(40)]
    many = bounds(most=100)
    nearly = observed(load([0.58] * 40, ids), executors(*ids), within=many)
    assert judged(nearly) == ("hold", 40)
    clearly = observed(load([0.2] * 80, ids * 2), executors(*ids), within=many)
    assert judged(clearly) == ("scale-in", 27)


# Ahead of the load

AHEAD = Utilisation(look_ahead_s=400.0)
SLOT_MS = 100_000


@pytest.mark.parametrize(
    ("work", "where", "near"),
    [
        ([0.34] * 4, "aabb", False),
        ([0.36] * 4, "aabb", True),
        ([0.25] * 4, "aaab", True),
        ([0.0] * 4, "aabb", False),
    ],
    ids=["below the target", "above it", "the busiest is", "no work"],
)
def test_a_scale_out_is_near_above_the_target(work: list[float], where: str, near: bool) -> None:
    assert GOAL.near_scale_out(None, on(work, where, executors("a", "b"))) is near


def test_a_scale_out_may_be_near_where_nothing_was_measured() -> None:
    assert GOAL.near_scale_out(None, observed(QueryLoad(), executors("a", "b")))


def rising(factor: float, last: float, slots: int = 60) -> Forecaster:
    """A past whose load has risen in each slot by a factor up to now, the moment of 1000 ms."""
    known = AHEAD.recalled((SLOT_MS * slot, last * factor**slot) for slot in range(-slots, 1))
    assert known is not None
    return known


def ahead(
    seen: Observed, memory: Forecaster | None, goal: Utilisation = AHEAD
) -> tuple[str, int, str]:
    _, found, _ = goal.wanted(memory, seen)
    return found.need, found.executors, found.reason


def test_executors_are_asked_for_before_the_load_is_there() -> None:
    seen = on([0.19] * 8, "aaaabbbb", executors("a", "b"))
    assert judged(seen) == ("hold", 2)
    assert ahead(seen, rising(1.02, 1.52))[:2] == ("hold", 2)
    _, found, _ = AHEAD.wanted(rising(1.1, 1.52), seen)
    assert (found.need, found.executors) == ("scale-out", 3)
    assert found.reason.startswith("utilisation 0.76, busiest executor 0.76: too little soon; 3 ")
    assert "expected within 400 s by " in found.reason
    assert found.figures["look_ahead_s"] == 400
    assert found.figures["expected"] > found.figures["cores_needed"]
    assert 0 < found.figures["expected_error"] < 0.3


def test_a_scale_out_is_near_where_the_load_is_expected_to_grow() -> None:
    seen = on([0.17] * 8, "aaaabbbb", executors("a", "b"))
    assert not GOAL.near_scale_out(None, seen)
    assert AHEAD.near_scale_out(rising(1.1, 1.36), seen)


def test_executors_are_kept_for_a_load_that_is_expected_back() -> None:
    seen = on([0.1375] * 8, "aabbccdd", executors(*"abcd"))
    assert judged(seen) == ("scale-in", 2)
    need, number, reason = ahead(seen, rising(1.15, 1.1))
    assert (need, number) == ("scale-in", 3)
    assert "expected within 400 s" in reason


def test_a_load_that_falls_is_not_foreseen() -> None:
    seen = on([0.25] * 8, "aaaabbbb", executors("a", "b"))
    falling = rising(0.9, 2.0)
    assert ahead(seen, falling)[:2] == judged(seen)
    assert "expected" not in ahead(seen, falling)[2]


def test_what_is_done_without_a_forecast_is_what_was_always_done() -> None:
    assert Utilisation().memory() is None
    assert Utilisation().recalled([(0, 1.0)]) is None
    assert Utilisation().name == "utilisation 0.7"
    assert AHEAD.name == "utilisation 0.7, 400 s ahead"
    figures = wanted(on([0.1], "a", executors("a"))).figures
    assert {"expected", "expected_error", "look_ahead_s"}.isdisjoint(figures)


def test_every_batch_is_remembered_and_idle_time_too() -> None:
    busy = observed(load([0.5, 0.5], "ab"), executors("a", "b"))
    memory = AHEAD.after_batch(AHEAD.memory(), busy, batch(0, "ab"), disturbed=True)
    assert memory is not None
    assert memory.slot is not None
    assert memory.slot.load == 1.0
    resting = idle(observed(load([0.0, 0.0], "ab"), executors("a", "b")), 5)
    later, _, _ = AHEAD.wanted(memory, resting)
    assert later == memory.with_load(1000, 0.0)
    assert AHEAD.wanted(memory, busy)[0] == memory


def test_rows_that_wait_already_are_no_load_to_come() -> None:
    late = load([0.5], "a", rows_per_s=10.0, arrivals_per_s=20.0, backlog=9000, interval_ms=1000.0)
    memory = AHEAD.after_batch(
        AHEAD.memory(), observed(late, executors("a")), batch(0, "a"), disturbed=False
    )
    assert memory is not None
    assert memory.slot is not None
    assert memory.slot.load == 1.0


def test_the_past_is_recalled() -> None:
    past = [(60_000 * minute, 1.0 + minute) for minute in range(30)]
    known = AHEAD.recalled(past)
    assert known is not None
    assert known.last == pytest.approx(27.5, abs=2)


@pytest.mark.parametrize("look_ahead_s", [-1.0, 3601.0, float("nan"), "soon"])
def test_a_look_ahead_is_within_an_hour(look_ahead_s: float) -> None:
    with pytest.raises(ProblemError, match=r"goal\.look_ahead_s"):
        Utilisation(look_ahead_s=look_ahead_s)


def test_the_days_of_a_forecast_are_those_of_the_zone() -> None:
    memory = Utilisation(look_ahead_s=400.0, zone="Asia/Tokyo").memory()
    assert memory is not None
    assert memory.zone == "Asia/Tokyo"
    with pytest.raises(ProblemError, match=r"goal\.zone: 'Asia/Nowhere' is not a time zone of"):
        Utilisation(zone="Asia/Nowhere")


pasts = st.builds(rising, st.floats(0.9, 1.3), st.floats(0.1, 10), st.integers(1, 60))


@given(works, st.integers(1, 12), boundaries, pasts)
@settings(max_examples=200, deadline=None)
def test_what_is_wanted_lies_between_what_now_and_the_bound_call_for(
    work: list[float], number: int, within: GoalBounds, past: Forecaster
) -> None:
    seen = spread(work, number, within)
    now = wanted(seen)
    _, found, _ = AHEAD.wanted(past, seen)
    expected = AHEAD.expected(past, seen)
    assert expected is not None
    total = sum(work)
    assert total <= expected.load <= (1 + MOST_MORE) * total
    grown = [w * expected.load / total if total else w for w in work]
    then = wanted(spread(grown, number, within))
    sizes = (now.figures.get("needed", 0), then.figures.get("needed", 0))
    needed = found.figures.get("needed", 0)
    assert min(sizes) - 1 <= needed <= max(sizes) + 1
    if max(grown, default=0) <= 1:  # no task does more than a slot can
        assert needed == pytest.approx(max(sizes), abs=1)
    assert found.executors >= now.executors or found.need == now.need == "scale-in"
    assert found.executors <= max(now.executors, then.executors, number, *sizes)
