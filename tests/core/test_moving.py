"""Tasks on their way: each query moves at its own boundaries, and no one holds up the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.builders import QUERY, RUN, batch, executors, load, task
from tests.core.harness import Harness
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

from elastream.core.events import (
    AbandonRequested,
    Answered,
    BatchObserved,
    Cancel,
    ExecutorsChanged,
    Log,
    MoveRequested,
    Place,
    Plan,
    QueryJoined,
    QueryLeft,
    ScaleRequested,
    Status,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.guards import log_outcome
from elastream.core.migrator.moving import Moving, portions
from elastream.core.migrator.planning import Planning
from elastream.core.policy import Movement
from elastream.core.ports import Placed, Ticket
from elastream.core.state import LoopState, Signal
from elastream.core.steady import Steady
from elastream.core.step import step
from elastream.goals.by_hand import ByHand
from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload

BY_HAND = replace(POLICY, goal=ByHand())


def places(run: Harness) -> list[Place]:
    return [each for entry in run.instructions for each in entry if isinstance(each, Place)]


def first_step(phase: Moving) -> tuple[TaskId, ...]:
    return phase.target.order[QUERY][: POLICY.movement.moves_per_batch]


def stray_place(phase: Moving, one: TaskId) -> dict[TaskId, str]:
    return {one: "0" if phase.target.goal[one] != "0" else "1"}


# Moves that do not hold


def test_a_move_that_does_not_hold_is_asked_for_again() -> None:
    run = harness(1900)
    until_moving(run)
    run.cluster.obeys = lambda _: False
    run.batches(3)
    asked = [place.wanted for place in places(run)]
    assert asked == [asked[0]] * 3
    decisions = [decision.figures for decision in run.decisions if decision.kind == "migrate"]
    assert [figures["tries"] for figures in decisions] == [0, 1, 2]
    assert [figures["asked_again"] for figures in decisions] == [0, 2, 2]
    run.cluster.obeys = lambda _: True
    run.batches(10)
    assert run.kinds.count("done") == 1


def test_of_what_is_asked_for_after_a_move_did_not_hold_only_that_move_is_asked_for_again() -> None:
    run = harness(1900)
    phase = until_moving(run)
    one, *_ = first_step(phase)
    run.cluster.obeys = lambda moved: moved != one
    run.batches(2)
    decisions = [decision.figures for decision in run.decisions if decision.kind == "migrate"]
    assert [(figures["tasks"], figures["asked_again"]) for figures in decisions] == [(2, 0), (2, 1)]


def test_a_migration_that_is_not_obeyed_is_abandoned_after_bounded_tries() -> None:
    run = harness(1900)
    phase = until_moving(run)
    order = phase.target.order[QUERY]
    stuck = order[2]
    run.cluster.obeys = lambda moved: moved != stuck
    run.batches(12)
    given_up = next(decision for decision in run.decisions if decision.kind == "abandon")
    assert f"task {stuck} not moved in 5 tries" in given_up.reason
    assert given_up.figures["tasks_moved"] == 3
    for moved in first_step(phase):
        assert run.cluster.where()[moved] == phase.target.goal[moved], "what moved stays moved"


def test_moves_that_the_runtime_does_not_take_are_reported_and_asked_for_again() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aaaa")
    state, _ = after(state, MoveRequested({task(0): "b"}), BatchObserved(batch(1, "aaaa")))
    state, report = step(state, Answered(1, Failure("the door is shut")))
    assert reasons(report) == ["the runtime did not take the moves: the door is shut"]
    assert [each.decision.figures for each in report if isinstance(each, Log)] == [
        {"tasks_refused": 1}
    ]
    state, report = step(state, BatchObserved(batch(2, "aaaa")))
    assert acts(report) == [Place(2, QUERY, {task(0): "b"})]
    state, report = step(state, BatchObserved(batch(3, "baaa")))
    assert kinds((*report, *log_outcome(state)[1])) == ["wait", "done"]


def test_a_door_that_stays_shut_is_tried_as_often_as_the_policy_says() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aaaa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    asked = 0
    for number in range(1, 20):
        state, report = step(state, BatchObserved(batch(number, "aaaa")))
        for each in acts(report):
            assert isinstance(each, Place)
            asked += 1
            state, _ = step(state, Answered(each.ticket, Failure("the door is shut")))
        if isinstance(state.phase, Steady):
            break
    assert asked == BY_HAND.movement.tries
    assert "task query/0/0 not moved in 5 tries" in reasons(report)[0]


def test_a_migration_may_have_more_steps_than_a_move_has_tries() -> None:
    run = harness(
        1000,
        policy=replace(BY_HAND, movement=replace(BY_HAND.movement, tries=1, moves_per_batch=1)),
    )
    run.batches(2)
    run.feed(MoveRequested({task(j): "0" for j in range(8)}))
    run.batches(6)
    run.judged()
    assert "done" in run.kinds


# Tasks that wander off


def test_a_task_that_wanders_off_is_fetched_back() -> None:
    run = harness(1900)
    phase = until_moving(run)
    run.batches(2)
    first = first_step(phase)[0]
    run.cluster.place(QUERY, stray_place(phase, first), ticket=Ticket())
    run.batches(8)
    run.judged()
    assert "done" in run.kinds
    assert run.cluster.where()[first] == phase.target.goal[first]


def test_a_task_that_was_to_stay_and_wandered_off_is_fetched_back() -> None:
    run = harness(1900)
    phase = until_moving(run)
    stays = next(one for one in phase.target.goal if one not in phase.target.order[QUERY])
    run.cluster.place(QUERY, stray_place(phase, stays), ticket=Ticket())
    run.batches(8)
    run.judged()
    assert "done" in run.kinds
    assert run.cluster.where() == phase.target.goal


def test_tasks_that_keep_wandering_off_end_the_migration() -> None:
    run = harness(1000, policy=replace(BY_HAND, movement=replace(BY_HAND.movement, tries=2)))
    run.batches(2)
    run.feed(MoveRequested({task(j): "0" for j in range(8)}))
    for number in range(40):
        run.batches(1)
        if isinstance(run.state.phase, Moving):
            run.cluster.place(QUERY, {task((number - 1) % 8): "1"}, ticket=Ticket())
    given_up = [d.reason for d in run.decisions if d.kind == "abandon"]
    assert len(given_up) == 1
    assert "tasks keep leaving their places" in given_up[0]


# Disturbances


def test_a_lost_executor_that_is_needed_leads_to_a_new_plan_from_the_truth() -> None:
    run = harness(1900)
    until_moving(run)
    run.batches(1)
    run.cluster.kill("2")
    run.batches(12)
    assert "replan" in run.kinds
    assert isinstance(run.state.phase, Steady)
    assert set(run.cluster.where().values()) <= {"0", "1", "3"}


def test_a_loss_heard_between_batches_counts_at_once() -> None:
    run = harness(1900)
    until_moving(run)
    run.cluster.kill("2")
    assert run.kinds[-2:] == ["lost", "replan"]
    assert isinstance(run.state.phase, Planning)


def test_the_loss_of_an_executor_that_no_one_needs_disturbs_nothing() -> None:
    state = after_batches(attached("abc", policy=BY_HAND), 0, "aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    state, report = step(state, ExecutorsChanged(1500, executors("a", "b")))
    assert kinds(report) == ["lost"]
    assert isinstance(state.phase, Moving)


def test_a_placement_that_needs_a_lost_executor_is_abandoned() -> None:
    run = harness(1000, policy=BY_HAND)
    run.batches(2)
    run.feed(MoveRequested({task(0): "1", task(1): "0"}))
    run.cluster.kill("1")
    assert run.kinds[-2:] == ["lost", "abandon"]
    assert "executor 1 was lost, and the placement asked for needs it" in run.decisions[-1].reason


def test_the_next_plan_after_an_abandoned_one_starts_from_the_truth() -> None:
    run = harness(1900)
    phase = until_moving(run)
    run.batches(1)
    run.feed(AbandonRequested("changed my mind"))
    assert "changed my mind; 0 tasks moved" in run.decisions[-1].reason
    run.batches(1)
    plan = run.feed(ScaleRequested(3))[-1]
    assert isinstance(plan, Plan)
    where = [plan.nodes[n] for n in plan.order.problem.current.nodes_of_tasks]
    assert dict(zip(plan.tasks, where, strict=True)) == run.cluster.where()
    for moved in first_step(phase):
        assert run.cluster.where()[moved] == phase.target.goal[moved]


def test_giving_up_a_migration_cancels_nothing_that_a_batch_will_do() -> None:
    run = harness(1900)
    until_moving(run)
    report = run.feed(AbandonRequested("enough"))
    assert not any(isinstance(each, Cancel) for each in report)


# Several queries


def frozen(run: Harness, query: str) -> None:
    """Let the next batch of a query never end."""
    known = run.cluster.queries[query]
    known.workload = replace(known.workload, overhead_ms=1e12)


def test_each_query_moves_at_its_own_boundaries() -> None:
    workloads = [
        even_workload(4, lambda _: 300.0, name="quick"),
        even_workload(4, lambda _: 300.0, name="slow", trigger_ms=5000.0),
    ]
    cluster = SimulatedCluster(workloads, ClusterSettings(executors=2))
    run = Harness(cluster, replace(BY_HAND, movement=replace(BY_HAND.movement, moves_per_batch=1)))
    run.seconds(12)
    goal = {TaskId(name, 0, j): "0" for name in ("quick", "slow") for j in range(4)}
    run.feed(MoveRequested(goal))
    run.seconds(20)
    for event, entry in zip(run.events, run.instructions[1:], strict=True):
        for each in entry:
            if isinstance(each, Place):
                assert isinstance(event, BatchObserved)
                assert event.batch.query == each.query
    assert [place.query for place in places(run)].count("slow") == 2
    assert run.cluster.where() == goal


def test_a_query_with_nothing_to_move_gets_what_is_left_of_the_others() -> None:
    state = attached("ab", policy=BY_HAND, queries={"q": 0, "r": 0})
    state, _ = after(state, *(BatchObserved(batch(0, "aa", query=name)) for name in ("q", "r")))
    state, _ = step(state, MoveRequested({task(0, "q"): "b"}))
    state, report = step(state, BatchObserved(batch(1, "aa", query="r")))
    assert reasons(report) == ["move: 1 tasks of q are left"]


def late_query() -> tuple[Harness, dict[str, float]]:
    """A change that waits for query b alone, whose batch does not end."""
    rates = {"a": 500.0, "b": 500.0}
    run = harness(rates, policy=replace(POLICY, min_executors=3), number=3)
    run.seconds(8)
    frozen(run, "b")
    run.seconds(2)
    run.feed(MoveRequested({TaskId(name, 0, j): "0" for name in "ab" for j in range(5)}))
    run.seconds(15)
    phase = run.state.phase
    assert isinstance(phase, Moving)
    assert [bool(phase.missing(run.state.queries[name])) for name in "ab"] == [False, True]
    return run, rates


def test_a_slow_query_does_not_keep_the_others_from_moving() -> None:
    run, _ = late_query()
    assert "tasks of b are left" in run.decisions[-1].reason


def test_a_late_query_does_not_hold_up_decisions() -> None:
    run, rates = late_query()
    run.seconds(30)
    assert run.decisions[-1].kind == "hold", "the goal is asked again"
    assert isinstance(run.state.phase, Moving)
    rates["a"] = 2500.0
    run.seconds(30)
    given_up = next(decision for decision in run.decisions if decision.kind == "abandon")
    assert "it waits for b alone, and scale-out is wanted" in given_up.reason
    assert len(run.cluster.executors()) == 4


def test_a_request_that_waits_comes_before_what_the_goal_wants_next_to_a_late_query() -> None:
    run, rates = late_query()
    run.seconds(30)
    run.feed(MoveRequested({TaskId("a", 0, 0): "1"}))
    rates["a"] = 2500.0
    before = len(run.decisions)
    run.seconds(12)
    decisions = [
        d.kind for d in run.decisions[before:] if d.kind not in ("hold", "wait", "migrate")
    ]
    assert decisions[:3] == ["abandon", "move", "plan"]


def test_an_answer_that_no_one_waits_for_is_passed_over_while_tasks_move() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    assert step(state, Answered(99, Placed(idle=True))) == (state, ())


def test_a_change_that_begins_uses_up_the_patience_that_led_to_it() -> None:
    state = attached("a")
    state, report = after(
        state, *(BatchObserved(batch(number, "aa", run_ms=450)) for number in range(2))
    )
    assert kinds(report)[-1] == "scale-out"
    assert state.signal == Signal()


def test_a_query_that_reports_nothing_for_too_long_ends_the_change() -> None:
    run, _ = late_query()
    run.seconds(300)
    given_up = next(decision for decision in run.decisions if decision.kind == "abandon")
    assert "query b has reported nothing for 301 s" in given_up.reason


def test_a_query_that_leaves_in_the_middle_of_a_change_is_no_longer_waited_for() -> None:
    run, _ = late_query()
    run.cluster.end_query("b")
    run.judged()
    assert [kind for kind in run.kinds if kind in ("leave", "done")] == ["leave", "done"]
    assert isinstance(run.state.phase, Steady)


def test_a_change_goes_on_with_the_queries_that_stay() -> None:
    state = attached("ab", policy=BY_HAND, queries={"q": 0, "r": 0})
    state, _ = after(state, *(BatchObserved(batch(0, "aa", query=name)) for name in ("q", "r")))
    state, _ = step(state, MoveRequested({task(0, "q"): "b", task(0, "r"): "b"}))
    state, report = step(state, QueryLeft(1500, "q", RUN, "it ended"))
    assert kinds(report) == ["leave"]
    state, report = after(
        state,
        BatchObserved(batch(1, "aa", query="r")),
        BatchObserved(batch(2, "ba", query="r")),
    )
    report = (*report, *log_outcome(state)[1])
    assert kinds(report) == ["migrate", "wait", "done"]


def test_a_query_that_joins_in_the_middle_of_a_change_disturbs_nothing() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    state, report = after(
        state,
        QueryJoined(1500, "new", RUN),
        Tick(1600),
        BatchObserved(batch(0, "bb", query="new", at_ms=1700)),
    )
    assert isinstance(state.phase, Moving)
    assert kinds(report) == ["join", "wait"]


# What a batch may move


def moving(tasks: int, **bounds: int | None) -> list[int]:
    loads = load([0.1] * tasks, "a" * tasks).tasks
    movement = Movement(**{"moves_per_batch": None, "bytes_per_batch": None, **bounds})  # type: ignore[arg-type]
    policy = replace(POLICY, movement=movement)
    return [len(portion) for portion in portions(loads, loads, policy)]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({}, [5]),
        ({"moves_per_batch": 2}, [2, 2, 1]),
        ({"bytes_per_batch": 3000}, [3, 2]),
        ({"bytes_per_batch": 10}, [1] * 5),
        ({"moves_per_batch": 2, "bytes_per_batch": 1999}, [1] * 5),
    ],
)
def test_a_batch_moves_no_more_than_the_policy_says(
    limits: dict[str, int | None], sizes: list[int]
) -> None:
    assert moving(5, **limits) == sizes


def test_what_moved_is_counted_by_batch() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aaa")
    state, _ = step(state, MoveRequested({task(j): "b" for j in range(3)}))
    state, _ = after(
        state,
        BatchObserved(batch(1, "aaa", duration_ms=400)),
        BatchObserved(batch(2, "bba", duration_ms=900)),
        BatchObserved(batch(3, "bbb", duration_ms=700)),
    )
    _, (done,) = log_outcome(state)
    figures = {
        "executors_before": 2,
        "executors_after": 2,
        "executors_wanted": 2,
        "tasks_moved": 3,
        "state_bytes_moved": 3000,
        "tasks_ahead": 0,
        "state_bytes_ahead": 0,
        "batches": 2,
        "replans": 0,
        "seconds": 3.0,
        "worst_batch_ms": 900,
        "median_batch_ms_before": 500.0,
    }
    assert figures.items() <= done.decision.figures.items()


def test_a_status_in_the_middle_of_a_change_says_nothing() -> None:
    state = after_batches(attached("ab", policy=BY_HAND), 0, "aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    before: LoopState = state
    state, report = step(state, Status(1500, jobs=1))
    assert report == ()
    assert state.phase == before.phase
