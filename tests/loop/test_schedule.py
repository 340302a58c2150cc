from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loop.builders import bounds, executors, load, observed

from elastream.loop.application import Observed
from elastream.loop.decisions import Decision
from elastream.loop.goals.goal import Wanted
from elastream.loop.goals.schedule import Schedule, ScheduledPlanner
from elastream.loop.goals.utilisation import attainable_tau
from elastream.loop.policy import Policy
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.planners.certificate import certify_step
from elastream.planners.free_step.planner import free_step
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

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


def test_what_cannot_be_planned_is_told() -> None:
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
    ],
)
def test_a_wrong_schedule_names_its_field(field: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ProblemError) as caught:
        Schedule(**{"sizes": [(0, 1), (1, 2)], **settings})
    assert caught.value.field == field


@pytest.mark.parametrize("clock", ["8.30", "25:00", "08:61", "", None, 830])
def test_a_time_of_the_day_that_is_none_is_named(clock: Any) -> None:
    with pytest.raises(ProblemError, match=r"goal\.sizes\[1\]: .* is no time of the day"):
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
    policy = Policy(max_executors=4, goal=goal, cooldown_s=0, moves_per_batch=4)
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
