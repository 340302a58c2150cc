from __future__ import annotations

from dataclasses import replace

import pytest
from tests.control.builders import batch, executors, task
from tests.control.harness import Harness

from elastream.control.events import (
    AbandonRequested,
    ActionFailed,
    BatchObserved,
    DetachRequested,
    ExecutorsChanged,
    Grow,
    GrowFinished,
    Log,
    MoveRequested,
    Place,
    PlaceFailed,
    Plan,
    PlanMade,
    Release,
    ScaleRequested,
    Warm,
    WarmFinished,
)
from elastream.control.planning import route
from elastream.control.policy import Policy
from elastream.control.state import Awaiting, Detached, Locating, LoopState, Migrating, Steady
from elastream.control.step import started, step
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import even_workload

POLICY = Policy(
    max_executors=4,
    patience=2,
    cooldown_s=5,
    smoothing_s=0.1,
    moves_per_batch=2,
    planner="single-step",
)


def harness(
    rows_per_s: float = 1600, *, policy: Policy = POLICY, number: int = 2, slots: int = 10
) -> Harness:
    """Eight tasks of a millisecond a row: 1,600 rows a second keep 1.6 cores busy."""
    settings = ClusterSettings(executors=number, slots=slots)
    return Harness(SimulatedCluster(even_workload(8, lambda _: rows_per_s), settings), policy)


def until_migrating(run: Harness) -> Migrating:
    for _ in range(20):
        run.batches(1)
        if isinstance(run.state.phase, Migrating):
            return run.state.phase
    raise AssertionError("no migration began")


def observed(state: LoopState, number: int, where: str, *alive: str) -> LoopState:
    return step(state, BatchObserved(batch(number, where), executors(*alive)))[0]


def test_a_scale_out_grows_warms_plans_moves_and_ends() -> None:
    run = harness(1900)
    run.batches(30)
    turns = [k for k in run.kinds if k != "hold"]
    assert turns[:4] == ["attach", "scale-out", "wait", "plan"]
    assert turns[4:] == ["migrate"] * turns.count("migrate") + ["done"]
    actions = [type(i) for told in run.told for i in told if not isinstance(i, Log | Place)]
    assert actions == [Grow, Warm, Plan]
    held = list(run.cluster.where().values())
    assert sorted(held.count(node) for node in set(held)) == [2, 3, 3]


def test_a_scale_in_drains_before_it_releases() -> None:
    run = harness(300, number=4)
    run.batches(40)
    assert [k for k in run.kinds if k != "hold"][1:3] == ["scale-in", "plan"]
    assert run.kinds.count("done") == 1
    assert len(run.cluster.executors()) == 1


def test_every_batch_has_its_line_in_the_log() -> None:
    run = harness(1900)
    run.batches(30)
    assert {decision.batch for decision in run.decisions} == {None, *range(30)}


def test_patience_is_counted_in_batches_in_a_row() -> None:
    policy = replace(POLICY, patience=3)
    state, _ = started(policy, executors("a"))
    busy, calm = [450.0, 450.0], [300.0, 300.0]
    kinds = []
    for number, times in enumerate([calm, busy, busy, calm, busy, busy, busy]):
        state, told = step(state, BatchObserved(batch(number, "aa", run_ms=times), executors("a")))
        kinds += [i.decision.kind for i in told if isinstance(i, Log)]
    assert kinds == ["hold"] * 6 + ["scale-out"]


def test_nothing_is_decided_while_cooling_down() -> None:
    run = harness(1900, policy=replace(POLICY, cooldown_s=20))
    run.batches(14)
    ended = next(d for d in run.decisions if d.kind == "done")
    run.cluster.workload = even_workload(8, lambda _: 100)
    run.batches(30)
    assert ended.at_ms is not None
    later = [d for d in run.decisions if d.at_ms is not None and d.at_ms > ended.at_ms]
    resting = [d for d in later if d.at_ms is not None and d.at_ms < ended.at_ms + 20_000]
    assert {d.kind for d in resting} == {"hold"}
    assert any("cooling down" in d.reason for d in resting)
    assert "scale-in" in {d.kind for d in later}


def test_advice_is_planned_and_logged_and_nothing_is_touched() -> None:
    run = harness(1900, policy=replace(POLICY, advise_only=True))
    before = run.cluster.executors()[0].id
    run.batches(20)
    advice = [d for d in run.decisions if d.kind == "advise"]
    assert advice
    assert "from 2 to 3 executors" in advice[0].reason
    assert advice[0].figures["tasks_to_move"] > 0
    assert [e.id for e in run.cluster.executors()] == [before, "1"]


