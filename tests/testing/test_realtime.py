"""Real-time queries on the simulated cluster, and the loop on them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elastream import ByHand, Policy, Utilisation
from elastream.core.ports import Ticket
from elastream.model.errors import ElastreamError
from elastream.testing import (
    ClusterSettings,
    SimulatedCluster,
    Workload,
    even_workload,
    rate_steps,
    simulated,
)

BURST = rate_steps({0: 300, 60: 1300, 240: 300})
"""Rows a second, of a millisecond each: one core, then two, then one."""
POLICY = Policy(max_executors=4, cooldown_s=10, patience=2, goal=Utilisation(catch_up_s=30))


def query(name: str = "query", rows_per_s: float | Callable[[float], float] = 300) -> Workload:
    return even_workload(8, rows_per_s, name=name, trigger_ms=10_000, real_time=True)


def cluster(*workloads: Workload, executors: int = 1, task_cpus: float = 0.05) -> SimulatedCluster:
    settings = ClusterSettings(executors=executors, task_cpus=task_cpus)
    return SimulatedCluster(workloads or (query(),), settings)


def test_batches_last_for_their_trigger_and_rows_wait_at_the_boundary() -> None:
    batches = cluster().advance(60)
    assert [batch.duration_ms for batch in batches] == [10_000.0] * len(batches)
    assert sum(batch.rows for batch in batches) == pytest.approx(300 * 10 * len(batches), rel=0.01)


def test_too_few_slots_at_a_boundary_end_the_query() -> None:
    simulation = cluster(executors=1, task_cpus=0.1)
    simulation.advance(5)
    simulation.run_job("0", 60)
    assert list(simulation.queries) == ["query"]
    simulation.advance(30)
    assert list(simulation.queries) == []


def test_the_slots_of_other_real_time_queries_are_taken() -> None:
    assert list(cluster(query("a"), query("b"), task_cpus=0.1).queries) == ["a", "b"]
    simulation = cluster(query("a"), query("b"), task_cpus=0.1)
    simulation.advance(30)
    assert list(simulation.queries) == ["a"]


def test_an_executor_that_dies_ends_the_query() -> None:
    simulation = cluster(executors=2)
    simulation.advance(15)
    simulation.kill("1")
    assert list(simulation.queries) == []


def test_a_placement_in_the_middle_of_a_batch_is_refused() -> None:
    simulation = cluster(executors=2)
    simulation.advance(15)
    task = next(iter(simulation.where()))
    with pytest.raises(ElastreamError, match="while a batch uses its state"):
        simulation.place("query", {task: "1"}, ticket=Ticket())


def test_a_rate_that_one_executor_bears_changes_nothing() -> None:
    simulation = cluster(query(rows_per_s=600), executors=1)
    with simulated(simulation, POLICY) as loop:
        simulation.advance(300)
    assert loop.changes == []


def test_no_executor_is_released_whose_slots_a_batch_needs() -> None:
    simulation = cluster(query(rows_per_s=100), executors=2, task_cpus=0.125)
    with simulated(simulation, POLICY) as loop:
        simulation.advance(300)
    assert list(simulation.queries) == ["query"], loop.story
    assert len(simulation.executors()) == 2
    assert "Real-time batches take 10 slots at once" in loop.of("hold")[-1].reason


def test_a_move_by_hand_is_made_at_the_next_boundary() -> None:
    simulation = cluster(executors=2)
    policy = Policy(max_executors=2, goal=ByHand())
    with simulated(simulation, policy) as loop:
        simulation.advance(12)
        goal = dict.fromkeys(simulation.where(), "0")
        loop.move(goal)
        simulation.advance(3)
        assert simulation.where() != goal
        simulation.advance(20)
        assert simulation.where() == goal, loop.story


def test_a_burst_is_followed_out_and_in_at_boundaries_alone() -> None:
    simulation = cluster(query(rows_per_s=BURST))
    with simulated(simulation, POLICY) as loop:
        simulation.advance(200)
        assert len(simulation.executors()) == 2, loop.story
        assert set(simulation.where().values()) == {"0", "1"}
        simulation.advance(300)
    assert list(simulation.queries) == ["query"], loop.story
    assert loop.changes == ["scale-out", "scale-in"], loop.story
    assert len(simulation.executors()) == 1
    assert not any("uses its state" in decision.reason for decision in loop.decisions)


def test_micro_batch_and_real_time_queries_are_moved_together() -> None:
    micro = even_workload(8, rate_steps({0: 200, 60: 700, 240: 200}), name="micro")
    simulation = cluster(micro, query("real", rows_per_s=BURST), task_cpus=0.05)
    with simulated(simulation, POLICY) as loop:
        simulation.advance(500)
    assert list(simulation.queries) == ["micro", "real"], loop.story
    assert "scale-out" in loop.changes
