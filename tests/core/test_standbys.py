"""Copies that follow on other executors, and what they are for: an executor that is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.builders import QUERY, executors, task
from tests.core.harness import Harness
from tests.core.scenes import POLICY, attached

from elastream.core.events import (
    Answered,
    CopiesLost,
    Copy,
    DropCopies,
    Instruction,
    MoveRequested,
    Place,
    Plan,
    ScaleRequested,
    Status,
    Tick,
)
from elastream.core.load import QueryLoad, TaskLoad
from elastream.core.policy import Policy
from elastream.core.ports import Copied, Placed
from elastream.core.standbys import choose_standbys
from elastream.core.state import LoopState, Standbys
from elastream.goals.by_hand import ByHand
from elastream.model.errors import ProblemError
from elastream.model.observation import Executor, TaskId
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    SimulatedTask,
    Workload,
    even_workload,
)

MIB = 1 << 20
STANDING = replace(
    POLICY,
    goal=ByHand(),
    standbys=1,
    movement=replace(
        POLICY.movement, moves_per_batch=None, bytes_per_batch=None, copy_least_bytes=MIB
    ),
)


def run_of(
    policy: Policy = STANDING,
    *,
    number: int = 3,
    hosts: tuple[str, ...] = ("here",),
    sizes: Any = None,
) -> Harness:
    """Tasks on some executors, seen in a batch."""
    if sizes is None:
        workload = even_workload(6, lambda _: 100.0, name=QUERY, state_bytes=2 * MIB)
    else:
        tasks = tuple(
            SimulatedTask(0, j, 1 / len(sizes), 1.0, size) for j, size in enumerate(sizes)
        )
        workload = Workload(tasks, lambda _: 100.0, name=QUERY)
    settings = ClusterSettings(executors=number, hosts=hosts, copy_s=0.0)
    run = Harness(SimulatedCluster(workload, settings), policy)
    run.batches(2)
    return run


def of_kind(run: Harness, kind: type[Instruction]) -> list[Any]:
    return [each for batch in run.instructions for each in batch if isinstance(each, kind)]


def standby_reasons(run: Harness) -> list[str]:
    return [d.reason for d in run.decisions if d.kind == "standby"]


def test_every_task_has_a_copy_on_another_executor_and_it_is_asked_for_once() -> None:
    run = run_of()
    run.batches(5)
    (copy,) = of_kind(run, Copy)
    assert not copy.soon
    where = run.cluster.where()
    assert copy.wanted.keys() == where.keys()
    assert all(where[each] != holder for each, holder in copy.wanted.items())
    held = sorted(list(copy.wanted.values()).count(holder) for holder in "012")
    assert held == [2, 2, 2]
    assert standby_reasons(run) == ["6 of 6 tasks have a copy that follows, in 0 s"]


def test_without_standbys_or_a_way_to_copy_none_are_asked_for() -> None:
    run = run_of(replace(STANDING, standbys=0))
    run.batches(3)
    assert not of_kind(run, Copy)
    with pytest.raises(ProblemError, match="standbys: 2 copies are more than one"):
        replace(STANDING, standbys=2)


def test_an_executor_that_is_lost_has_its_tasks_placed_where_their_copies_are_at_once() -> None:
    run = run_of()
    run.batches(1)
    (copy,) = of_kind(run, Copy)
    before = run.cluster.where()
    homeless = {each for each, node in before.items() if node == "1"}
    run.cluster.kill("1")
    (place,) = of_kind(run, Place)
    assert place.wanted == {each: copy.wanted[each] for each in homeless}
    assert place.lost == ("1",)
    (lost,) = (d for d in run.decisions if d.kind == "lost")
    assert lost.reason == "executor 1 was lost, 2 tasks to load elsewhere, 2 of them have a copy"
    assert lost.figures["tasks_with_copies"] == 2
    assert standby_reasons(run)[-1] == "2 of 2 tasks had their copies taken over, and load nothing"
    figures = run.decisions[-1].figures
    assert figures["tasks_ahead"] == 2
    assert figures["bytes_ahead"] == 4 * MIB
    run.cluster.run_batch()
    assert place.wanted.items() <= run.cluster.where().items()


def test_after_a_loss_copies_are_brought_anew_where_tasks_are_then() -> None:
    run = run_of()
    run.batches(1)
    run.cluster.kill("1")
    run.batches(3)
    last = of_kind(run, Copy)[-1]
    where = run.cluster.where()
    assert last.wanted.keys() == where.keys()
    assert all(where[each] != holder for each, holder in last.wanted.items())


def test_a_copy_is_on_another_host_where_there_is_one_and_on_a_spare_before_all() -> None:
    run = run_of(number=4, hosts=("here", "there"))
    run.batches(1)
    (copy,) = of_kind(run, Copy)
    hosts = {each.id: each.host for each in run.cluster.executors()}
    where = run.cluster.where()
    assert all(hosts[where[each]] != hosts[holder] for each, holder in copy.wanted.items())


def test_the_heaviest_to_reload_come_first_within_the_budget() -> None:
    sizes = [5 * MIB, MIB, 3 * MIB, 4 * MIB]
    run = run_of(
        replace(STANDING, movement=replace(STANDING.movement, standby_bytes=8 * MIB)), sizes=sizes
    )
    run.batches(1)
    (copy,) = of_kind(run, Copy)
    assert copy.wanted.keys() == {task(0), task(2)}


@settings(max_examples=200)
@given(
    sizes=st.lists(st.integers(0, 100), min_size=1, max_size=12),
    budget=st.integers(1, 400),
    number=st.integers(1, 4),
)
def test_copies_keep_within_their_budget_and_never_share_an_executor_with_their_task(
    sizes: list[int], budget: int, number: int
) -> None:
    run = run_of(
        replace(STANDING, movement=replace(STANDING.movement, standby_bytes=budget)),
        number=number,
        sizes=sizes,
    )
    chosen = choose_standbys(run.state)
    where = run.cluster.where()
    assert sum(sizes[each.partition] for each in chosen) <= budget
    assert all(where[each] != holder for each, holder in chosen.items())
    assert set(chosen.values()) <= {each.id for each in run.cluster.executors()}
    if number == 1:
        assert not chosen


def compared_one_by_one(state: LoopState) -> dict[TaskId, str]:
    """What is chosen where every task is compared with every executor."""
    observed, hosts = state.observed, {each.id: each.host for each in state.all_executors}
    held, chosen = dict.fromkeys(hosts, 0.0), {}
    left, has_one = float(state.policy.movement.standby_bytes), state.standbys.wanted
    sizes = {each: load.state_bytes for each, load in observed.tasks() if load.state_bytes > 0}
    for each in sorted(sizes, key=lambda each: (each not in has_one, -sizes[each])):
        own = observed.where(each)
        others = [name for name in hosts if name != own]
        off_host = [name for name in others if hosts[name] != hosts.get(own)] or others
        places = [name for name in off_host if name in state.spare_ids] or off_host
        if sizes[each] > left or not places:
            continue
        kept = has_one.get(each, "")
        chosen[each] = kept if kept in places else min(places, key=lambda name: held[name])
        held[chosen[each]] += sizes[each]
        left -= sizes[each]
    return chosen


def crowd(tasks: int, alive: Sequence[Executor], sizes: Sequence[int], where: Sequence[str]) -> Any:
    """A loop whose tasks have this much state on these executors, the first not yet chosen for."""
    state = attached([], policy=STANDING)
    loads = {
        task(j): TaskLoad(where[j % len(where)], 0.1, 1.0, float(sizes[j % len(sizes)]), True)
        for j in range(tasks)
    }
    query = replace(state.queries[QUERY], load=QueryLoad(tasks=loads), tasks=tasks)
    return replace(state, all_executors=tuple(alive), queries={QUERY: query})


@given(st.data())
def test_the_copies_are_where_comparing_every_executor_would_put_them(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 6))
    names = [str(j) for j in range(number)]
    hosts = {name: data.draw(st.sampled_from("xyz")) for name in names}
    tasks = data.draw(st.integers(0, 12))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=12))
    where = data.draw(st.lists(st.sampled_from([*names, "lost"]), min_size=1, max_size=12))
    state = crowd(tasks, executors(*names, hosts=hosts), sizes, where)
    wanted = data.draw(
        st.dictionaries(
            st.sampled_from([task(j) for j in range(12)]), st.sampled_from([*names, "lost"])
        )
    )
    state = replace(
        state,
        policy=replace(
            STANDING,
            movement=replace(STANDING.movement, standby_bytes=data.draw(st.integers(1, 40))),
        ),
        spare_ids=frozenset(data.draw(st.sets(st.sampled_from(names)))),
        standbys=Standbys(wanted),
    )
    assert choose_standbys(state) == compared_one_by_one(state)


def operations(act: Callable[[], object]) -> int:
    """How many steps the interpreter takes for it, which is the same on every machine."""
    taken = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal taken
        frame.f_trace_opcodes = True
        taken += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        act()
    finally:
        sys.settrace(before)
    return taken


@pytest.mark.parametrize("hosts", ["one", "each", "two"])
def test_twice_as_many_tasks_and_executors_take_about_twice_as_long_to_choose_for_again(
    hosts: str,
) -> None:
    taken = []
    for number in (20, 40):
        names = [str(j) for j in range(number)]
        on = {"one": "x", "each": None, "two": "xy"}[hosts]
        alive = executors(*names, hosts={n: on[int(n) % len(on)] if on else n for n in names})
        state = crowd(10 * number, alive, [3, 1, 2], names)
        state = replace(state, standbys=Standbys(choose_standbys(state)))
        taken.append(operations(lambda state=state: choose_standbys(state)))  # type: ignore[misc]
    assert taken[1] < 2.5 * taken[0]


def test_a_change_keeps_the_copies_of_tasks_that_stay_and_brings_them_up_to_date_after() -> None:
    run = run_of()
    run.batches(1)
    where = run.cluster.where()
    first = task(0)
    holder = of_kind(run, Copy)[-1].wanted[first]
    (other,) = {"0", "1", "2"} - {where[first], holder}
    run.feed(MoveRequested({first: other}))
    moving = of_kind(run, Copy)[-1]
    assert moving.soon
    assert moving.wanted[first] == other
    assert moving.wanted.keys() == where.keys()
    run.batches(4)
    assert not of_kind(run, DropCopies)
    last = of_kind(run, Copy)[-1]
    assert not last.soon
    assert last.wanted[first] != other
    assert last.wanted.keys() == where.keys()
    (copied,) = (d for d in run.decisions if d.kind == "copy")
    assert copied.reason.startswith("the state of 1 of 1 task is ahead of it")


def test_a_task_that_goes_to_its_copy_moves_at_once_and_gets_another_copy_after() -> None:
    run = run_of()
    run.batches(1)
    (standing,) = of_kind(run, Copy)
    first = task(0)
    run.feed(MoveRequested({first: standing.wanted[first]}))
    run.batches(4)
    assert "copy" not in run.kinds
    run.judged()
    (done,) = (d for d in run.decisions if d.kind == "done")
    assert done.figures["tasks_ahead"] == done.figures["tasks_moved"] == 1
    assert run.cluster.where()[first] == standing.wanted[first]
    _, last = of_kind(run, Copy)
    assert last.wanted.keys() == standing.wanted.keys()
    assert last.wanted[first] != standing.wanted[first]


def scaled_in(policy: Policy = STANDING, *, number: int = 3, sizes: Any = None) -> Harness:
    """One executor fewer was asked for when copies were there."""
    run = run_of(policy, number=number, sizes=sizes)
    run.batches(1)
    run.feed(ScaleRequested(number - 1))
    run.batches(8)
    return run


def test_a_scale_in_goes_to_the_executors_that_hold_the_copies_and_loads_nothing() -> None:
    run = scaled_in(replace(STANDING, planner="free-step"))
    (plan,) = (d for d in run.decisions if d.kind == "plan")
    (done,) = (d for d in run.decisions if d.kind == "done")
    assert plan.figures["tasks_to_move"] == plan.figures["tasks_with_copies"] == 2
    assert plan.figures["state_bytes_to_move"] == plan.figures["state_bytes_lower_bound"] == 0
    assert done.figures["tasks_moved"] == done.figures["tasks_ahead"] == 2
    assert "copy" not in run.kinds
    standing = of_kind(run, Copy)[0].wanted
    places = {each: node for place in of_kind(run, Place) for each, node in place.wanted.items()}
    assert places.items() <= standing.items()


def test_standbys_are_chosen_anew_after_a_scale_in_that_used_them() -> None:
    run = scaled_in(replace(STANDING, planner="free-step"))
    where, wanted = run.cluster.where(), of_kind(run, Copy)[-1].wanted
    assert len(set(where.values())) == 2
    assert wanted.keys() == where.keys()
    assert all(where[each] != holder for each, holder in wanted.items())
    assert run.state.standbys.there == where.keys()


def test_without_copies_the_plan_of_a_scale_in_loads_what_it_moves() -> None:
    run = scaled_in(
        replace(
            STANDING,
            planner="free-step",
            standbys=0,
            movement=replace(STANDING.movement, copy_ahead=False),
        )
    )
    (plan,) = (d for d in run.decisions if d.kind == "plan")
    assert plan.figures["tasks_with_copies"] == 0
    assert plan.figures["state_bytes_to_move"] == 4 * MIB


def test_a_scale_in_where_only_some_have_copies_releases_the_executor_whose_tasks_have() -> None:
    """Within the budget only the two largest tasks have copies, and they share an executor."""
    sizes = [9 * MIB, 2 * MIB, 2 * MIB, 9 * MIB, 2 * MIB, 2 * MIB]
    policy = replace(
        STANDING, planner="free-step", movement=replace(STANDING.movement, standby_bytes=18 * MIB)
    )
    run = run_of(policy, sizes=sizes)
    run.batches(1)
    where, standing = run.cluster.where(), of_kind(run, Copy)[-1].wanted
    assert standing.keys() == {task(0), task(3)}
    assert where[task(0)] == where[task(3)]
    run.feed(ScaleRequested(2))
    run.batches(8)
    (plan,) = (d for d in run.decisions if d.kind == "plan")
    assert plan.figures["state_bytes_to_move"] == 0
    assert where[task(0)] not in {each.id for each in run.cluster.executors()}


def test_copies_on_a_spare_count_once_it_is_at_work() -> None:
    run = run_of(replace(STANDING, planner="free-step", spares=1), number=2)
    run.batches(12)
    (spare,) = run.state.spares
    assert set(run.state.standbys.wanted.values()) == {spare.id}
    run.feed(ScaleRequested(3))
    run.batches(12)
    (plan,) = (d for d in run.decisions if d.kind == "plan")
    assert plan.figures["tasks_to_move"] == plan.figures["tasks_with_copies"] == 2
    assert plan.figures["state_bytes_to_move"] == 0


def test_single_step_gives_intervals_to_the_executors_that_hold_copies() -> None:
    run = scaled_in(replace(STANDING, planner="single-step"))
    (plan,) = (d for d in run.decisions if d.kind == "plan")
    assert plan.figures["tasks_with_copies"] > 0
    assert plan.figures["state_bytes_to_move"] < 2 * MIB * plan.figures["tasks_to_move"]


def test_a_new_plan_of_the_same_change_knows_what_was_copied_for_the_old_one() -> None:
    policy = replace(
        STANDING,
        standbys=0,
        planner="free-step",
        movement=replace(STANDING.movement, moves_per_batch=1),
    )
    run = run_of(policy, number=4)
    run.feed(ScaleRequested(2))
    run.batches(1)
    (copy,) = of_kind(run, Copy)
    assert run.state.standbys.there == copy.wanted.keys()
    lost, kept = sorted(set(copy.wanted.values()))
    run.cluster.kill(lost)
    again = of_kind(run, Plan)[-1]
    known = {
        (again.tasks[number], again.nodes[node]) for number, node in again.order.problem.copies
    }
    where = run.state.observed.where
    copied = {each for each, node in copy.wanted.items() if node == kept}
    assert known == {(each, kept) for each in copied if where(each) in again.nodes}
    assert known
    run.batches(12)
    assert "done" in run.kinds
    assert run.state.standbys.there == frozenset()


def test_copies_that_do_not_come_are_tried_again_much_later() -> None:
    run = run_of_unanswered()
    run.fail("no room")
    assert standby_reasons(run)[-1].startswith(
        "no copies that follow: no room; tried again in 60 s"
    )
    asked = len(of_kind(run, Copy))
    run.batches(20)
    assert len(of_kind(run, Copy)) == asked
    run.feed(Tick(round(run.cluster.now_ms + 70_000)))
    assert len(of_kind(run, Copy)) == asked + 1


def test_copies_left_by_a_failure_are_dropped_where_none_are_wanted_any_more() -> None:
    run = run_of_unanswered()
    run.fail("no room")
    run.cluster.end_query(QUERY)
    run.cluster.begin_query(even_workload(4, lambda _: 100.0, name="other", state_bytes=0))
    run.batches(3)
    run.feed(Tick(round(run.cluster.now_ms + 70_000)))
    assert len(of_kind(run, DropCopies)) == 1


def run_of_unanswered() -> Harness:
    workload = even_workload(6, lambda _: 100.0, name=QUERY, state_bytes=2 * MIB)
    run = Harness(SimulatedCluster(workload, ClusterSettings(executors=3, copy_s=0.0)), STANDING)
    run.batches(2, answering=False)
    assert any(isinstance(action, Copy) for action in run.pending)
    return run


def test_copies_that_take_too_long_are_given_up() -> None:
    run = run_of_unanswered()
    run.feed(Tick(round(run.cluster.now_ms + 1000 * STANDING.timeouts.copy_s + 5000)))
    assert standby_reasons(run)[-1].startswith("no copies that follow: no answer in 12")
    assert not run.pending


def test_without_copies_the_tasks_of_a_lost_executor_go_where_there_is_room() -> None:
    run = run_of(replace(STANDING, standbys=0))
    before = run.cluster.where()
    homeless = {each for each, node in before.items() if node == "1"}
    run.cluster.kill("1")
    (place,) = of_kind(run, Place)
    assert place.lost == ("1",)
    assert place.wanted.keys() == homeless
    assert sorted(place.wanted.values()) == ["0", "2"]
    assert not standby_reasons(run)
    run.cluster.run_batch()
    assert place.wanted.items() <= run.cluster.where().items()


def test_a_loop_that_only_advises_places_nothing_after_a_loss() -> None:
    run = run_of(replace(STANDING, advise_only=True))
    run.batches(2)
    run.cluster.kill("1")
    assert not of_kind(run, Place)
    assert not of_kind(run, Copy)


def restart(run: Harness) -> None:
    """End the query and start its next run, whose tasks no batch has shown yet."""
    workload = run.cluster.queries[QUERY].workload
    run.cluster.end_query(QUERY)
    run.cluster.begin_query(workload)


@pytest.mark.parametrize("idle", [False, True])
def test_a_placement_after_a_loss_means_nothing_to_the_next_run_of_its_query(idle: bool) -> None:
    run = run_of()
    run.batches(1)
    run.places_at_once = False
    run.cluster.kill("1")
    (place,) = (action for action in run.pending if isinstance(action, Place))
    restart(run)
    before = run.decisions
    taken_over = frozenset(place.wanted)
    run.pending.remove(place)
    if idle:
        run.feed(Status(round(run.cluster.now_ms), frozenset({QUERY}), 0))
    run.feed(Answered(place.ticket, Placed(idle, taken_over)))
    assert not run.state.standbys.recoveries
    assert not run.state.queries[QUERY].believed
    assert run.decisions == before
    run.places_at_once = True
    run.batches(2)
    assert not run.state.observed.homeless()


@pytest.mark.parametrize("again", [False, True])
def test_an_executor_is_lost_when_a_query_that_had_copies_has_left(again: bool) -> None:
    run = run_of()
    run.batches(1)
    assert run.state.standbys.there
    if again:
        restart(run)
    else:
        run.cluster.end_query(QUERY)
    run.cluster.kill("1")
    (lost,) = (d for d in run.decisions if d.kind == "lost")
    assert lost.reason == "executor 1 was lost, 0 tasks to load elsewhere"


def test_copies_end_with_the_run_of_their_query_and_the_next_run_gets_its_own() -> None:
    run = run_of()
    run.batches(1)
    (first,) = of_kind(run, Copy)
    restart(run)
    assert not run.state.standbys.there
    run.batches(2)
    _, second = of_kind(run, Copy)
    assert second.wanted.keys() == first.wanted.keys()
    assert run.state.standbys.there == second.wanted.keys()


def test_copies_that_come_after_the_run_of_their_query_has_ended_are_not_believed_in() -> None:
    run = run_of_unanswered()
    (copy,) = (action for action in run.pending if isinstance(action, Copy))
    run.pending.remove(copy)
    restart(run)
    run.feed(Answered(copy.ticket, Copied(frozenset(copy.wanted), 12)))
    assert not run.state.standbys.there
    run.batches(2)
    assert run.state.standbys.there == copy.wanted.keys()


def test_copies_of_a_query_that_has_left_are_dropped_also_where_no_others_are_wanted() -> None:
    run = run_of()
    run.batches(1)
    run.cluster.end_query(QUERY)
    other = even_workload(4, lambda _: 100.0, name="other", state_bytes=0)
    run.cluster.begin_query(other)
    run.batches(3)
    assert run.cluster.copies == {}
    assert len(of_kind(run, DropCopies)) == 1


def test_copies_of_a_query_that_has_left_are_dropped_and_those_of_others_stay() -> None:
    run = run_of()
    other = even_workload(4, lambda _: 100.0, name="other", state_bytes=MIB)
    run.cluster.begin_query(other)
    run.batches(6)
    kept = {each: holder for each, holder in run.cluster.copies.items() if each.query == "other"}
    assert len(kept) == 4
    run.cluster.end_query(QUERY)
    run.batches(3)
    assert run.cluster.copies == run.state.standbys.wanted == kept
    asked = len(of_kind(run, Copy))
    run.batches(3)
    assert len(of_kind(run, Copy)) == asked


def drop_copies(run: Harness, executor: str) -> set[TaskId]:
    """Let an executor drop its copies, as one does whose driver was suspended; return whose."""
    lost = {each: holder for each, holder in run.cluster.copies.items() if holder == executor}
    run.cluster.copies = {
        each: holder for each, holder in run.cluster.copies.items() if holder != executor
    }
    run.feed(CopiesLost(round(run.cluster.now_ms), lost))
    return set(lost)


def test_copies_that_an_executor_has_dropped_are_requested_again() -> None:
    run = run_of()
    run.seconds(100)
    run.batches(1)
    lost = drop_copies(run, "1")
    assert len(lost) == 2
    assert standby_reasons(run)[-1] == "executor 1 has dropped the copies of 2 tasks"
    assert not lost & run.state.standbys.there
    run.batches(1)
    first, again = of_kind(run, Copy)
    assert again.wanted.keys() == first.wanted.keys()
    assert run.cluster.copies == again.wanted
    assert run.state.standbys.there == again.wanted.keys()


def test_copies_that_are_dropped_again_and_again_are_requested_once_a_minute() -> None:
    run = run_of()
    run.batches(1)
    drop_copies(run, "1")
    assert standby_reasons(run)[-1].endswith("; tried again in 60 s at the earliest")
    run.seconds(50)
    assert len(of_kind(run, Copy)) == 1
    run.seconds(20)
    run.batches(1)
    assert len(of_kind(run, Copy)) == 2
    assert run.state.standbys.there == run.cluster.copies.keys()


def test_a_dropped_copy_of_an_executor_that_is_lost_itself_or_holds_none_is_no_news() -> None:
    run = run_of()
    run.batches(1)
    run.cluster.kill("1")
    before, said = run.state.standbys, standby_reasons(run)
    first = task(0)
    other = next(each for each in ("0", "2") if each != before.holder(first))
    run.feed(CopiesLost(round(run.cluster.now_ms), {task(j): "1" for j in range(6)}))
    run.feed(CopiesLost(round(run.cluster.now_ms), {first: other}))
    assert standby_reasons(run) == said
    assert run.state.standbys.there == before.there


def test_after_copies_were_dropped_a_lost_executor_s_tasks_are_not_said_to_have_one() -> None:
    run = run_of()
    run.seconds(100)
    run.batches(1)
    run.feed(CopiesLost(round(run.cluster.now_ms), dict(run.cluster.copies)))
    run.cluster.kill("1")
    (lost,) = (d for d in run.decisions if d.kind == "lost")
    assert lost.reason == "executor 1 was lost, 2 tasks to load elsewhere"