def test_fewer_executors_than_asked_for_are_used() -> None:
    run = harness(3500, slots=3)
    run.batches(20)
    assert any("3 of 4 executors are alive" in d.reason for d in run.decisions)
    assert "done" in run.kinds
    assert len(set(run.cluster.where().values())) == 3


def test_no_executor_in_time_is_reported_and_the_query_left_as_it_is() -> None:
    run = harness(1900, slots=2)
    run.batches(6)
    given_up = next(d for d in run.decisions if d.kind == "abandon")
    assert "3 executors asked for, 2 alive after at most 60 s" in given_up.reason
    assert isinstance(run.state.phase, Steady)


def test_a_failed_warm_up_does_not_stop_the_scale_out() -> None:
    state, _ = started(POLICY, executors("a"))
    for number in range(2):
        state = observed(state, number, "aaaaaaaaa", "a")
    phase = state.phase
    assert isinstance(phase, Awaiting)
    grown = GrowFinished(phase.action.ticket, executors("a", "b", cold="b"))
    state, told = step(state, grown)
    assert told[-1] == Warm(phase.action.ticket + 1, ("b",))
    state, told = step(state, ActionFailed(phase.action.ticket + 1, "no room"))
    assert isinstance(told[0], Log)
    assert "going on cold: no room" in told[0].decision.reason
    assert isinstance(told[1], Plan)


def test_an_answer_nobody_waits_for_is_passed_over() -> None:
    state, _ = started(POLICY, executors("a"))
    for number in range(2):
        state = observed(state, number, "aaaaaaaaa", "a")
    phase = state.phase
    assert isinstance(phase, Awaiting)
    assert step(state, WarmFinished(phase.action.ticket)) == (state, ())
    late = GrowFinished(phase.action.ticket + 7, executors("a", "b"))
    assert step(state, late) == (state, ())


def test_an_action_without_an_answer_is_given_up_in_the_end() -> None:
    run = harness(1900, policy=replace(POLICY, action_timeout_s=60))
    run.batches(5, answering=False)
    assert isinstance(run.state.phase, Awaiting)
    run.batches(60, answering=False)
    assert "no answer about executors" in next(
        d.reason for d in run.decisions if d.kind == "abandon"
    )


def test_a_move_that_does_not_hold_is_asked_for_again() -> None:
    run = harness(1900)
    until_migrating(run)
    run.cluster.obeys = lambda _: False
    run.batches(3)
    asked = [i for told in run.told for i in told if isinstance(i, Place)]
    assert asked[0] == asked[1] == asked[2]
    run.cluster.obeys = lambda _: True
    run.batches(10)
    assert run.kinds[-1] in ("done", "hold")
    assert run.kinds.count("done") == 1


def test_a_migration_that_is_not_obeyed_is_abandoned_after_bounded_tries() -> None:
    run = harness(1900)
    phase = until_migrating(run)
    stuck = phase.steps[1][0]
    run.cluster.obeys = lambda moved: moved != stuck
    run.batches(12)
    given_up = next(d for d in run.decisions if d.kind == "abandon")
    assert f"task 0/{stuck.partition} not moved in 5 tries" in given_up.reason
    assert given_up.figures["tasks_moved"] == len(phase.steps[0]) + len(phase.steps[1]) - 1
    for moved in phase.steps[0]:
        assert run.cluster.where()[moved] == phase.goal[moved], "what moved stays moved"


def test_the_next_plan_after_an_abandoned_one_starts_from_the_truth() -> None:
    run = harness(1900)
    phase = until_migrating(run)
    run.batches(1)
    run.feed(AbandonRequested("changed my mind"))
    assert "changed my mind; 0 tasks moved" in run.decisions[-1].reason
    run.batches(1)
    told = run.feed(ScaleRequested(3))
    plan = told[-1]
    assert isinstance(plan, Plan)
    where = [plan.nodes[n] for n in plan.order.problem.current.nodes_of_tasks]
    assert dict(zip(plan.tasks, where, strict=True)) == run.cluster.where()
    for moved in phase.steps[0]:
        assert run.cluster.where()[moved] == phase.goal[moved]


def test_a_lost_target_leads_to_a_new_plan_from_the_truth() -> None:
    run = harness(1900)
    until_migrating(run)
    run.batches(1)
    run.cluster.kill("2")
    run.batches(12)
    assert "replan" in run.kinds
    assert isinstance(run.state.phase, Steady)
    assert set(run.cluster.where().values()) <= {"0", "1", "3"}


