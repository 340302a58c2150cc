"""Queries that have nothing to do: their tasks move at once, and executors may go, all of them."""

from __future__ import annotations

from dataclasses import replace

from tests.core.builders import QUERY, batch, executors, task
from tests.core.harness import Harness
from tests.core.scenes import POLICY, acts, after, after_batches, attached, harness, kinds, reasons

from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    ExecutorsChanged,
    Grow,
    Log,
    MoveRequested,
    Place,
    Release,
    ScaleRequested,
    Status,
)
from elastream.core.goal import Failure
from elastream.core.guards import log_outcome
from elastream.core.migrator.ending import Releasing
from elastream.core.migrator.growing import Growing
from elastream.core.migrator.moving import Moving
from elastream.core.ports import Placed
from elastream.core.state import LoopState
from elastream.core.steady import Steady
from elastream.core.step import step
from elastream.goals.by_hand import ByHand
from elastream.model.observation import TaskId

BY_HAND = replace(POLICY, goal=ByHand())
TO_ZERO = replace(POLICY, min_executors=0, timeouts=replace(POLICY.timeouts, idle_s=20.0))
IDLE = frozenset({QUERY})


def resting(rate: float = 500.0) -> tuple[Harness, dict[str, float]]:
    """A query on two executors that has become idle."""
    rates = {QUERY: rate}
    run = harness(rates, policy=BY_HAND)
    run.seconds(5)
    rates[QUERY] = 0.0
    run.seconds(5)
    assert run.state.queries[QUERY].idle
    return run, rates


def idle_state(where: str, alive: str = "ab") -> LoopState:
    """A loop whose query ran one batch and is idle."""
    return step(after_batches(attached(alive, policy=BY_HAND), 0, where), Status(2000, IDLE))[0]


def everything_on(node: str) -> dict[TaskId, str]:
    return {task(j): node for j in range(8)}


# Moves in idle time


def test_the_tasks_of_an_idle_query_move_at_once() -> None:
    run, _ = resting()
    report = run.feed(MoveRequested(everything_on("0")))
    (place,) = acts(report)
    assert isinstance(place, Place)
    moved = {one for one, node in run.cluster.where().items() if node != "0"}
    assert place.wanted == dict.fromkeys(moved, "0"), "all in one, whatever a batch may move"
    assert kinds(report) == ["move", "plan", "migrate"]
    assert run.kinds[-1] == "done"
    assert run.decisions[-1].figures["tasks_moved"] == len(moved)
    assert isinstance(run.state.phase, Steady)


def test_what_was_asked_for_in_idle_time_is_verified_by_the_next_batch() -> None:
    run, rates = resting()
    run.feed(MoveRequested(everything_on("0")))
    rates[QUERY] = 500.0
    run.batches(2)
    verified = [decision.reason for decision in run.decisions if decision.kind == "verify"]
    assert verified == ["4 tasks are where they were asked for in idle time"]
    assert run.cluster.where() == everything_on("0")
    assert run.state.queries[QUERY].believed == {}


def test_tasks_that_stray_after_idle_time_are_asked_for_again() -> None:
    run, rates = resting()
    run.feed(MoveRequested(everything_on("0")))
    run.cluster.obeys = lambda _: False
    rates[QUERY] = 500.0
    run.batches(2)
    run.cluster.obeys = lambda _: True
    run.batches(2)
    verified = [decision.reason for decision in run.decisions if decision.kind == "verify"]
    again = "4 tasks are not where they were asked for in idle time: asked for again"
    assert verified == [again, again, "4 tasks are where they were asked for in idle time"]
    assert run.cluster.where() == everything_on("0")


def test_tasks_that_keep_straying_are_given_up_after_as_many_tries_as_any() -> None:
    run, rates = resting()
    before = run.cluster.where()
    run.feed(MoveRequested(everything_on("0")))
    run.cluster.obeys = lambda _: False
    rates[QUERY] = 500.0
    run.batches(12)
    verified = [decision for decision in run.decisions if decision.kind == "verify"]
    assert [decision.figures.get("tries") for decision in verified] == [1, 2, 3, 4, 5, None]
    assert [decision.figures.get("asked_again") for decision in verified] == [4, 4, 4, 4, 4, None]
    assert verified[-1].reason == "4 tasks asked for in idle time stay elsewhere"
    assert run.cluster.where() == before
    assert run.state.queries[QUERY].strays == {}


