"""State travels ahead of its task: copies are brought, then tasks move, and nothing is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.core.builders import QUERY, executors, task
from tests.core.harness import Harness
from tests.core.scenes import POLICY

from elastream.core.events import (
    AbandonRequested,
    Answered,
    Cancel,
    Copy,
    DetachRequested,
    DropCopies,
    ExecutorsChanged,
    Instruction,
    MoveRequested,
    Place,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.migrator.copying import Copying
from elastream.core.migrator.moving import Moving
from elastream.core.policy import Policy
from elastream.core.ports import Copied, CopySource, Ticket
from elastream.core.state import Detached
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

MIB = 1 << 20
PATIENT = replace(
    POLICY,
    goal=ByHand(),
    movement=replace(
        POLICY.movement, moves_per_batch=None, bytes_per_batch=None, copy_least_bytes=MIB
    ),
)


def run_of(
    policy: Policy = PATIENT, *, copy_s: float | None = 0.0, state_bytes: int = 2 * MIB
) -> Harness:
    """Eight tasks on two executors, which were seen in a batch; copies can be made."""
    workload = even_workload(8, lambda _: 100.0, name=QUERY, state_bytes=state_bytes)
    cluster = SimulatedCluster(workload, ClusterSettings(executors=2, copy_s=copy_s))
    run = Harness(cluster, policy)
    run.batches(2)
    return run


def moves(run: Harness, number: int) -> dict[TaskId, str]:
    """The first tasks, each to the other executor."""
    where = run.cluster.where()
    return {task(j): "1" if where[task(j)] == "0" else "0" for j in range(number)}


def of_kind(run: Harness, kind: type[Instruction]) -> list[Any]:
    return [each for entry in run.instructions for each in entry if isinstance(each, kind)]


def ask(run: Harness, number: int) -> tuple[Instruction, ...]:
    return run.feed(MoveRequested(moves(run, number)))


@pytest.mark.parametrize("source", ["executor", "storage"])
def test_copies_are_brought_before_tasks_move_and_what_moves_then_loads_nothing(
    source: CopySource,
) -> None:
    run = run_of(replace(PATIENT, movement=replace(PATIENT.movement, copy_source=source)))
    sent = 6 * MIB if source == "executor" else 0
    wanted = moves(run, 3)
    ask(run, 3)
    (copy,) = of_kind(run, Copy)
    assert copy.wanted == wanted
    assert isinstance(run.state.phase, Copying)
    run.batches(2, answering=False)
    assert not of_kind(run, Place), "nothing moves while state is on its way"
    assert any("copies of state not ready" in d.reason for d in run.decisions)
    run.answer()
    run.batches(2)
    assert wanted.items() <= run.cluster.where().items()
    (decisions,) = (d for d in run.decisions if d.kind == "copy")
    assert decisions.reason.startswith("the state of 3 of 3 tasks is ahead of it")
    assert decisions.reason.endswith(f", 6 MB from {'executors' if sent else 'storage'}")
    assert decisions.figures["bytes_ahead"] == 6 * MIB
    assert decisions.figures["bytes_from_executors"] == sent
    assert decisions.figures["bytes_from_storage"] == 6 * MIB - sent
    run.judged()
    (done,) = (d for d in run.decisions if d.kind == "done")
    assert done.figures["tasks_ahead"] == done.figures["tasks_moved"] == 3
    assert done.figures["state_bytes_ahead"] == done.figures["state_bytes_moved"] == 6 * MIB
    assert done.figures["bytes_from_executors"] == sent
    assert done.figures["bytes_from_storage"] == 6 * MIB - sent


def test_a_copy_says_how_long_its_state_should_travel_once_links_were_measured() -> None:
    workload = even_workload(8, lambda _: 100.0, name=QUERY, state_bytes=50 * MIB)
    settings = ClusterSettings(executors=2, copy_s=0.0, bytes_per_s=100 * MIB)
    movement = replace(PATIENT.movement, copy_source="executor")
    run = Harness(SimulatedCluster(workload, settings), replace(PATIENT, movement=movement))
    run.batches(2)
    for _ in range(2):
        ask(run, 3)
        run.batches(4)
        run.judged()
    first, second = (decision for decision in run.decisions if decision.kind == "copy")
    assert "forecast_s" not in first.figures
    assert second.figures["forecast_s"] == 1.0
    assert " in 1.0 s (1.0 s by the links), 157 MB from executors" in second.reason
    assert run.state.link_bytes_per_s == {"0": 100 * MIB, "1": 100 * MIB}


def test_a_batch_with_copies_ahead_takes_no_longer_than_one_before() -> None:
    def batch_of_the_move(*, copy_s: float | None) -> float:
        workload = even_workload(8, lambda _: 100.0, name=QUERY, state_bytes=100 * MIB)
        settings = ClusterSettings(executors=2, copy_s=copy_s, load_ms_per_mib=5.0)
        cluster = SimulatedCluster(workload, settings)
        with simulated(cluster, PATIENT) as loop:
            cluster.run_batches(3)
            loop.move({task(0): "1" if cluster.where()[task(0)] == "0" else "0"})
            return float(loop.run_until("done").figures["worst_batch_ms"])

    plain, ahead = batch_of_the_move(copy_s=None), batch_of_the_move(copy_s=3.0)
    assert plain > ahead + 400


def test_tasks_with_little_state_and_loops_that_cannot_copy_move_at_once() -> None:
    for run in (
        run_of(state_bytes=1000),
        run_of(copy_s=None),
        run_of(replace(PATIENT, movement=replace(PATIENT.movement, copy_ahead=False))),
    ):
        ask(run, 3)
        run.batches(2)
        assert not of_kind(run, Copy)
        assert not of_kind(run, DropCopies)
        run.judged()
        assert "done" in run.kinds


@pytest.mark.parametrize("how", ["fails", "answers that it cannot", "is late"])
def test_without_copies_tasks_move_all_the_same_and_the_log_says_why(how: str) -> None:
    run = run_of()
    wanted = moves(run, 3)
    ask(run, 3)
    if how == "fails":
        run.fail("no room")
    elif how == "is late":
        run.batches(1, answering=False)
        run.feed(Tick(round(run.cluster.now_ms + 1000 * PATIENT.timeouts.copy_s + 5000)))
        assert of_kind(run, Cancel)
    else:
        ticket = run.pending.popleft().ticket
        run.feed(Answered(ticket, Copied(why="this Spark lacks a name")))
    run.batches(2)
    assert wanted.items() <= run.cluster.where().items()
    (decisions,) = (d for d in run.decisions if d.kind == "copy")
    assert "the state of 0 of 3 tasks is ahead of it" in decisions.reason
    assert "; the rest is loaded in its batch: " in decisions.reason
    run.judged()
    (done,) = (d for d in run.decisions if d.kind == "done")
    assert done.figures["tasks_ahead"] == 0


def test_more_state_than_is_copied_at_a_time_moves_in_rounds() -> None:
    run = run_of(replace(PATIENT, movement=replace(PATIENT.movement, copy_bytes=5 * MIB)))
    wanted = moves(run, 5)
    ask(run, 5)
    run.batches(12)
    copies = [len(copy.wanted) for copy in of_kind(run, Copy)]
    assert copies == [2, 2, 1]
    assert wanted.items() <= run.cluster.where().items()
    (done,) = (d for d in run.decisions if d.kind == "done")
    assert done.figures["tasks_ahead"] == 5


def test_what_is_ahead_does_not_count_towards_the_bytes_of_a_batch() -> None:
    run = run_of(replace(PATIENT, movement=replace(PATIENT.movement, bytes_per_batch=3 * MIB)))
    ask(run, 4)
    run.batches(2)
    assert [len(place.wanted) for place in of_kind(run, Place)] == [4]


def test_an_executor_that_is_lost_while_state_travels_makes_a_new_plan_or_none() -> None:
    run = run_of()
    ask(run, 3)
    (copy,) = of_kind(run, Copy)
    lost = next(iter(set(copy.wanted.values())))
    left = tuple(e for e in run.cluster.executors() if e.id != lost)
    report = run.feed(ExecutorsChanged(round(run.cluster.now_ms), left))
    assert Cancel(copy.ticket) in report
    assert DropCopies() in report
    assert isinstance(run.state.phase, Steady)


def test_copies_are_dropped_when_a_change_ends_or_is_given_up() -> None:
    run = run_of()
    ask(run, 3)
    run.batches(3)
    assert len(of_kind(run, DropCopies)) == 1
    ask(run, 3)
    run.answer()
    assert isinstance(run.state.phase, Moving)
    assert run.cluster.copies
    run.feed(AbandonRequested("enough"))
    assert len(of_kind(run, DropCopies)) == 2
    assert not run.cluster.copies


def test_a_loop_that_leaves_while_state_travels_gives_its_copies_up() -> None:
    run = run_of()
    ask(run, 3)
    (copy,) = of_kind(run, Copy)
    report = run.feed(DetachRequested())
    assert Cancel(copy.ticket) in report
    assert isinstance(run.state.phase, Detached)


def test_a_failure_of_the_runtime_is_no_answer_to_another_question() -> None:
    run = run_of()
    ask(run, 3)
    run.feed(Answered(999, Failure("not ours")))
    assert isinstance(run.state.phase, Copying)


def test_a_cluster_that_cannot_copy_refuses_nothing_and_drops_nothing() -> None:
    cluster = SimulatedCluster(even_workload(4, lambda _: 10.0), ClusterSettings(executors=2))
    cluster.run_batches(2)
    there = next(iter(cluster.where()))
    assert cluster.copy({there: "0"}, ticket=Ticket()).tasks == {there}
    cluster.kill("0")
    assert not cluster.copies
    copied = cluster.copy({there: "0"}, ticket=Ticket())
    assert (copied.tasks, copied.why) == (frozenset(), "its executor was lost")
    assert [e.id for e in executors("1")] == ["1"]


def test_copies_for_a_query_that_leaves_while_they_travel_are_not_believed_in() -> None:
    workloads = [
        even_workload(4, lambda _: 100.0, name=name, state_bytes=2 * MIB) for name in (QUERY, "q")
    ]
    cluster = SimulatedCluster(workloads, ClusterSettings(executors=2, copy_s=0.0))
    run = Harness(cluster, PATIENT)
    run.batches(4)
    where = run.cluster.where()
    mine, other = task(0), task(0, "q")
    target = {each: "1" if where[each] == "0" else "0" for each in (mine, other)}
    run.feed(MoveRequested(target))
    (copy,) = (action for action in run.pending if isinstance(action, Copy))
    run.pending.clear()
    run.cluster.end_query("q")
    run.feed(Answered(copy.ticket, Copied(frozenset(target), 4 * MIB)))
    assert run.state.standbys.there == {mine}
    assert run.state.standbys.wanted == {mine: target[mine]}