def test_a_loss_heard_between_batches_counts_at_once() -> None:
    run = harness(1900)
    until_migrating(run)
    run.cluster.kill("2")
    run.feed(ExecutorsChanged(run.cluster.executors()))
    assert run.kinds[-1] == "replan"
    assert isinstance(run.state.phase, Locating)


def test_a_migration_disturbed_too_often_is_abandoned() -> None:
    run = harness(1900, policy=replace(POLICY, replans=1))
    for _ in range(2):
        until_migrating(run)
        run.cluster.kill(run.cluster.executors()[0].id)
        run.cluster.grow(3, timeout_s=1)
        run.batches(1)
    assert "after 1 new plans" in next(d.reason for d in run.decisions if d.kind == "abandon")


def test_tasks_on_no_living_executor_are_waited_for() -> None:
    state, _ = started(POLICY, executors("a", "b"))
    state = observed(state, 0, "aabb", "a", "b")
    state, told = step(state, ScaleRequested(1))
    assert isinstance(told[-1], Plan)
    state, _ = step(state, ActionFailed(told[-1].ticket, "x"))
    state = observed(state, 1, "aabb", "b")
    state, told = step(state, ScaleRequested(1))
    assert isinstance(state.phase, Locating)
    state, told = step(state, BatchObserved(batch(2, "bbbb"), executors("b")))
    assert isinstance(told[-1], Plan)


def test_tasks_that_are_never_seen_again_end_the_change() -> None:
    state, _ = started(replace(POLICY, action_timeout_s=60), executors("a", "b"))
    state = observed(state, 0, "aabb", "a", "b")
    state = observed(state, 1, "aabb", "b")
    state, _ = step(state, ScaleRequested(1))
    told: tuple[object, ...] = ()
    for number in range(2, 70):
        if isinstance(state.phase, Locating):
            event = BatchObserved(batch(number, {2: "b", 3: "b"}), executors("b"))
            state, told = step(state, event)
    assert isinstance(told[0], Log)
    assert "2 tasks not seen on any living executor in 61 s" in told[0].decision.reason


def test_a_release_that_is_refused_is_planned_anew() -> None:
    run = harness(300, number=4)
    while not run.pending or not isinstance(run.pending[0], Release):
        run.batches(1, answering=False)
        while run.pending and not isinstance(run.pending[0], Release):
            run.answer()
    action = run.pending.popleft()
    run.feed(ActionFailed(action.ticket, "executor 3 still holds state"))
    assert "not released: executor 3 still holds state" in run.decisions[-1].reason
    run.batches(10)
    assert len(run.cluster.executors()) == 1


def test_a_task_that_wanders_off_is_fetched_back() -> None:
    run = harness(1900)
    phase = until_migrating(run)
    run.batches(2)
    first = phase.steps[0][0]
    run.cluster.place({first: "0" if phase.goal[first] != "0" else "1"})
    run.batches(8)
    assert "done" in run.kinds
    assert run.cluster.where()[first] == phase.goal[first]


def test_a_task_that_was_to_stay_and_wandered_off_is_fetched_back() -> None:
    run = harness(1900)
    phase = until_migrating(run)
    moving = {moved for one in phase.steps for moved in one}
    stays = next(one for one in phase.goal if one not in moving)
    run.cluster.place({stays: "0" if phase.goal[stays] != "0" else "1"})
    run.batches(8)
    assert "done" in run.kinds
    assert run.cluster.where() == phase.goal


def test_tasks_that_keep_wandering_off_end_the_migration() -> None:
    run = harness(1000, policy=replace(POLICY, tries=2, patience=10**6))
    run.batches(2)
    run.feed(MoveRequested({task(j): "0" for j in range(8)}))
    for number in range(30):
        run.batches(1)
        if isinstance(run.state.phase, Migrating):
            run.cluster.place({task((number - 1) % 8): "1"})
    given_up = [d.reason for d in run.decisions if d.kind == "abandon"]
    assert len(given_up) == 1
    assert "tasks keep leaving their places" in given_up[0]


def test_a_migration_may_have_more_steps_than_a_move_has_tries() -> None:
    run = harness(1000, policy=replace(POLICY, tries=1, moves_per_batch=1, patience=10**6))
    run.batches(2)
    run.feed(MoveRequested({task(j): "0" for j in range(8)}))
    run.batches(6)
    assert run.decisions[-1].kind == "hold"
    assert "done" in run.kinds