def test_strays_whose_executor_is_gone_are_given_up() -> None:
    state = idle_state("aa", "abc")
    state, report = step(state, MoveRequested({task(0): "c"}))
    state, _ = step(state, Answered(1, Placed(idle=True)))
    state, report = after(
        state, ExecutorsChanged(2500, executors("a", "b")), BatchObserved(batch(2, "aa"))
    )
    assert reasons(report)[1] == "1 tasks asked for in idle time stay elsewhere"
    assert acts(report) == [Place(2, QUERY, {task(0): "a"}, ("c",))], "back to where it ran"


def test_a_task_that_the_next_batch_does_not_show_is_still_believed() -> None:
    state = idle_state("aa")
    state, _ = after(
        state, MoveRequested({task(0): "b", task(1): "b"}), Answered(1, Placed(idle=True))
    )
    state, report = step(state, BatchObserved(batch(2, {0: "b"})))
    assert state.observed.where(task(1)) == "b"
    assert "verify" not in kinds(report)


def test_an_idle_query_is_drained_and_executors_released_without_a_batch() -> None:
    run, _ = resting()
    run.feed(ScaleRequested(1))
    while run.pending:
        run.answer()
    assert run.kinds[-1] == "done"
    assert len(run.cluster.executors()) == 1
    alive = {executor.id for executor in run.cluster.executors()}
    assert {run.state.observed.where(task(j)) for j in range(8)} == alive


