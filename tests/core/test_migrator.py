"""What happens on each event while executors come, are warmed, are planned for, and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.core.builders import QUERY, RUN, batch, executors, task
from tests.core.scenes import POLICY, acts, after, after_batches, attached, harness, kinds, reasons

from elastream.core.events import (
    AbandonRequested,
    Answered,
    BatchObserved,
    Cancel,
    ExecutorsChanged,
    Grow,
    MoveRequested,
    Place,
    Plan,
    QueryJoined,
    QueryLeft,
    Release,
    ScaleRequested,
    Status,
    Tick,
    Warm,
)
from elastream.core.goal import Failure
from elastream.core.migrator.ending import Releasing
from elastream.core.migrator.growing import Growing, Warming
from elastream.core.migrator.moving import Moving
from elastream.core.migrator.planning import Planning
from elastream.core.migrator.settling import Settling
from elastream.core.policy import Policy
from elastream.core.ports import Ticket
from elastream.core.routes import route
from elastream.core.state import LoopState
from elastream.core.steady import Steady
from elastream.core.step import start_loop, step
from elastream.foresight.live_planners import SINGLE_STEP
from elastream.goals.by_hand import ByHand
from elastream.model.migration import StepProblem
from elastream.model.observation import OperatorGraph, TaskId
from elastream.model.plan import Infeasible
from elastream.testing import SimulatedTask, Workload

PATIENT = replace(POLICY, goal=ByHand())
"""Changes nothing by itself."""


def seen(number: int, where: str = "aaaa", **more: Any) -> BatchObserved:
    return BatchObserved(batch(number, where, **more))


def plan_of(reports: tuple[Any, ...]) -> Plan:
    (plan,) = (each for each in reports if isinstance(each, Plan))
    return plan


# Growing


def growing(policy: Policy = PATIENT) -> LoopState:
    """Three executors were asked for where one is alive, with ticket 1."""
    state, report = step(after_batches(attached("a", policy=policy), 0, "aaaa"), ScaleRequested(3))
    assert acts(report) == [Grow(1, 3)]
    return state


def test_executors_that_came_are_used_also_where_they_are_fewer_than_asked_for() -> None:
    run = harness(3500, slots=3)
    run.batches(20)
    assert any("3 of 4 executors are alive" in d.reason for d in run.decisions)
    assert "done" in run.kinds
    assert len(set(run.cluster.where().values())) == 3


def test_no_executor_in_time_is_reported_and_the_queries_left_as_they_are() -> None:
    run = harness(1900, slots=2)
    run.batches(6)
    given_up = next(decision for decision in run.decisions if decision.kind == "abandon")
    assert given_up.reason.startswith(
        "scale-out given up: 3 executors asked for, 2 alive after at most 60 s; 0 tasks moved"
    )
    assert isinstance(run.state.phase, Steady)


def test_executors_that_cannot_be_asked_for_end_the_change() -> None:
    state, report = step(growing(), Answered(1, Failure("no room")))
    assert isinstance(state.phase, Steady)
    assert reasons(report)[0].startswith("scale-out given up: executors failed: no room;")


def test_batches_pass_while_executors_are_awaited_and_the_log_says_so() -> None:
    state, report = after(growing(), seen(1), seen(2))
    assert isinstance(state.phase, Growing)
    assert kinds(report) == ["wait", "wait"]
    assert reasons(report)[-1] == "executors not ready after 2 s"


@pytest.mark.parametrize("event", [Tick(301_001), Status(301_001)])
def test_executors_without_an_answer_are_given_up_in_the_end(event: Tick | Status) -> None:
    state = growing()
    assert after(state, Tick(301_000))[1] == (), "not before its time"
    state, report = step(state, event)
    assert acts(report) == [Cancel(1)]
    assert reasons(report)[-1].startswith("scale-out given up: no answer about executors in 300 s;")
    assert isinstance(state.phase, Steady)


def test_an_answer_that_no_one_waits_for_is_passed_over() -> None:
    state = growing()
    assert step(state, Answered(8, executors("a", "b", "c"))) == (state, ())


def test_never_more_executors_are_asked_for_than_the_maximum() -> None:
    run = harness(9000)
    run.batches(8)
    asked = [i.total for entry in run.instructions for i in entry if isinstance(i, Grow)]
    assert asked == [4]


def test_an_executor_lost_meanwhile_is_made_up_for_by_those_that_come() -> None:
    state, _ = after(growing(), ExecutorsChanged(1500, ()))
    state, report = step(state, Answered(1, executors("b", "c", "d")))
    assert reasons(report)[0] == "3 of 3 executors are alive"
    assert plan_of(report).nodes == ("b", "c", "d")


# Warming


def warming(policy: Policy = PATIENT) -> LoopState:
    """Executor b has come cold and is warmed with ticket 2."""
    state = after_batches(attached("a", policy=policy), 0, "aaaa")
    state, _ = step(state, ScaleRequested(2))
    state, report = step(state, Answered(1, executors("a", "b", cold="b")))
    assert acts(report) == [Warm(2, ("b",))]
    return state


def test_a_failed_warm_up_does_not_stop_the_change() -> None:
    state, report = step(warming(), Answered(2, Failure("no room")))
    assert reasons(report) == ["not warmed, going on cold: no room"]
    assert isinstance(state.phase, Planning)


def test_a_warm_up_that_takes_too_long_is_cancelled_and_the_change_goes_on() -> None:
    state, report = step(warming(), Status(301_001))
    assert isinstance(acts(report)[0], Cancel)
    assert acts(report)[0] == Cancel(2)
    assert reasons(report) == ["not warmed in 300 s, going on cold"]
    assert isinstance(state.phase, Planning)
    assert step(state, Answered(2, None)) == (state, ())


def test_batches_pass_during_a_warm_up_and_the_log_says_so() -> None:
    state, report = step(warming(), seen(1))
    assert isinstance(state.phase, Warming)
    assert reasons(report) == ["the warm-up not ready after 1 s"]


def test_who_wants_no_warm_up_gets_none() -> None:
    state = after_batches(
        attached("a", policy=replace(PATIENT, movement=replace(PATIENT.movement, warm_up=False))),
        0,
        "aaaa",
    )
    state, _ = step(state, ScaleRequested(2))
    state, _ = step(state, Answered(1, executors("a", "b", cold="b")))
    assert isinstance(state.phase, Planning)


def test_a_scale_in_warms_nobody() -> None:
    run = harness(300)
    run.batches(1)
    run.cluster.grow(4, timeout_s=1, ticket=Ticket())
    run.batches(20)
    assert "done" in run.kinds
    assert not any(isinstance(i, Warm) for entry in run.instructions for i in entry)


def test_of_a_placement_asked_for_only_those_executors_are_warmed_that_get_state() -> None:
    state = after_batches(attached("abc", policy=PATIENT, cold="bc"), 0, "aaaa")
    _, report = step(state, MoveRequested({task(0): "c"}))
    assert acts(report) == [Warm(1, ("c",))]


def test_a_placement_asked_for_goes_on_without_the_tasks_of_a_query_that_left() -> None:
    state = attached("abc", policy=PATIENT, cold="bc", queries={QUERY: 4, "q": 2})
    state = after_batches(state, 0, "aaaa")
    state, _ = step(state, BatchObserved(batch(0, "aa", query="q")))
    state, _ = step(state, MoveRequested({task(0): "c", task(1, "q"): "b"}))
    state, _ = after(state, QueryLeft(1500, "q", RUN, "it ended"), Answered(1, None))
    assert isinstance(state.phase, Moving)
    assert state.phase.missing(state.queries[QUERY]) == (task(0),)
    assert state.phase.target.goal.keys() == {task(j) for j in range(4)}


def test_a_placement_asked_for_of_a_query_that_was_started_again_is_given_up() -> None:
    state = after_batches(attached("ab", policy=PATIENT, cold="b"), 0, "aaaa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    again = QueryJoined(1500, QUERY, "run 2", OperatorGraph({0: None}), 4)
    state, report = after(
        state, QueryLeft(1500, QUERY, RUN, "it was started again"), again, Answered(1, None)
    )
    assert isinstance(state.phase, Steady)
    (why,) = [reason for reason in reasons(report) if "given up" in reason]
    assert why.startswith("move given up: its tasks have left with their queries")


# Settling


def settling(*durations_ms: float, settle_batches: int = 5) -> tuple[LoopState, list[str]]:
    """The loop after a new executor was warmed, then batches of these durations; usual are 500."""
    state = warming(
        replace(PATIENT, movement=replace(PATIENT.movement, settle_batches=settle_batches))
    )
    first, *later = durations_ms
    state, _ = after(state, seen(1, duration_ms=first), Answered(2, None))
    phases = [type(state.phase).__name__]
    for number, duration_ms in enumerate(later, 2):
        state, _ = step(state, seen(number, duration_ms=duration_ms))
        phases.append(type(state.phase).__name__)
    return state, phases


def test_a_query_that_was_held_up_settles_before_state_moves() -> None:
    assert settling(1500, 1000, 700, 590)[1] == ["Settling"] * 3 + ["Planning"]


def test_a_query_that_does_not_recover_by_itself_is_not_kept_waiting() -> None:
    assert settling(1500, 1490)[1] == ["Settling", "Planning"]


def test_settling_is_bounded() -> None:
    assert settling(2000, 1800, 1600, settle_batches=2)[1] == ["Settling"] * 2 + ["Planning"]


def test_how_many_batches_more_may_be_waited_for_is_reported() -> None:
    state = warming(replace(PATIENT, movement=replace(PATIENT.movement, settle_batches=3)))
    state, report = after(
        state,
        seen(1, duration_ms=9000),
        Answered(2, None),
        *(seen(number, duration_ms=9000 - 1000 * number) for number in range(2, 5)),
    )
    more = [reason.split("; ")[-1] for reason in reasons(report)[1:4]]
    assert more == [f"up to {number} more to settle" for number in (3, 2, 1)]
    assert isinstance(state.phase, Planning)


def test_settling_can_be_switched_off() -> None:
    assert settling(2000, settle_batches=0)[1] == ["Planning"]


def test_batches_as_usual_need_no_settling() -> None:
    assert settling(550)[1] == ["Planning"]


def test_a_change_can_be_given_up_while_it_settles() -> None:
    state, reports = step(settling(1500)[0], AbandonRequested("enough"))
    assert isinstance(state.phase, Steady)
    assert (kinds(reports), acts(reports)) == (["abandon"], [])


@pytest.mark.parametrize(
    "event",
    [
        Status(3000, frozenset({QUERY})),
        QueryLeft(3000, QUERY, RUN, "it ended"),
        Status(40_000),
        Tick(303_000),
    ],
    ids=["idle", "gone", "late", "for too long"],
)
def test_a_query_that_does_not_settle_any_more_is_not_waited_for(
    event: Status | QueryLeft | Tick,
) -> None:
    state, _ = settling(1500)
    assert isinstance(state.phase, Settling)
    state, _ = step(state, event)
    assert not isinstance(state.phase, Settling)


def test_other_queries_go_on_while_one_settles_and_the_log_says_so() -> None:
    state, _ = after(settling(1500)[0], QueryJoined(2500, "other", RUN))
    state, report = step(state, BatchObserved(batch(0, "a", query="other", at_ms=2600)))
    assert isinstance(state.phase, Settling)
    assert reasons(report) == ["scale-out: 1 other queries settle"]


# Planning


@dataclass(frozen=True)
class Hopeless:
    """A planner that finds nothing."""

    name: str = "hopeless"
    contiguous: bool = False

    def __call__(self, problem: StepProblem, /) -> Infeasible:
        return Infeasible(f"{problem.target.nodes} nodes are not enough")


def planning(policy: Policy = PATIENT) -> tuple[LoopState, Plan]:
    """A plan for two executors was asked for where three are alive."""
    state, report = step(
        after_batches(attached("abc", policy=policy), 0, "aabbcc"), ScaleRequested(2)
    )
    return state, plan_of(report)


def test_a_plan_is_made_from_where_tasks_are_and_what_they_cost() -> None:
    state = attached("ab", policy=PATIENT)
    state, _ = step(state, seen(0, "aaab", run_ms=[100, 200, 300, 400], state_bytes=7))
    _, report = step(state, ScaleRequested(2))
    plan = plan_of(report)
    assert (plan.tasks, plan.nodes) == (tuple(task(j) for j in range(4)), ("a", "b"))
    assert plan.order.problem.work == (0.1, 0.2, 0.3, 0.4)
    assert plan.order.problem.state == (7, 7, 7, 7)
    assert plan.order.problem.current.nodes_of_tasks == (0, 0, 0, 1)
    assert (plan.order.planner, plan.order.max_tasks) == (SINGLE_STEP, 2)


def test_a_task_whose_executor_was_lost_is_planned_as_one_without_state() -> None:
    state = after_batches(attached("abc", policy=PATIENT), 0, "aabbcc")
    state, _ = after(state, ExecutorsChanged(1500, executors("a", "c")))
    _, report = step(state, ScaleRequested(2))
    problem = plan_of(report).order.problem
    assert problem.state == (1000, 1000, 0, 0, 1000, 1000)
    assert problem.current.nodes_of_tasks == (0, 0, 0, 0, 1, 1), "next to its neighbour"


def test_tasks_that_have_not_been_measured_count_alike() -> None:
    state = attached("ab", policy=PATIENT)
    state, _ = step(state, seen(0, "aab", interval_ms=None))
    _, report = step(state, ScaleRequested(2))
    assert plan_of(report).order.problem.work == (1.0, 1.0, 1.0)


def test_all_queries_and_operators_are_planned_together_in_order() -> None:
    tasks = tuple(
        SimulatedTask(operator, j, 1 / 4, 0.1, 10) for operator in (0, 1) for j in range(4)
    )
    run = harness({"b": 100.0, "a": 100.0}, policy=PATIENT, tasks=4)
    run.cluster.queries["b"].workload = Workload(tasks, lambda _: 100.0, name="b")
    run.batches(4)
    plan = plan_of(run.feed(ScaleRequested(1)))
    assert list(plan.tasks) == [
        TaskId(query, operator, j)
        for query, operator in (("a", 0), ("b", 0), ("b", 1))
        for j in range(4)
    ]


def test_the_limit_is_widened_where_the_tasks_are_too_few_to_be_spread_evenly() -> None:
    state = after_batches(attached("ab", policy=replace(PATIENT, tau=0.1)), 0, "aaa")
    _, report = step(state, ScaleRequested(2))
    planned = route(plan_of(report).order).problem
    assert planned is not None
    assert planned.target.tau == pytest.approx(1 / 3)


def test_a_plan_that_failed_ends_the_change() -> None:
    state, plan = planning()
    state, report = step(state, Answered(plan.ticket, Failure("out of luck")))
    assert isinstance(state.phase, Steady)
    assert reasons(report)[0].startswith("scale-in given up: a plan failed: out of luck;")


def test_no_plan_ends_the_change_with_its_reason() -> None:
    state, plan = planning(replace(PATIENT, planner=Hopeless()))
    state, report = step(state, Answered(plan.ticket, route(plan.order)))
    assert isinstance(state.phase, Steady)
    assert reasons(report)[0].startswith("scale-in given up: no plan: 2 nodes are not enough;")


def test_a_plan_that_takes_too_long_is_cancelled_and_the_change_ends() -> None:
    state, plan = planning()
    state, report = step(state, Tick(301_001))
    assert acts(report) == [Cancel(plan.ticket)]
    assert reasons(report)[-1].startswith("scale-in given up: no plan in 300 s;")
    assert isinstance(state.phase, Steady)


def test_batches_pass_while_a_plan_is_made_and_the_log_says_so() -> None:
    state, _ = planning()
    state, report = step(state, seen(1, "aabbcc"))
    assert isinstance(state.phase, Planning)
    assert reasons(report) == ["a plan not ready after 1 s"]


def test_an_executor_lost_while_a_plan_is_made_leads_to_a_new_plan() -> None:
    state, plan = planning()
    state, report = step(state, ExecutorsChanged(1500, executors("a", "b")))
    placed, cancelled, *_ = acts(report)
    assert placed == Place(2, QUERY, {task(4): "a", task(5): "b"}, ("c",))
    assert cancelled == Cancel(plan.ticket)
    assert kinds(report) == ["lost", "replan"]
    assert plan_of(report).nodes == ("a", "b")
    assert step(state, Answered(plan.ticket, route(plan.order))) == (state, ())


def test_a_plan_that_tasks_have_run_away_from_is_made_anew() -> None:
    state, plan = planning()
    state, _ = step(state, seen(1, "aabbca"))
    state, report = step(state, Answered(plan.ticket, route(plan.order)))
    assert kinds(report) == ["replan"]
    assert "executors or tasks changed places while it was planned" in reasons(report)[0]
    assert plan_of(report).order.problem.current.nodes_of_tasks == (0, 0, 1, 1, 2, 0)


def test_a_change_disturbed_too_often_is_abandoned() -> None:
    state, plan = planning(replace(PATIENT, movement=replace(PATIENT.movement, replans=1)))
    state, _ = after(state, seen(1, "aabbca"), Answered(plan.ticket, route(plan.order)))
    assert isinstance(state.phase, Planning)
    answer = Answered(state.phase.ticket, route(state.phase.order))
    state, report = after(state, seen(2, "aabbcb"), answer)
    assert isinstance(state.phase, Steady)
    assert "while it was planned, after 1 new plans;" in reasons(report)[-1]


def test_without_tasks_executors_come_and_go_without_a_plan() -> None:
    state, report = after(
        attached("a", policy=PATIENT), ScaleRequested(2), Answered(1, executors("a", "b"))
    )
    assert kinds(report) == ["scale-out", "wait", "done"]
    state, report = step(state, ScaleRequested(1))
    assert acts(report) == [Release(2, ("b",))], "the youngest"


def test_nothing_to_move_is_a_change_that_is_done_at_once() -> None:
    state, report = step(after_batches(attached("ab", policy=PATIENT), 0, "ab"), ScaleRequested(2))
    plan = plan_of(report)
    state, report = step(state, Answered(plan.ticket, route(plan.order)))
    assert kinds(report) == ["plan", "done"]
    assert isinstance(state.phase, Steady)


# Releasing


def releasing() -> tuple[LoopState, Release]:
    """Executor b holds nothing and was released."""
    state, report = step(
        after_batches(attached("ab", policy=PATIENT), 0, "aaaa"), ScaleRequested(1)
    )
    plan = plan_of(report)
    state, report = step(state, Answered(plan.ticket, route(plan.order)))
    (release,) = acts(report)
    assert isinstance(release, Release)
    return state, release


def test_executors_that_hold_nothing_are_given_back_and_the_change_is_done() -> None:
    state, release = releasing()
    assert release.ids == ("b",)
    state, report = step(state, Answered(release.ticket, None))
    assert kinds(report) == ["done"]
    assert state.alive == {"a"}
    assert isinstance(state.phase, Steady)


def test_the_going_of_those_that_were_released_is_no_loss() -> None:
    state, _ = releasing()
    state, report = step(state, ExecutorsChanged(1500, executors("a")))
    assert report == ()
    assert isinstance(state.phase, Releasing)


def test_a_release_that_is_refused_is_planned_anew() -> None:
    run = harness(300, number=4)
    while not run.pending or not isinstance(run.pending[0], Release):
        run.batches(1, answering=False)
        while run.pending and not isinstance(run.pending[0], Release):
            run.answer()
    run.fail("executor 3 still holds state")
    assert "not released: executor 3 still holds state" in run.decisions[-1].reason
    run.batches(10)
    assert len(run.cluster.executors()) == 1


def test_a_release_without_an_answer_is_given_up_in_the_end() -> None:
    state, release = releasing()
    state, report = step(state, Tick(301_001))
    assert acts(report) == [Cancel(release.ticket)]
    assert reasons(report)[-1].startswith(
        "scale-in given up: no answer about the release in 300 s;"
    )


def test_batches_pass_during_a_release_and_the_log_says_so() -> None:
    state, _ = releasing()
    state, report = step(state, seen(1))
    assert isinstance(state.phase, Releasing)
    assert reasons(report) == ["the release not ready after 1 s"]


def test_an_executor_that_holds_a_task_no_plan_knew_of_is_not_released() -> None:
    state, report = step(after_batches(attached("ab", policy=PATIENT), 0, "ab"), ScaleRequested(1))
    plan = plan_of(report)
    state, _ = step(state, Answered(plan.ticket, route(plan.order)))
    assert isinstance(state.phase, Moving)
    (leaves,) = state.phase.target.leaving
    (stays,) = state.phase.target.nodes
    state, report = step(state, seen(1, stays * 2 + leaves))
    assert not any(isinstance(each, Release) for each in report)
    assert f"a task that no plan knew of is on executor {leaves}" in reasons(report)[-1]
    assert isinstance(state.phase, Planning)


def test_no_more_executors_are_released_than_are_too_many_by_then() -> None:
    state = after_batches(attached("abcd", policy=PATIENT), 0, "aa")
    state, report = step(state, ScaleRequested(3))
    plan = plan_of(report)
    state, _ = step(state, Answered(plan.ticket, route(plan.order)))
    phase = state.phase
    assert isinstance(phase, Moving)
    assert len(phase.target.leaving) == 1
    idle = min(set("abcd") - phase.target.nodes - set(phase.target.leaving))
    alive = executors(*(node for node in "abcd" if node != idle))
    arrived = [phase.target.goal[task(j)] for j in range(2)]
    state, report = after(state, ExecutorsChanged(1500, alive), BatchObserved(batch(1, arrived)))
    assert kinds(report) == ["lost", "wait", "done"]
    assert not any(isinstance(each, Release) for each in report)


# Who looks after whom


def test_an_operator_graph_says_who_feeds_whom() -> None:
    graph = OperatorGraph({0: None, 1: 0, 2: 0, 3: 1})
    assert [graph.sources_of(each) for each in range(4)] == [(1, 2), (3,), (), ()]


def test_a_loop_may_begin_without_a_clock() -> None:
    state, _ = start_loop(POLICY, executors("a"))
    assert state.passed_s(None) == 0.0
    assert state.now_ms is None
