from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.builders import bounds, executors, load, observed

from elastream.core.application import Observed
from elastream.core.decisions import Decision
from elastream.core.goal import Wanted
from elastream.core.policy import Movement, Policy
from elastream.foresight.ahead.by_schedule import ScheduledPlanner
from elastream.goals.schedule import Schedule
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.even_spread import attainable_tau
from elastream.placement.free_step.planner import free_step
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)
GOAL = Schedule([(1000, 2), (2000, 4), (3000, 1)])


def at(second: float, alive: str = "ab", **more: Any) -> Observed:
    seen = observed(load([0.4, 0.4], "ab"), executors(*alive), **more)
    return replace(seen, now_ms=round(1000 * second))


def wanted(seen: Observed, goal: Schedule = GOAL) -> Wanted:
    memory, found, questions = goal.wanted(None, seen)
    assert (memory, questions) == (None, ())
    return found


def sizes_at(goal: Schedule, *seconds: float) -> list[int]:
    return [wanted(at(second, "abc"), goal).executors for second in seconds]


def test_before_its_first_time_a_schedule_keeps_what_is_there() -> None:
    assert wanted(at(900)) == Wanted("hold", 2, "2 executors, the schedule has not begun", 0.4)


def test_a_size_is_wanted_from_its_time_on() -> None:
    assert wanted(at(2000)) == Wanted(
        "scale-out",
        4,
        "the schedule asks for 4 executors, then 1",
        0.4,
        {"wanted": 4},
        firm=True,
    )
    assert wanted(at(99_000)).executors == 1, "the last for ever"


def test_the_size_that_is_there_is_held() -> None:
    assert wanted(at(1500)) == Wanted("hold", 2, "2 executors, as the schedule has it", 0.4)


def test_a_schedule_goes_by_the_clock_on_the_wall() -> None:
    assert wanted(replace(at(1500), wall_ahead_ms=500_000)) == wanted(at(2000))
    assert wanted(replace(at(2000), wall_ahead_ms=-500_000)) == wanted(at(1500))


def test_a_larger_size_is_begun_earlier_and_a_smaller_one_is_not() -> None:
    assert sizes_at(GOAL, 1939, 1940, 2000) == [2, 4, 4]
    assert sizes_at(GOAL, 2999, 3000) == [4, 1]


def test_how_much_earlier_can_be_said() -> None:
    assert sizes_at(Schedule(GOAL.sizes, lead_s=0), 1999, 2000) == [2, 4]


def test_the_first_size_is_not_begun_early() -> None:
    assert wanted(at(999)).need == "hold"


def test_a_schedule_may_come_again_and_again() -> None:
    goal = Schedule([(1000, 2), (2000, 4)], every=timedelta(seconds=5000), lead_s=0)
    assert sizes_at(goal, 1000, 2000, 5999, 6000, 6999, 7000, 51_000, 52_000) == [
        *(2, 4, 4, 2, 2, 4),
        *(2, 4),
    ]
    assert sizes_at(goal, 500) == [4], "it was in force before as well"


def test_an_idle_application_may_have_fewer_than_the_schedule_asks_for() -> None:
    seen = at(2500, within=bounds(least=0, idle_s=30.0))
    queries = {n: replace(q, idle_since_ms=2_400_000) for n, q in seen.queries.items()}
    found = wanted(replace(seen, queries=queries))
    assert (found.need, found.executors, found.firm) == ("scale-in", 0, True)


def test_the_schedule_does_not_wake_an_application_that_has_nothing_to_do() -> None:
    assert wanted(at(2500, "", within=bounds(least=0))).need == "hold"


def test_the_sizes_to_come_are_those_that_differ_and_only_a_few() -> None:
    goal = Schedule([(n, size) for n, size in enumerate([1, 2, 2, 3, 3, 1, 4, 2])], lead_s=0)
    assert goal.ahead(500) == [2, 3, 1]
    assert goal.ahead(4500) == [1, 4, 2]
    assert goal.ahead(9000) == []


def test_the_sizes_to_come_of_one_that_comes_again_are_those_of_its_next_turn() -> None:
    goal = Schedule([(0, 2), (10, 4)], every=timedelta(seconds=20), lead_s=0)
    assert goal.ahead(12_000) == [2, 4]


def test_a_size_that_is_begun_early_is_not_to_come_any_more() -> None:
    assert GOAL.ahead(1_950_000) == [1]


def test_the_planner_knows_the_sizes_to_come() -> None:
    goal = Schedule(GOAL.sizes, gamma=0.5)
    assert goal.planner(None, at(1500), 2) == ScheduledPlanner((4, 1), 0.2, 0.5)