def test_moves_in_idle_time_that_the_runtime_does_not_take_are_asked_for_at_the_next_status() -> (
    None
):
    state = idle_state("aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    tickets = []
    for second in range(3, 20):
        ticket = state.next_ticket - 1
        tickets.append(ticket)
        state, _ = step(state, Answered(ticket, Failure("the door is shut")))
        state, report = step(state, Status(1000 * second, IDLE))
        if isinstance(state.phase, Steady):
            break
        assert acts(report) == [Place(ticket + 1, QUERY, {task(0): "b"})]
        (asked,) = (each.decision for each in report if isinstance(each, Log))
        assert asked.figures["asked_again"] == 1
    assert tickets == [1, 2, 3, 4, 5]
    assert "task query/0/0 not moved in 5 tries" in reasons(report)[0]


def test_a_batch_that_overtook_the_moves_counts_what_it_moved() -> None:
    state = idle_state("aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    state, report = after(
        state,
        Status(2500, jobs=1),
        Answered(1, Placed(idle=False)),
        BatchObserved(batch(2, "ba")),
    )
    assert all(kind != "done" for kind in kinds(report)), "not before it was seen what it brought"
    _, (done,) = log_outcome(state)
    assert done.decision.figures["tasks_moved"] == 1


def test_moves_that_were_overtaken_by_nothing_that_is_reported_are_asked_for_again() -> None:
    state = idle_state("aa")
    state, _ = after(state, MoveRequested({task(0): "b"}), Answered(1, Placed(idle=False)))
    state, report = step(state, Status(3000, IDLE))
    assert acts(report) == [Place(2, QUERY, {task(0): "b"})]


def test_moves_are_asked_for_once_while_an_answer_is_awaited() -> None:
    state = idle_state("aa")
    state, _ = step(state, MoveRequested({task(0): "b"}))
    state, report = after(state, Status(3000, IDLE), Status(4000, IDLE))
    assert report == ()
    assert isinstance(state.phase, Moving)


def test_a_later_plan_overrules_what_was_asked_for_in_idle_time() -> None:
    state = idle_state("aa", "abc")
    state, _ = after(
        state,
        MoveRequested({task(0): "b"}),
        Answered(1, Placed(idle=True)),
        BatchObserved(batch(2, "aa")),
        Answered(2, Placed(idle=False)),
        MoveRequested({task(0): "c"}),
        BatchObserved(batch(3, "aa")),
        BatchObserved(batch(4, "ca")),
    )
    assert isinstance(state.phase, Steady)
    state, report = step(state, BatchObserved(batch(5, "ca")))
    assert acts(report) == []
    assert kinds(report) == ["hold"]


def test_a_query_that_becomes_idle_in_the_middle_of_a_change_moves_the_rest_at_once() -> None:
    rates = {QUERY: 500.0}
    run = harness(rates, policy=BY_HAND)
    run.seconds(5)
    run.feed(MoveRequested(everything_on("0")))
    run.batches(1)
    assert isinstance(run.state.phase, Moving)
    rates[QUERY] = 0.0
    run.seconds(6)
    assert run.kinds[-1] == "done"
    rates[QUERY] = 500.0
    run.seconds(3)
    assert run.cluster.where() == everything_on("0")


# No executor at all


def at_zero() -> tuple[Harness, dict[str, float]]:
    """An application that has given all its executors back."""
    rates = {QUERY: 500.0}
    run = harness(rates, policy=TO_ZERO)
    run.seconds(10)
    rates[QUERY] = 0.0
    run.seconds(40)
    assert run.cluster.executors() == ()
    return run, rates


def test_an_application_with_nothing_to_do_gives_all_executors_back() -> None:
    run, _ = at_zero()
    assert isinstance(run.state.phase, Steady)
    reason = next(d.reason for d in run.decisions if d.reason.startswith("scale-in to 0"))
    assert reason == "scale-in to 0: nothing has run for 20 s, and the state is in the checkpoint"
    before = len(run.decisions)
    run.seconds(60)
    assert len(run.decisions) == before, "and that is all"


def test_an_executor_is_asked_for_as_soon_as_a_batch_wants_to_run() -> None:
    run, rates = at_zero()
    before = len(run.decisions)
    rates[QUERY] = 500.0
    run.seconds(3)
    woken = [(d.kind, d.reason) for d in run.decisions[before : before + 3]]
    assert woken == [
        ("scale-out", "scale-out to 1: 1 job waits and no executor is alive"),
        ("wait", "1 of 1 executors are alive"),
        ("done", "scale-out from 0 to 1 executor done: 0 tasks moved in 0 batches"),
    ]
    run.seconds(5)
    assert run.cluster.where() != {}


def test_an_application_with_work_keeps_an_executor() -> None:
    rates = {"a": 500.0, "b": 5.0}
    run = harness(rates, policy=TO_ZERO)
    run.seconds(10)
    rates["a"] = 0.0
    run.seconds(60)
    assert len(run.cluster.executors()) == 1


def test_a_woken_application_that_gets_no_executor_asks_again_a_little_later() -> None:
    state = attached("", policy=TO_ZERO)
    state, report = step(state, Status(1000, jobs=2))
    assert acts(report) == [Grow(1, 1)]
    state, report = step(state, Answered(1, Failure("no room")))
    assert kinds(report) == ["abandon"]
    asked = []
    for second in range(2, 8):
        state, report = step(state, Status(1000 * second, jobs=2))
        asked += [(second, each) for each in acts(report)]
    assert asked == [(6, Grow(2, 1))]


def test_an_application_is_woken_at_once_after_it_gave_its_executors_back() -> None:
    state = after_batches(attached("a", policy=TO_ZERO), 0, "aa")
    state, _ = after(state, Status(2000, IDLE), ScaleRequested(0), Answered(1, None))
    assert state.executors == ()
    _, report = step(state, Status(2100, jobs=1))
    assert acts(report) == [Grow(2, 1)]


def test_as_many_executors_are_woken_as_are_the_fewest() -> None:
    state = attached("", policy=replace(POLICY, min_executors=2))
    _, report = step(state, Status(1000, jobs=1))
    assert acts(report) == [Grow(1, 2)]


def test_who_only_advises_wakes_nobody() -> None:
    state = attached("", policy=replace(TO_ZERO, advise_only=True))
    assert step(state, Status(1000, jobs=1))[1] == ()


def test_work_that_comes_while_the_last_executor_is_given_back_keeps_it() -> None:
    state = after_batches(attached("a", policy=TO_ZERO), 0, "aa")
    state, report = after(state, Status(2000, IDLE), ScaleRequested(0))
    assert acts(report) == [Release(1, ("a",))]
    assert isinstance(state.phase, Releasing)
    state, report = after(
        state, Status(2500, jobs=1), Answered(1, Failure("executor a still holds state"))
    )
    assert kinds(report) == ["replan", "abandon"]
    assert "there is work to do again" in reasons(report)[-1]
    assert isinstance(state.phase, Steady)


def test_executors_that_all_die_are_replaced_at_once() -> None:
    state = after_batches(attached("a", policy=TO_ZERO), 0, "aa")
    state, report = after(state, ExecutorsChanged(1500, ()), Status(2000, jobs=1))
    assert kinds(report) == ["lost", "scale-out"]
    assert acts(report) == [Grow(1, 1)]
    assert isinstance(state.phase, Growing)


def test_a_wake_up_that_is_overdue_is_cancelled() -> None:
    state, _ = step(attached("", policy=TO_ZERO), Status(1000, jobs=1))
    state, report = step(state, Status(302_000, jobs=1))
    assert acts(report) == [Cancel(1)]
    assert kinds(report) == ["abandon"]
