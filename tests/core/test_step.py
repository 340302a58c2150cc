"""What happens at rest, and what people ask for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.core.builders import QUERY, RUN, batch, executors, task
from tests.core.scenes import (
    POLICY,
    acts,
    after,
    after_batches,
    attached,
    harness,
    kinds,
    reasons,
    until_moving,
)

from elastream.core.application import Observed
from elastream.core.events import (
    AbandonRequested,
    Answered,
    Ask,
    BatchObserved,
    Cancel,
    DetachRequested,
    ExecutorsChanged,
    Grow,
    Learn,
    Log,
    MoveRequested,
    Place,
    Plan,
    QueryJoined,
    QueryLeft,
    QueryPassedOver,
    RecordSample,
    Rehearse,
    ScaleRequested,
    Status,
    Stuck,
    Tick,
    Warm,
)
from elastream.core.goal import Failure, Goal, Question, Think, Wanted
from elastream.core.migrator.growing import Growing
from elastream.core.migrator.planning import Planning
from elastream.core.samples import Sample, TaskSample
from elastream.core.state import Detached, LoopState
from elastream.core.steady import Steady
from elastream.core.step import start_loop, step
from elastream.goals.by_hand import ByHand

BUSY, CALM = 450.0, 300.0
"""Two tasks of these milliseconds per second keep an executor 0.9 or 0.6 busy."""


def seen(
    number: int, run_ms: float, *, query: str = QUERY, where: str = "aa", **more: Any
) -> BatchObserved:
    return BatchObserved(batch(number, where, run_ms=run_ms, query=query, **more))


# Whole changes


def test_a_scale_out_grows_warms_plans_moves_and_ends() -> None:
    run = harness(1900)
    run.batches(30)
    turns = [kind for kind in run.kinds if kind != "hold"]
    moves = turns.count("migrate")
    assert turns == [
        *("attach", "join", "scale-out", "wait", "plan"),
        *["migrate"] * moves,
        *("wait", "done"),
    ]
    actions = [
        type(i)
        for entry in run.instructions
        for i in entry
        if not isinstance(i, Log | RecordSample)
    ]
    assert actions == [Grow, Warm, Plan, *[Place] * moves]
    held = list(run.cluster.where().values())
    assert sorted(held.count(node) for node in set(held)) == [2, 3, 3]


def test_a_scale_in_drains_before_it_releases() -> None:
    run = harness(300, number=4)
    run.batches(40)
    assert [kind for kind in run.kinds if kind != "hold"][2:4] == ["scale-in", "plan"]
    assert run.kinds.count("done") == 1
    assert len(run.cluster.executors()) == 1


def test_every_batch_has_its_line_in_the_log() -> None:
    run = harness({"a": 900.0, "b": 1000.0})
    run.batches(30)
    heard_of = {(d.query, d.batch) for d in run.decisions if d.batch is not None}
    reports = [e.batch for e in run.events if isinstance(e, BatchObserved)]
    assert heard_of == {(each.query, each.batch) for each in reports}


def test_the_same_events_lead_to_the_same_instructions() -> None:
    run = harness({"a": 900.0, "b": 1000.0})
    run.batches(30)
    assert run.replayed() == run.instructions


def test_the_end_of_a_change_is_reported_with_all_figures() -> None:
    run = harness(1900)
    run.batches(20)
    done = next(d for d in run.decisions if d.kind == "done").figures
    plan = next(d for d in run.decisions if d.kind == "plan").figures
    assert done["tasks_moved"] == plan["tasks_to_move"]
    assert done["state_bytes_moved"] == plan["state_bytes_to_move"]
    assert done["batches"] == plan["mini_migrations"]
    assert done["worst_batch_ms"] >= done["median_batch_ms_before"] * 0.5
    counts = ("executors_before", "executors_after", "executors_wanted", "replans")
    assert [done[name] for name in counts] == [2, 3, 3, 0]


# Patience and cooldown


def test_patience_is_counted_in_batches_in_a_row() -> None:
    state = attached("a", policy=replace(POLICY, patience=3))
    found = []
    for number, run_ms in enumerate([CALM, BUSY, BUSY, CALM, BUSY, BUSY, BUSY]):
        state, report = step(state, seen(number, run_ms))
        found += kinds(report)
    assert found == ["hold"] * 6 + ["scale-out"]


def test_a_round_is_over_when_every_query_that_runs_has_been_heard() -> None:
    state = attached("a", queries={"q": 0, "r": 0})
    state, _ = after(state, seen(0, 150.0, query="q"), seen(0, 150.0, query="r"))
    state, report = after(state, *(seen(number, 300.0, query="q") for number in (1, 2, 3, 4)))
    assert kinds(report) == ["hold"] * 4, "one query does not outvote the other"
    assert reasons(report)[-1].startswith("asked for in 0 of 2 rounds; scale-out")
    state, report = after(state, seen(1, 150.0, query="r"), seen(5, 300.0, query="q"))
    assert [reason[:27] for reason in reasons(report)] == ["asked for in 1 of 2 rounds;"] * 2
    state, report = step(state, seen(2, 150.0, query="r"))
    assert kinds(report) == ["scale-out"]


@pytest.mark.parametrize("how", ["idle", "late", "left"])
def test_a_query_that_is_idle_late_or_gone_is_not_waited_for(how: str) -> None:
    state = attached("a", queries={"q": 0, "r": 0})
    state, _ = after(state, seen(0, CALM, query="q"), seen(0, CALM, query="r"))
    at = 40 if how == "late" else 1
    if how == "idle":
        state, _ = step(state, Status(2000, frozenset({"r"})))
    if how == "left":
        state, _ = step(state, QueryLeft(2000, "r", RUN, "it ended"))
    busy = (seen(number, 2 * BUSY, query="q") for number in (at, at + 1))
    state, report = after(state, *busy)
    assert kinds(report) == ["hold", "scale-out"]


def test_the_batches_of_a_long_calm_are_no_patience_for_a_change() -> None:
    state = attached(
        "ab",
        queries={"q": 0, "r": 0},
        policy=replace(POLICY, timeouts=replace(POLICY.timeouts, smoothing_s=1.0)),
    )
    for number in range(9):
        state, _ = step(state, seen(number, 250.0, query="q", where="ab"))
        state, _ = step(state, seen(number, 250.0, query="r", where="ab"))
    for second in (10, 11, 12, 13):
        state, report = step(state, Status(1000 * second, frozenset({"r"})))
        assert acts(report) == [], "a status does not call for a change"
    assert isinstance(state.phase, Steady)


def test_nothing_is_decided_while_cooling_down() -> None:
    rates = {QUERY: 1900.0}
    run = harness(rates, policy=replace(POLICY, cooldown_s=20))
    while run.state.changed_ms is None:
        run.batches(1)
    ended_ms = run.state.changed_ms or 0
    rates[QUERY] = 100.0
    run.batches(36)
    later = [d for d in run.decisions if d.at_ms is not None and d.at_ms > ended_ms]
    resting = [d for d in later if d.at_ms is not None and d.at_ms < ended_ms + 20_000]
    assert {d.kind for d in resting} == {"hold", "done"}
    assert any("cooling down" in d.reason for d in resting)
    assert "scale-in" in {d.kind for d in later}


def test_an_abandoned_change_is_followed_by_a_cooldown_too() -> None:
    state, _ = after(attached("a"), *(seen(number, BUSY) for number in range(2)))
    assert isinstance(state.phase, Growing)
    state, report = after(
        state,
        Answered(state.phase.ticket, Failure("no room")),
        *(seen(number, BUSY) for number in range(2, 7)),
    )
    assert kinds(report) == ["abandon", *["hold"] * 4, "scale-out"]
    assert [reason.split(";")[0] for reason in reasons(report)[1:3]] == [
        "cooling down, 4.0 s left",
        "cooling down, 3.0 s left",
    ]


# An executor is lost


def test_a_lost_executor_is_acted_on_at_once() -> None:
    policy = replace(POLICY, patience=100, cooldown_s=1e6)
    state = attached("ab", policy=policy)
    for number in range(3):
        state, _ = step(state, seen(number, 350.0, where="aabb"))
    state = replace(state, changed_ms=3000)
    state, report = step(state, ExecutorsChanged(3500, executors("a")))
    assert kinds(report) == ["lost", "scale-out"]
    assert reasons(report)[0] == "executor b was lost, 2 tasks to load elsewhere"
    assert acts(report) == [
        Place(1, QUERY, {task(2): "a", task(3): "a"}, ("b",)),
        Grow(2, 2),
    ]


def test_a_lost_executor_that_no_one_misses_is_reported_and_that_is_all() -> None:
    state = attached("ab", policy=replace(POLICY, patience=10**6))
    for number in range(3):
        state, _ = step(state, seen(number, CALM, where="aa"))
    state, report = step(state, ExecutorsChanged(3500, executors("a")))
    assert (kinds(report), acts(report)) == (["lost"], [])
    assert isinstance(state.phase, Steady)


def test_executors_that_come_by_themselves_are_no_news_for_the_log() -> None:
    state = attached("a")
    state, report = step(state, ExecutorsChanged(500, executors("a", "b")))
    assert report == ()
    assert state.alive == {"a", "b"}


# Facts


def test_a_replayed_batch_leads_to_nothing() -> None:
    run = harness(1900)
    run.batches(3)
    before = run.state
    assert run.last_batch is not None
    assert run.feed(BatchObserved(run.last_batch)) == ()
    assert run.state == before


@pytest.mark.parametrize(
    "other", [{"query": "another"}, {"run": "run 0"}], ids=["query", "earlier run"]
)
def test_a_batch_of_no_one_who_takes_part_leads_to_nothing(other: dict[str, str]) -> None:
    state = after_batches(attached("a"), 0, "aa")
    assert step(state, BatchObserved(batch(0, "aa", **other))) == (state, ())  # type: ignore[arg-type]


def test_a_query_joins_with_what_is_known_of_it() -> None:
    state, _ = start_loop(POLICY, executors("a"), now_ms=0)
    state, report = step(state, QueryJoined(5, "q", RUN, tasks=12, trigger_ms=2500))
    assert reasons(report) == ["takes part: 12 tasks in 0 stateful operators, a batch every 2.5 s"]
    assert kinds(report) == ["join"]
    later = replace(state, now_ms=6, executor_s=state.executor_s + 0.001)
    assert step(state, QueryJoined(6, "q", RUN, tasks=12)) == (later, ())


def test_a_plan_is_rehearsed_once_when_tasks_have_become_many() -> None:
    state = attached("abc", queries={"q": 600})
    state, report = after(
        state,
        QueryJoined(5, "r", RUN, tasks=399),
        QueryJoined(6, "s", RUN, tasks=1),
        QueryJoined(7, "t", RUN, tasks=600),
    )
    assert acts(report) == [Rehearse(1000, 3)]


def test_a_new_run_of_a_query_begins_from_nothing() -> None:
    state = after_batches(attached("a"), 7, "aa")
    state, report = after(state, QueryJoined(9000, QUERY, "run 2"))
    assert kinds(report) == ["join"]
    assert state.queries[QUERY].load.tasks == {}
    state, report = step(state, BatchObserved(batch(0, "aa", run="run 2", at_ms=9500)))
    assert kinds(report) == ["hold"]


def test_a_query_that_leaves_says_why_and_an_earlier_run_cannot() -> None:
    state = attached("a")
    later = replace(state, now_ms=5, executor_s=0.005)
    assert step(state, QueryLeft(5, QUERY, "run 0", "stopped")) == (later, ())
    state, report = step(state, QueryLeft(6, QUERY, RUN, "stopped"))
    assert (kinds(report), reasons(report)) == (["leave"], ["stopped"])
    assert state.queries == {}


def test_a_query_that_cannot_be_steered_is_reported_and_left_alone() -> None:
    state = attached("a")
    state, report = step(state, QueryPassedOver(5, "odd", "keeps no state"))
    assert (kinds(report), reasons(report)) == (["refuse"], ["left alone: it keeps no state"])
    assert set(state.queries) == {QUERY}


def test_batches_that_show_too_few_tasks_are_reported_once() -> None:
    state = attached("a", queries={QUERY: 3})
    reports = []
    for number, where in enumerate(["aa", "aa", "aaa", "a"]):
        state, more = step(state, BatchObserved(batch(number, where, run_ms=10)))
        reports += [reason for reason in reasons(more) if reason.startswith("its batches show")]
    assert reports == ["its batches show 2 of 3 tasks", "its batches show 1 of 3 tasks"]


def test_events_that_were_lost_are_reported() -> None:
    _, report = step(attached("a"), Status(1000, dropped=7))
    assert reasons(report) == [
        "7 events of Spark were lost, there were too many; figures have gaps"
    ]


def test_a_silent_monitor_is_reported_once_and_so_is_its_return() -> None:
    state, _ = step(attached("a"), Status(1000))
    state, report = after(state, *(Tick(1000 * second) for second in (2, 31, 32, 40)))
    assert kinds(report) == ["stuck"]
    assert reasons(report) == ["the monitor has reported nothing for 31 s"]
    state, report = after(state, Status(41_000), Status(42_000))
    assert (kinds(report), reasons(report)) == (["wait"], ["the monitor reports again"])


@pytest.mark.parametrize("set_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_is_set_makes_no_silence(set_ms: int) -> None:
    state, _ = step(attached("a"), Status(1000))
    for second in range(2, 60):
        state, report = after(state, Tick(1000 * second, 1000 * second + set_ms))
        assert report == ()
        state, report = after(state, Status(1000 * second + 500))
        assert report == ()
    state, report = after(state, Tick(100_000, 100_000 + set_ms))
    assert reasons(report) == ["the monitor has reported nothing for 40 s"]
    assert [each.decision.at_ms for each in report if isinstance(each, Log)] == [100_000 + set_ms]


def test_two_readings_a_moment_apart_are_no_set_clock() -> None:
    state, _ = after(attached("a"), Tick(1000, 1001))
    assert state.wall_ahead_ms == 0


def test_a_call_that_hangs_is_reported_and_so_is_its_return() -> None:
    state = attached("a")
    _, report = after(state, Stuck(9, "a plan", 31.4), Stuck(9, "a plan", 75.0, back=True))
    assert kinds(report) == ["stuck", "stuck"]
    assert reasons(report) == [
        "a plan has not come back in 31 s; the loop goes on",
        "a plan came back after 75 s; its answer was no longer awaited",
    ]
    figures = [each.decision.figures for each in report if isinstance(each, Log)]
    assert figures == [{"seconds": 31.4}, {"seconds": 75.0, "came_back": 1}]


def test_work_of_others_is_smoothed_and_forgotten_with_its_executor() -> None:
    state = attached(
        "ab", policy=replace(POLICY, timeouts=replace(POLICY.timeouts, smoothing_s=1.0))
    )
    state, _ = after(
        state, Status(1000), Status(2000, other_ms={"a": 800.0, "b": 400.0}), Status(3000)
    )
    assert state.other == pytest.approx({"a": 0.2, "b": 0.1})
    state, _ = step(state, ExecutorsChanged(3500, executors("b")))
    assert state.other == pytest.approx({"b": 0.1})


def test_idle_time_makes_the_load_of_a_query_fade() -> None:
    state = attached(
        "a",
        policy=replace(POLICY, timeouts=replace(POLICY.timeouts, smoothing_s=10.0), patience=10**6),
    )
    state, _ = after(state, seen(0, 400.0), Status(2000, frozenset({QUERY})))
    before = state.queries[QUERY].load.work
    state, _ = step(state, Status(11_000, frozenset({QUERY})))
    assert state.queries[QUERY].load.work == pytest.approx(before / 2)
    assert state.queries[QUERY].idle_since_ms == 2000


# Samples


def samples(reports: tuple[object, ...]) -> list[Sample]:
    return [each.sample for each in reports if isinstance(each, RecordSample)]


def test_a_sample_shows_what_every_task_cost_and_where_it_was() -> None:
    _, report = step(attached("ab"), seen(0, 100.0, where="ab", rows=40))
    assert samples(report) == [
        Sample(
            at_ms=1000,
            executors=("a", "b"),
            wanted=2,
            tasks={
                task(0): TaskSample("a", 0.1, 1000),
                task(1): TaskSample("b", 0.1, 1000),
            },
            rows_per_s={QUERY: 40.0},
        )
    ]


def test_samples_are_taken_every_minute_while_batches_run() -> None:
    state = attached("a", policy=replace(POLICY, patience=10**6))
    found = []
    for number in range(150):
        state, report = step(state, seen(number, 100.0))
        found += [sample.at_ms for sample in samples(report)]
    state, report = step(state, Status(400_000, frozenset({QUERY})))
    assert found == [1000, 61_000, 121_000]
    assert samples(report) != [], "the batches since the last sample are logged"
    state, report = step(state, Status(600_000, frozenset({QUERY})))
    assert samples(report) == [], "without batches there is nothing new"


def test_samples_of_many_tasks_are_taken_less_often() -> None:
    state = attached("a", policy=replace(POLICY, patience=10**6))
    found = []
    for number in range(12):
        event = BatchObserved(batch(number, ["a"] * 240, run_ms=1, at_ms=61_000 * number))
        state, report = step(state, event)
        found += [number for _ in samples(report)]
    assert found == [4, 9]


def test_a_sample_shows_how_many_executors_are_on_their_way() -> None:
    state = attached("a", policy=replace(POLICY, patience=1))
    state, report = after(state, seen(0, BUSY), seen(1, BUSY, at_ms=70_000))
    assert [sample.wanted for sample in samples(report)] == [2, 2]


# Advice


def test_advice_is_planned_and_logged_and_nothing_is_touched() -> None:
    run = harness(1900, policy=replace(POLICY, advise_only=True))
    before = [executor.id for executor in run.cluster.executors()]
    run.batches(20)
    advice = [decision for decision in run.decisions if decision.kind == "advise"]
    assert advice
    assert advice[0].reason.startswith("would scale-out from 2 to 3 executors: utilisation")
    assert advice[0].figures["tasks_to_move"] > 0
    assert [executor.id for executor in run.cluster.executors()] == before


def test_advice_is_given_also_where_there_is_nothing_to_plan() -> None:
    policy = replace(POLICY, advise_only=True, min_executors=2, patience=1)
    _, report = step(attached("a", policy=policy), BatchObserved(batch(0, "")))
    assert kinds(report) == ["hold", "advise"]
    assert reasons(report)[-1] == (
        "would scale-out from 1 to 2 executors: 1 executor alive, below the minimum of 2"
    )


@pytest.mark.parametrize("event", [ScaleRequested(3), MoveRequested({task(0): "b"})])
def test_who_only_advises_refuses_requests(event: ScaleRequested | MoveRequested) -> None:
    state = after_batches(attached("ab", policy=replace(POLICY, advise_only=True)), 0, "aa")
    after_, report = step(state, event)
    assert (after_, kinds(report), acts(report)) == (state, ["refuse"], [])


# Requests


def test_a_person_may_ask_for_a_number_of_executors() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(ScaleRequested(4))
    run.batches(6)
    run.judged()
    done = next(decision for decision in run.decisions if decision.kind == "done")
    assert done.figures["executors_after"] == 4


def test_a_request_for_what_is_there_is_a_rebalance() -> None:
    state = after_batches(attached("ab"), 0, "aaab")
    state, report = step(state, ScaleRequested(2))
    assert reasons(report) == ["rebalance to 2: asked for"]
    assert isinstance(state.phase, Planning)


def test_a_person_may_say_how_uneven_the_load_may_be() -> None:
    state = after_batches(attached("ab", policy=replace(POLICY, tau=0.2)), 0, "aaab")
    _, report = step(state, ScaleRequested(2, tau=0.9))
    (plan,) = acts(report)
    assert isinstance(plan, Plan)
    assert plan.order.problem.target.tau == 0.9


@pytest.mark.parametrize("wrong", [0, 5])
def test_a_request_outside_the_bounds_is_refused(wrong: int) -> None:
    _, report = step(attached("a"), ScaleRequested(wrong))
    assert kinds(report) == ["refuse"]
    assert reasons(report) == [f"{wrong} executors were asked for; allowed are 1 to 4"]


def test_no_executor_at_all_is_refused_while_there_is_work_to_do() -> None:
    state = after_batches(attached("a", policy=replace(POLICY, min_executors=0)), 0, "aa")
    state, report = step(state, ScaleRequested(0))
    assert reasons(report) == ["0 executors were asked for, and the application has work to do"]
    state, report = after(state, Status(2000, frozenset({QUERY})), ScaleRequested(0))
    assert kinds(report)[0] == "scale-in"


def test_a_request_while_a_change_is_under_way_comes_next() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(ScaleRequested(4))
    run.feed(ScaleRequested(3))
    assert run.decisions[-1].kind == "wait"
    assert run.decisions[-1].reason.endswith("it comes next")
    run.batches(12)
    ends = [d.figures["executors_after"] for d in run.decisions if d.kind == "done"]
    assert ends == [4, 3]


def test_of_several_requests_that_wait_the_last_is_carried_out() -> None:
    run = harness(1000)
    run.batches(2)
    for number in (4, 2, 3):
        run.feed(ScaleRequested(number))
    run.batches(12)
    ends = [d.figures["executors_after"] for d in run.decisions if d.kind == "done"]
    assert ends == [4, 3]


def test_a_request_that_waits_comes_also_after_a_change_that_failed() -> None:
    state, _ = after(after_batches(attached("a"), 0, "aa"), ScaleRequested(4), ScaleRequested(2))
    assert isinstance(state.phase, Growing)
    state, report = step(state, Answered(state.phase.ticket, Failure("no room")))
    assert kinds(report) == ["abandon", "scale-out"]
    assert acts(report) == [Grow(2, 2)]


def test_a_request_that_waited_and_has_become_wrong_is_refused() -> None:
    state = after_batches(attached("ab"), 0, "ab")
    state, _ = after(state, ScaleRequested(3), MoveRequested({task(0): "b"}))
    assert isinstance(state.phase, Growing)
    state, report = after(
        state,
        ExecutorsChanged(1500, executors("a")),
        Answered(state.phase.ticket, Failure("no room")),
    )
    assert kinds(report) == ["lost", "abandon", "refuse"]
    assert reasons(report)[-1] == "the placement asked for: executor b is not alive"


def test_a_person_may_ask_for_a_placement_in_portions() -> None:
    run = harness(1000)
    run.batches(2)
    goal = {task(j): "0" for j in range(8)}
    run.feed(MoveRequested(goal))
    run.batches(4)
    assert dict(run.cluster.where()) == goal
    run.judged()
    assert "done" in run.kinds


@pytest.mark.parametrize(
    ("goal", "why"),
    [
        ({task(99): "a"}, "task query/0/99 is not known"),
        ({task(0): "x"}, "executor x is not alive"),
    ],
)
def test_a_placement_of_unknown_tasks_or_executors_is_refused(
    goal: dict[Any, str], why: str
) -> None:
    state = after_batches(attached("a"), 0, "aa")
    after_, report = step(state, MoveRequested(goal))
    assert (after_, reasons(report)) == (state, [f"the placement asked for: {why}"])
    assert kinds(report) == ["refuse"]


def test_giving_up_needs_something_under_way() -> None:
    state = attached("a")
    after_, report = step(state, AbandonRequested("why not"))
    assert (after_, kinds(report)) == (state, ["refuse"])


def test_giving_up_cancels_what_is_waited_for_and_drops_what_was_to_come_next() -> None:
    state, _ = after(after_batches(attached("a"), 0, "aa"), ScaleRequested(4), ScaleRequested(2))
    state, report = step(state, AbandonRequested("enough"))
    assert acts(report) == [Cancel(1)]
    assert kinds(report) == ["abandon"]
    assert isinstance(state.phase, Steady)
    assert state.request is None


def test_an_answer_to_a_cancelled_ticket_is_passed_over() -> None:
    state, _ = after(
        after_batches(attached("a"), 0, "aa"), ScaleRequested(4), AbandonRequested("enough")
    )
    late = Answered(1, executors("a", "b", "c", "d"))
    assert step(state, late) == (state, ())
    state, _ = step(state, ScaleRequested(2))
    assert step(state, late) == (state, ()), "nor does another change take it"


# Questions of the goal


@dataclass(frozen=True)
class Curious(Goal):
    """Asks one question; wants as many executors as the answer says."""

    @property
    def name(self) -> str:
        return "curious"

    def memory(self) -> str:
        return "curious"

    def wanted(self, memory: str, observed: Observed) -> tuple[str, Wanted, tuple[Question, ...]]:
        hold = Wanted("hold", len(observed.executors), "still thinking")
        questions = (Think(lambda: 3),) if memory == "curious" else ()
        return "asked", hold, questions

    def after_answer(
        self, memory: str, observed: Observed, question: Question, answer: Any
    ) -> tuple[str, Wanted | None]:
        assert memory == "asked"
        assert isinstance(question, Think)
        if isinstance(answer, Failure):
            return "curious", None
        alive = len(observed.executors)
        return "answered", Wanted("scale-out", answer, f"from {alive}", firm=True)


def asked() -> tuple[LoopState, Ask]:
    state, report = step(attached("a", policy=replace(POLICY, goal=Curious())), seen(0, CALM))
    (ask,) = (each for each in report if isinstance(each, Ask))
    assert reasons(report) == ["still thinking"]
    return state, ask


def test_what_a_goal_wants_after_an_answer_is_done_at_once_where_it_is_sure() -> None:
    state, ask = asked()
    assert isinstance(ask.question, Think)
    state, report = step(state, Answered(ask.ticket, ask.question.work()))
    assert (kinds(report), reasons(report)) == (["scale-out"], ["scale-out to 3: from 1"])
    assert acts(report) == [Grow(2, 3)]
    assert (state.memory, state.questions) == ("answered", {})


def test_a_question_that_is_not_answered_is_reported_and_may_be_asked_again() -> None:
    state, ask = asked()
    state, report = step(state, Answered(ask.ticket, Failure("out of luck")))
    assert reasons(report) == ["the goal does not get an answer: out of luck"]
    state, report = step(state, seen(1, CALM))
    assert [each.ticket for each in report if isinstance(each, Ask)] == [2]


def test_an_answer_while_a_change_is_under_way_is_remembered_and_begins_nothing() -> None:
    state, ask = asked()
    state, _ = step(state, ScaleRequested(4))
    state, report = step(state, Answered(ask.ticket, 3))
    assert report == ()
    assert state.memory == "answered"
    assert isinstance(state.phase, Growing)


# The end


def test_nothing_happens_after_detaching() -> None:
    run = harness(1900)
    until_moving(run)
    run.feed(DetachRequested())
    assert isinstance(run.state.phase, Detached)
    assert run.kinds[-2:] == ["abandon", "detach"]
    run.batches(3)
    run.feed(ScaleRequested(2))
    assert run.kinds[-1] == "detach"


def test_detaching_cancels_all_that_is_under_way() -> None:
    state, ask = asked()
    state, _ = after(state, ScaleRequested(3), ScaleRequested(2))
    learning = replace(state.learning, asked=17)
    state, report = step(replace(state, learning=learning), DetachRequested("enough"))
    assert acts(report) == [Cancel(ask.ticket), Cancel(2), Cancel(17)]
    assert kinds(report) == ["abandon", "detach"]
    stays = "0 tasks moved and stay moved, the rest stays put"
    left = f"scale-out given up: the loop leaves the application; {stays}"
    assert reasons(report) == [left, "enough"]
    assert (state.questions, state.request) == ({}, None)


def test_the_first_line_says_what_the_loop_is_for() -> None:
    _, report = start_loop(POLICY, executors("a", "b"), now_ms=7)
    assert reasons(report) == [
        "attached, acts: 1 to 4 executors, goal utilisation 0.7, planner single-step"
    ]
    _, report = start_loop(replace(POLICY, advise_only=True), (), now_ms=7)
    assert reasons(report)[0].startswith("attached, advises only:")


def test_no_lesson_is_asked_for_where_the_planner_does_not_look_ahead() -> None:
    run = harness(1900)
    run.batches(30)
    assert not any(isinstance(i, Learn) for entry in run.instructions for i in entry)


def test_a_change_asked_for_before_any_batch_waits_until_the_tasks_are_known() -> None:
    run = harness(500, policy=replace(POLICY, goal=ByHand()), number=3)
    run.feed(ScaleRequested(2))
    assert not run.pending
    assert "before a batch of query was seen: they go after that" in run.decisions[-1].reason
    run.seconds(20)
    assert run.kinds.count("done") == 1
    assert len(run.cluster.executors()) == 2
    assert set(run.cluster.where().values()) == set(run.state.alive)


def test_a_change_that_waits_for_the_first_batch_can_be_given_up() -> None:
    run = harness(500, policy=replace(POLICY, goal=ByHand()), number=3)
    run.feed(ScaleRequested(2))
    run.feed(AbandonRequested("enough"))
    run.seconds(20)
    assert "scale-in" not in run.kinds
    assert len(run.cluster.executors()) == 3