@st.composite
def problems(draw: st.DrawFn) -> StepProblem:
    tasks, nodes, target = (draw(st.integers(1, most)) for most in (7, 3, 4))
    work = tuple(draw(st.lists(st.integers(1, 9), min_size=tasks, max_size=tasks)))
    state = tuple(draw(st.lists(st.integers(0, 50), min_size=tasks, max_size=tasks)))
    cuts = sorted(draw(st.lists(st.integers(0, tasks), min_size=nodes - 1, max_size=nodes - 1)))
    where = [sum(cut <= task for cut in cuts) for task in range(tasks)]
    tau = attainable_tau(tuple(map(float, work)), target, 0.2, contiguous=False)
    return StepProblem.of(work, state, where, target, tau)


@given(problems(), st.lists(st.integers(1, 4), max_size=2))
@settings(max_examples=60)
def test_a_plan_that_looks_ahead_is_a_valid_step(problem: StepProblem, ahead: list[int]) -> None:
    plan = ScheduledPlanner(tuple(ahead), 0.2, 1.0)(problem)
    assert isinstance(plan, StepPlan)
    assert not certify_step(problem, plan).faults


@given(problems())
@settings(max_examples=60)
def test_without_sizes_to_come_the_plan_moves_the_least_now(problem: StepProblem) -> None:
    plan, step = ScheduledPlanner((), 0.2, 1.0)(problem), free_step(problem)
    assert isinstance(plan, StepPlan)
    assert isinstance(step, StepPlan)
    assert plan.cost == step.cost


def test_what_cannot_be_planned_is_reported() -> None:
    problem = StepProblem.of([5, 1], [1, 1], [0, 0], 2, 0.1)
    assert isinstance(ScheduledPlanner((1,), 0.2, 1.0)(problem), Infeasible)


def test_the_log_says_what_was_planned_together() -> None:
    problem = StepProblem.of([1, 1], [30, 20], [0, 0], 2, 0.2)
    planner = ScheduledPlanner((1, 2), 0.2, 1.0)
    plan = planner(problem)
    assert isinstance(plan, StepPlan)
    assert planner.explain(plan) == "planned together with 2 sizes to come; 20 bytes now"
    assert ScheduledPlanner((), 0.2, 1.0).explain(plan) == "the last size of the schedule"


def test_a_moment_is_a_time_a_text_or_seconds() -> None:
    moment = datetime(2026, 5, 1, 8, 30, tzinfo=UTC)
    goal = Schedule([(moment, 1), ("2026-05-01T08:31:00+00:00", 2), (moment.timestamp() + 120, 3)])
    assert goal.sizes == tuple((moment.timestamp() + 60 * n, n + 1) for n in range(3))


def test_a_schedule_of_every_day_is_given_by_local_times() -> None:
    goal = Schedule.daily([("08:30", 4), ("18:00", 2)], lead_s=5)
    (morning, four), (evening, two) = goal.sizes
    assert isinstance(morning, float)
    assert isinstance(evening, float)
    assert (evening - morning, four, two) == (9.5 * 3600, 4, 2)
    assert (goal.every, goal.lead_s) == (timedelta(days=1), 5)
    assert datetime.fromtimestamp(morning).strftime("%H:%M:%S") == "08:30:00"
    assert goal.name == "schedule of 2 sizes, every 1 day, 0:00:00"
    in_berlin = replace(goal, zone="Europe/Berlin")
    assert in_berlin.name == "schedule of 2 sizes, every 1 day, 0:00:00, Europe/Berlin"


# Clock changes. In Berlin clocks skip 02:00 to 03:00 on 29 March 2026 and show it twice on
# 25 October.

DAILY = [("07:30", 6), ("19:00", 2)]


def berlin(wall: str, *, fold: int = 0) -> float:
    """When the clocks of Berlin show this, in seconds."""
    return datetime.fromisoformat(wall).replace(tzinfo=BERLIN, fold=fold).timestamp()


def sizes_in_berlin(goal: Schedule, *walls: str) -> list[int]:
    return sizes_at(goal, *(berlin(wall) for wall in walls))


def test_a_daily_schedule_follows_the_wall_clock_in_summer_and_in_winter() -> None:
    goal = Schedule.daily(DAILY, zone="Europe/Berlin", lead_s=0)
    for day in ("2026-01-15", "2026-03-28", "2026-03-29", "2026-07-15", "2026-10-25", "2026-10-26"):
        times = ("06:45", "07:29", "07:30", "07:45", "18:59", "19:00", "19:15")
        assert sizes_in_berlin(goal, *(f"{day}T{time}" for time in times)) == [2, 2, 6, 6, 6, 2, 2]