def test_an_executor_lost_while_a_plan_is_made_leads_to_a_new_plan() -> None:
    run = harness(1000, number=3)
    run.batches(2)
    run.feed(ScaleRequested(2))
    assert isinstance(run.pending[0], Plan)
    run.cluster.kill("2")
    run.batches(1, answering=False)
    run.answer()
    assert "changed places while it was planned" in run.decisions[-1].reason
    assert isinstance(run.state.phase, Locating)


def test_a_scale_in_warms_nobody() -> None:
    run = harness(300)
    run.batches(1)
    run.cluster.grow(4, timeout_s=1)
    run.batches(20)
    assert "done" in run.kinds
    assert not any(isinstance(i, Warm) for told in run.told for i in told)


def test_an_executor_that_holds_a_task_no_plan_knew_of_is_not_released() -> None:
    state, _ = started(replace(POLICY, patience=10**6), executors("a", "b"))
    state = observed(state, 0, "aa", "a", "b")
    state, told = step(state, ScaleRequested(1))
    plan = told[-1]
    assert isinstance(plan, Plan)
    state, _ = step(state, PlanMade(plan.ticket, route(plan.order)))
    state, told = step(state, BatchObserved(batch(1, "aab"), executors("a", "b")))
    assert not any(isinstance(i, Release) for i in told)
    assert isinstance(told[0], Log)
    assert "no plan knew of is on executor b" in told[0].decision.reason


def test_no_more_executors_are_released_than_are_too_many_by_then() -> None:
    state, _ = started(replace(POLICY, patience=10**6), executors(*"abcd"))
    state = observed(state, 0, "aa", *"abcd")
    state, told = step(state, ScaleRequested(3))
    plan = told[-1]
    assert isinstance(plan, Plan)
    state, _ = step(state, PlanMade(plan.ticket, route(plan.order)))
    phase = state.phase
    assert isinstance(phase, Migrating)
    assert phase.leaving == ("d",)
    arrived = [phase.goal[task(j)] for j in range(2)]
    idle = next(node for node in "abc" if node not in arrived)
    alive = [node for node in "abcd" if node != idle]
    state, told = step(state, BatchObserved(batch(1, arrived), executors(*alive)))
    assert isinstance(state.phase, Steady)
    assert not any(isinstance(i, Release) for i in told)


def test_a_replayed_batch_leads_to_nothing() -> None:
    run = harness(1900)
    run.batches(3)
    before = run.state
    assert run.last_batch is not None
    assert run.feed(BatchObserved(run.last_batch, run.cluster.executors())) == ()
    assert run.state == replace(before, executors=run.state.executors)


def test_a_person_may_ask_for_a_number_of_executors() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(ScaleRequested(4))
    run.batches(5)
    done = next(d for d in run.decisions if d.kind == "done")
    assert done.figures["executors_after"] == 4


@pytest.mark.parametrize("wrong", [0, 5])
def test_a_request_outside_the_bounds_is_refused(wrong: int) -> None:
    run = harness(1000)
    run.feed(ScaleRequested(wrong))
    assert run.decisions[-1].kind == "refuse"
    assert "allowed are 1 to 4" in run.decisions[-1].reason


def test_a_second_request_is_refused_while_one_is_under_way() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(ScaleRequested(4))
    run.feed(ScaleRequested(3))
    assert run.decisions[-1].kind == "refuse"


def test_a_person_may_ask_for_a_placement_in_portions() -> None:
    run = harness(1000)
    run.batches(2)
    goal = {task(j): "0" for j in range(8)}
    run.feed(MoveRequested(goal))
    run.batches(4)
    assert dict(run.cluster.where()) == goal
    assert "done" in run.kinds


def test_a_placement_that_needs_a_lost_executor_is_abandoned() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(MoveRequested({task(0): "1", task(1): "0"}))
    run.cluster.kill("1")
    run.batches(1)
    assert run.decisions[-1].kind == "abandon"
    assert "executor 1 was lost" in run.decisions[-1].reason


def test_a_placement_of_unknown_tasks_or_executors_is_refused() -> None:
    run = harness(1000)
    run.batches(2)
    run.feed(MoveRequested({task(99): "0"}))
    run.feed(MoveRequested({task(0): "x"}))
    assert [d.kind for d in run.decisions[-2:]] == ["refuse", "refuse"]


def test_giving_up_needs_something_under_way() -> None:
    run = harness(1000)
    run.feed(AbandonRequested("why not"))
    assert run.decisions[-1].kind == "refuse"


def test_a_place_that_fails_is_logged_and_tried_again() -> None:
    run = harness(1900)
    until_migrating(run)
    run.cluster.obeys = lambda _: False
    run.batches(1)
    run.feed(PlaceFailed("door shut"))
    assert "door shut" in run.decisions[-1].reason
    run.cluster.obeys = lambda _: True
    run.batches(8)
    assert "done" in run.kinds


