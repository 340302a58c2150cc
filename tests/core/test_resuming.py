"""Pause and resume as a mechanism of the migrator: queries stop, and go on where it was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.core.builders import QUERY, task
from tests.core.harness import Harness
from tests.core.scenes import POLICY

from elastream.core.events import (
    AbandonRequested,
    Answered,
    MoveRequested,
    Pause,
    Place,
    ScaleRequested,
    Status,
    Tick,
)
from elastream.core.explaining import explained
from elastream.core.migrator.resuming import Resuming
from elastream.core.policy import Movement, Policy
from elastream.core.ports import Paused, Ticket
from elastream.core.steady import Steady
from elastream.goals.by_hand import ByHand
from elastream.model.errors import ProblemError, QueryStoppedError
from elastream.model.observation import TaskId
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

PAUSES = replace(
    POLICY, goal=ByHand(), mechanism="pause", movement=replace(POLICY.movement, moves_per_batch=1)
)


def run_of(*, policy: Policy = PAUSES, names: tuple[str, ...] = (QUERY,)) -> Harness:
    """Four tasks of each query on two executors, seen in two batches."""
    loads = [even_workload(4, lambda _: 100.0, name=name, state_bytes=1000) for name in names]
    cluster = SimulatedCluster(loads, ClusterSettings(executors=2, pause_s=0.0))
    run = Harness(cluster, policy)
    run.batches(2 * len(names))
    return run


def turned(run: Harness, number: int) -> dict[TaskId, str]:
    where = run.cluster.where()
    return {task(j): "1" if where[task(j)] == "0" else "0" for j in range(number)}


def instructions(run: Harness, kind: type) -> list[object]:
    return [each for told in run.told for each in told if isinstance(each, kind)]


def test_one_pause_brings_every_task_where_it_was_asked_to_be() -> None:
    run = run_of()
    wanted = turned(run, 4)
    run.feed(MoveRequested(wanted))
    assert isinstance(run.state.phase, Resuming)
    assert "resuming" in explained(run.state)
    run.batches(2)
    assert run.cluster.where() == wanted
    assert isinstance(run.state.phase, Steady)
    assert len(instructions(run, Pause)) == 1
    assert not instructions(run, Place), "nothing moves live"
    done = next(each for each in run.decisions if each.kind == "done")
    assert done.figures["tasks_moved"] == 4
    assert done.figures["state_bytes_moved"] == 4000
    assert run.replayed() == run.told


def test_only_queries_with_tasks_to_move_are_paused_one_after_the_other() -> None:
    run = run_of(names=(QUERY, "second", "third"))
    where = run.cluster.where()
    wanted = {
        each: "1" if node == "0" else "0"
        for each, node in where.items()
        if each.query != "third" and each.partition == 0
    }
    run.feed(MoveRequested(wanted))
    assert len(run.pending) == 1, "one at a time"
    run.batches(8)
    paused = [pause.query for pause in instructions(run, Pause) if isinstance(pause, Pause)]
    assert sorted(paused) == sorted([QUERY, "second"])
    assert run.cluster.where() == where | wanted


def test_a_task_that_is_elsewhere_after_the_pause_is_moved_live() -> None:
    run = run_of()
    wanted = turned(run, 2)
    run.cluster.obeys = lambda each: each.partition != 0
    run.feed(MoveRequested(wanted))
    run.batches(2)
    run.cluster.obeys = lambda _: True
    run.batches(4)
    assert instructions(run, Place)
    assert {each: run.cluster.where()[each] for each in wanted} == wanted
    assert "done" in run.kinds


def test_a_query_that_cannot_be_paused_stays_as_it_is_and_the_reason_is_told() -> None:
    run = run_of()
    before = run.cluster.where()
    run.feed(MoveRequested(turned(run, 2)))
    run.fail("nobody has said how it is started again")
    run.batches(1)
    assert run.cluster.where() == before
    reason = next(each.reason for each in run.decisions if each.kind == "abandon")
    assert "was not paused: nobody has said how" in reason


def test_a_query_that_stays_stopped_ends_the_change_and_is_reported_as_such() -> None:
    class Down(SimulatedCluster):
        def pause(self, query: str, places: Mapping[TaskId, str], *, ticket: Ticket) -> Paused:
            ticket.check()
            self.end_query(query)
            raise QueryStoppedError(f"query {query} is STOPPED: no start for {len(places)} tasks")

    workload = even_workload(4, lambda _: 100.0, name=QUERY)
    cluster = Down(workload, ClusterSettings(executors=2, pause_s=0.0))
    with simulated(cluster, PAUSES) as loop:
        cluster.run_batches(2)
        where = cluster.where()
        loop.move({task(0): "1" if where[task(0)] == "0" else "0"})
        cluster.advance(5)
        assert isinstance(loop.state.phase, Steady)
    (given_up,) = [each for each in loop.decisions if each.kind == "abandon"]
    assert given_up.reason.startswith(
        f"move given up: query {QUERY} is STOPPED: no start for 4 tasks; 0 tasks moved"
    )


def test_an_executor_lost_in_the_pause_is_planned_around() -> None:
    run = run_of(policy=replace(PAUSES, min_executors=1))
    run.feed(ScaleRequested(1))
    while not isinstance(run.state.phase, Resuming):
        run.answer()
    (kept,) = set(run.state.phase.target.goal.values())
    run.cluster.kill(kept)
    run.batches(6)
    assert set(run.cluster.where().values()) == {e.id for e in run.cluster.executors()}


def test_a_query_without_rows_after_its_pause_holds_nobody_up_for_ever() -> None:
    run = run_of()
    run.feed(MoveRequested(turned(run, 2)))
    pause = run.pending.popleft()
    run.cluster.end_query(QUERY)
    run.feed(Answered(pause.ticket, Paused(0, {"stop": 1.0})))
    assert isinstance(run.state.phase, Resuming)
    now_ms = run.state.now_ms or 0
    run.feed(Tick(round(now_ms + 1000 * run.policy.timeouts.action_s + 1000)))
    assert isinstance(run.state.phase, Steady)
    (told,) = (each for each in run.decisions if "since the pause" in each.reason)
    assert told.reason == "move: no batch since the pause shows where its tasks are"


def test_a_query_that_is_idle_after_its_pause_is_not_waited_for() -> None:
    run = run_of()
    run.feed(MoveRequested(turned(run, 2)))
    pause = run.pending.popleft()
    run.cluster.end_query(QUERY)
    now_ms = run.state.now_ms or 0
    run.feed(Status(now_ms + 60_000, idle=frozenset({QUERY})))
    assert isinstance(run.state.phase, Resuming), "while it is paused, it is"
    run.feed(Answered(pause.ticket, Paused(0, {"stop": 1.0})))
    for second, idle in ((61, {QUERY}), (70, {QUERY}), (75, set()), (80, {QUERY}), (94, {QUERY})):
        run.feed(Status(now_ms + 1000 * second, idle=frozenset(idle)))
        assert isinstance(run.state.phase, Resuming), second
    run.feed(Status(now_ms + 96_000, idle=frozenset({QUERY})))
    assert isinstance(run.state.phase, Steady)


def test_given_up_by_hand_it_waits_for_no_answer() -> None:
    run = run_of()
    run.feed(MoveRequested(turned(run, 2)))
    run.feed(AbandonRequested("not now"))
    assert isinstance(run.state.phase, Steady)
    assert not run.pending


def test_the_loop_scales_out_and_in_by_pauses_alone() -> None:
    load = even_workload(
        8, lambda second: 400 if 60 < second < 240 else 60, row_ms=5.0, trigger_ms=1000
    )
    cluster = SimulatedCluster(load, ClusterSettings(executors=1, pause_s=2.0))
    policy = Policy(
        max_executors=3,
        mechanism="pause",
        cooldown_s=10,
        patience=2,
        movement=Movement(warm_up=False),
    )
    with simulated(cluster, policy) as loop:
        cluster.advance(600)
    assert {"scale-out", "scale-in"} <= set(loop.changes), loop.story
    assert len(cluster.executors()) == 1
    done = loop.of("done")
    assert all(each.figures["paused_s"] == 2.0 for each in done), loop.story
    assert not any("mini-migrations" in each.reason for each in loop.of("plan"))


def test_it_is_one_of_two() -> None:
    with pytest.raises(ProblemError, match="mechanism: 'kill' is not one; use live, pause"):
        Policy(max_executors=2, mechanism="kill")  # type: ignore[arg-type]