def test_without_a_zone_a_schedule_follows_the_clock_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # Berlin's rules, without a database
    time.tzset()
    try:
        goal = Schedule.daily(DAILY, lead_s=0)
        for day in ("2026-01-15", "2026-07-15"):
            times = ("06:45", "07:45", "18:45", "19:15")
            assert sizes_in_berlin(goal, *(f"{day}T{clock}" for clock in times)) == [2, 6, 6, 2]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_weekly_schedule_follows_the_wall_clock_too() -> None:
    monday = [("2026-03-23T08:00", 4), ("2026-03-27T18:00", 1)]
    goal = Schedule(monday, every=timedelta(days=7), zone="Europe/Berlin", lead_s=0)
    walls = ("2026-03-30T07:59", "2026-03-30T08:00", "2026-04-03T17:59", "2026-04-03T18:00")
    assert sizes_in_berlin(goal, *walls) == [1, 4, 4, 1]


def test_a_schedule_of_hours_follows_elapsed_time() -> None:
    first = [("2026-03-28T00:00", 2), ("2026-03-28T06:00", 4)]
    goal = Schedule(first, every=timedelta(hours=12), zone="Europe/Berlin", lead_s=0)
    assert sizes_in_berlin(goal, "2026-03-29T06:30", "2026-03-29T07:00") == [2, 4]


def test_a_time_that_clocks_skip_comes_as_much_later_as_they_skip() -> None:
    goal = Schedule.daily([("02:30", 4), ("06:00", 2)], zone="Europe/Berlin", lead_s=0)
    walls = ("2026-03-29T03:29", "2026-03-29T03:30", "2026-03-30T02:29", "2026-03-30T02:30")
    assert sizes_in_berlin(goal, *walls) == [2, 4, 2, 4]


def test_a_time_that_clocks_skip_is_not_moved_beyond_the_next() -> None:
    goal = Schedule.daily([("02:15", 4), ("03:10", 2)], zone="Europe/Berlin", lead_s=0)
    walls = ("2026-03-29T03:09", "2026-03-29T03:10", "2026-03-29T03:20", "2026-03-30T02:15")
    assert sizes_in_berlin(goal, *walls) == [2, 2, 2, 4]


def test_of_a_time_that_clocks_show_twice_the_first_counts() -> None:
    goal = Schedule.daily([("02:30", 4), ("06:00", 2)], zone="Europe/Berlin", lead_s=0)
    first, second = (berlin("2026-10-25T02:30", fold=fold) for fold in (0, 1))
    assert second - first == 3600
    assert sizes_at(goal, first - 1, first, second - 1, second) == [2, 4, 4, 4]


def test_times_that_name_no_zone_are_in_the_zone_of_the_schedule() -> None:
    wall = "2026-07-15T08:00"
    moments: list[str | datetime] = [wall, datetime(2026, 7, 15, 9), "2026-07-15T10:00+00:00"]
    goal = Schedule([(moment, 1) for moment in moments], zone="Asia/Tokyo")
    assert [at_s for at_s, _ in goal.sizes] == [
        datetime(2026, 7, day, hour, tzinfo=UTC).timestamp()
        for day, hour in ((14, 23), (15, 0), (15, 10))
    ]


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    st.lists(st.integers(0, 1439), min_size=1, max_size=5, unique=True).map(sorted),
    st.integers(0, 366 * 1440),
)
@settings(max_examples=200)
def test_the_size_is_that_of_the_last_time_that_the_clocks_have_shown(
    zone: str, minutes: list[int], minute: int
) -> None:
    clocks = [f"{each // 60:02}:{each % 60:02}" for each in minutes]
    goal = Schedule.daily([(clock, n + 1) for n, clock in enumerate(clocks)], zone=zone, lead_s=0)
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
    local = now.astimezone(ZoneInfo(zone))
    long_before = (now - timedelta(hours=3)).astimezone(ZoneInfo(zone))
    found = wanted(at(now.timestamp(), "a" * 9), goal).executors
    if local.utcoffset() == long_before.utcoffset():  # else a time may be skipped or shown twice
        shown = [n for n, each in enumerate(minutes) if each <= local.hour * 60 + local.minute]
        assert found == (shown[-1] if shown else len(minutes) - 1) + 1
    around = [at_s for at_s, _ in goal._around(now.timestamp())]
    assert around == sorted(around)
    assert around[0] <= now.timestamp() < around[-1]


def test_a_daily_schedule_is_the_same_whenever_it_is_made() -> None:
    goal = Schedule.daily(DAILY, zone="Europe/Berlin")
    assert goal == Schedule.daily(DAILY, zone="Europe/Berlin")
    assert goal.sizes[0] == (datetime(2001, 1, 1, 6, 30, tzinfo=UTC).timestamp(), 6)