def test_nothing_happens_after_detaching() -> None:
    run = harness(1900)
    until_migrating(run)
    run.feed(DetachRequested())
    assert isinstance(run.state.phase, Detached)
    assert run.kinds[-1] == "detach"
    run.batches(3)
    assert run.kinds[-1] == "detach"


def test_the_end_of_a_migration_is_told_with_all_figures() -> None:
    run = harness(1900)
    run.batches(20)
    done = next(d for d in run.decisions if d.kind == "done")
    plan = next(d for d in run.decisions if d.kind == "plan")
    assert done.figures["tasks_moved"] == plan.figures["tasks_to_move"]
    assert done.figures["state_bytes_moved"] == plan.figures["state_bytes_to_move"]
    assert done.figures["batches"] == plan.figures["mini_migrations"]
    assert done.figures["worst_batch_ms"] >= done.figures["median_batch_ms_before"] * 0.5
    assert done.figures["executors_before"] == 2
    assert done.figures["executors_after"] == 3


def test_several_operators_are_planned_together_in_order() -> None:
    run = harness(1000)
    tasks = run.cluster.workload.tasks
    second = tuple(replace(t, id=t.id._replace(operator=1), row_ms=0.1) for t in tasks)
    run.cluster.workload = replace(run.cluster.workload, tasks=(*tasks, *second))
    run.batches(2)
    told = run.feed(ScaleRequested(1))
    plan = told[-1]
    assert isinstance(plan, Plan)
    assert plan.tasks == tuple(sorted(plan.tasks))
    assert len(plan.tasks) == 16


def test_moves_that_never_happened_are_taken_back_when_a_migration_is_abandoned() -> None:
    run = harness(1900)
    phase = until_migrating(run)
    run.cluster.obeys = lambda _: False
    run.batches(6)
    asked = [i.wanted for told in run.told for i in told if isinstance(i, Place)]
    assert run.kinds[-1] == "abandon"
    assert asked[-1] == {moved: run.cluster.where()[moved] for moved in phase.steps[0]}


def warmed_after(*durations_ms: float, settle_batches: int = 5) -> tuple[LoopState, list[str]]:
    """The loop after a new executor was warmed, then batches of these durations; usual are 500."""
    policy = replace(POLICY, settle_batches=settle_batches)
    state, _ = started(policy, executors("a"))
    alive = executors("a", "b", cold="b")
    for number in range(2):
        state = observed(state, number, "aaaaaaaaa", "a")
    assert isinstance(state.phase, Awaiting)
    state, _ = step(state, GrowFinished(state.phase.action.ticket, alive))
    first, *later = durations_ms
    state, _ = step(state, BatchObserved(batch(2, "aaaaaaaaa", duration_ms=first), alive))
    assert isinstance(state.phase, Awaiting)
    phases = []
    state, _ = step(state, WarmFinished(state.phase.action.ticket))
    phases.append(type(state.phase).__name__)
    for number, duration_ms in enumerate(later, 3):
        seen = BatchObserved(batch(number, "aaaaaaaaa", duration_ms=duration_ms), alive)
        state, _ = step(state, seen)
        phases.append(type(state.phase).__name__)
    return state, phases


def test_a_query_that_was_held_up_settles_before_state_moves() -> None:
    state, phases = warmed_after(1500, 1000, 700, 590)
    assert phases == ["Settling", "Settling", "Settling", "Awaiting"]
    assert isinstance(state.phase, Awaiting)
    assert isinstance(state.phase.action, Plan)


def test_a_query_that_does_not_recover_by_itself_is_not_kept_waiting() -> None:
    assert warmed_after(1500, 1490)[1] == ["Settling", "Awaiting"]


def test_settling_is_bounded_and_can_be_switched_off() -> None:
    assert warmed_after(2000, 1800, 1600, settle_batches=2)[1] == ["Settling"] * 2 + ["Awaiting"]
    assert warmed_after(2000, settle_batches=0)[1] == ["Awaiting"]


def test_batches_as_usual_need_no_settling() -> None:
    assert warmed_after(550)[1] == ["Awaiting"]


def test_a_change_can_be_given_up_while_it_settles() -> None:
    state, _ = warmed_after(1500)
    state, told = step(state, AbandonRequested("enough"))
    assert isinstance(state.phase, Steady)
    assert [i.decision.kind for i in told if isinstance(i, Log)] == ["abandon"]