def test_utc_needs_no_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(key: str) -> None:
        raise ZoneInfoNotFoundError(key)

    monkeypatch.setattr("elastream.goals.wall_clock.ZoneInfo", none)
    assert sizes_at(Schedule([(0, 1), (9, 2)], zone="UTC", lead_s=0), 1, 9) == [1, 2]
    with pytest.raises(ProblemError, match=r"goal\.zone: 'Europe/Berlin' is not a time zone of"):
        Schedule.daily(DAILY, zone="Europe/Berlin")


def test_a_schedule_that_repeats_beyond_the_calendar_has_its_first_turn() -> None:
    goal = Schedule([(1000, 2), (2000, 4)], every=timedelta.max - timedelta.max % DAY, lead_s=0)
    assert sizes_at(goal, 1000, 2000) == [2, 4]


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("goal.sizes", {"sizes": []}),
        ("goal.sizes", {"sizes": "08:30"}),
        ("goal.sizes", {"sizes": None}),
        ("goal.sizes", {"sizes": [(n, 1) for n in range(10_001)]}),
        ("goal.sizes[0]", {"sizes": [7]}),
        ("goal.sizes[0]", {"sizes": [(1, 2, 3)]}),
        ("goal.sizes[0]", {"sizes": [(1, 0)]}),
        ("goal.sizes[0]", {"sizes": [(1, 2.5)]}),
        ("goal.sizes[0]", {"sizes": [("soon", 2)]}),
        ("goal.sizes[0]", {"sizes": [(None, 2)]}),
        ("goal.sizes[1]", {"sizes": [(5, 1), (5, 2)]}),
        ("goal.sizes[1]", {"sizes": [(5, 1), (4, 2)]}),
        ("goal.lead_s", {"lead_s": -1}),
        ("goal.gamma", {"gamma": 1.5}),
        ("goal.gamma", {"gamma": -0.5}),
        ("goal.every", {"every": 60}),
        ("goal.every", {"every": timedelta(0)}),
        ("goal.every", {"every": timedelta(seconds=1)}),
        ("goal.every", {"sizes": [(0, 1), (86_400, 2)], "every": DAY}),
        ("goal.sizes[1]", {"sizes": [(0, 1), (1e15, 2)], "every": DAY}),
        (
            "goal.sizes[0]",
            {"sizes": [("0001-01-01T00:00+09:00", 1)], "every": DAY, "zone": "UTC"},
        ),
        (
            "goal.sizes[1]",
            {
                "sizes": [("2026-10-25T02:40+02:00", 1), ("2026-10-25T02:20+01:00", 2)],
                "every": DAY,
                "zone": "Europe/Berlin",
            },
        ),
        ("goal.zone", {"zone": "Europe/Bonn"}),
        ("goal.zone", {"zone": "Europe"}),
        ("goal.zone", {"zone": "/etc/passwd"}),
        ("goal.zone", {"zone": "../UTC"}),
        ("goal.zone", {"zone": ""}),
        ("goal.zone", {"zone": 1}),
    ],
)
def test_a_wrong_schedule_names_its_field(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Schedule(**{"sizes": [(0, 1), (1, 2)], **settings})
    assert caught.value.field == field


@pytest.mark.parametrize("clock", ["8.30", "25:00", "08:61", "", None, 830])
def test_a_time_of_the_day_that_is_none_is_named(clock: Any) -> None:
    with pytest.raises(ProblemError, match=r"goal\.sizes\[1\]: .* is not a time of the day"):
        Schedule.daily([("00:00", 1), (clock, 2)])


def test_a_schedule_that_is_over_is_refused_at_the_start() -> None:
    GOAL.check_start(3_000_000, ())
    with pytest.raises(ProblemError, match=r"goal\.sizes\[2\]: 1 executor from .* is in the past"):
        GOAL.check_start(3_000_001, ())
    Schedule([(0, 1)], every=timedelta(days=1)).check_start(10**15, ())


def test_an_application_follows_its_schedule() -> None:
    cluster = SimulatedCluster(even_workload(12, lambda _: 600.0), ClusterSettings(executors=2))
    decisions: list[Decision] = []
    goal = Schedule([(0, 2), (30, 4), (60, 1)], lead_s=5)
    policy = Policy(max_executors=4, goal=goal, cooldown_s=0, movement=Movement(moves_per_batch=4))
    alive = {}
    with simulated(cluster, policy, log=decisions.append):
        for second in (20, 29, 50, 80):
            cluster.advance(second - cluster.now_ms / 1000)
            alive[second] = len(cluster.executors())
    assert alive == {20: 2, 29: 4, 50: 4, 80: 1}
    assert [d.kind for d in decisions if d.kind in ("scale-out", "scale-in", "done")] == [
        *("scale-out", "done"),
        *("scale-in", "done"),
    ]
    plans = [d.reason for d in decisions if d.kind == "plan"]
    assert "planned together with 1 size to come" in plans[0]
    assert "the last size of the schedule" in plans[1]
