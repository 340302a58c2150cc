"""The whole loop at a size that no laptop has."""

from __future__ import annotations

import pytest

from elastream.control.decisions import Decision
from elastream.control.driver import Controller
from elastream.control.policy import Planner, Policy
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import even_workload


@pytest.mark.parametrize("planner", ["single-step", "free-step"])
def test_fifty_executors_follow_the_load_and_end_evenly_loaded(planner: Planner) -> None:
    def rows_per_s(second: float) -> float:
        return 35_000 * (1.0 if second < 20 else 1.5 if second < 90 else 0.6)

    cluster = SimulatedCluster(even_workload(400, rows_per_s), ClusterSettings(executors=50))
    policy = Policy(
        max_executors=200, cooldown_s=10, planner=planner, moves_per_batch=100, trigger_s=1.0
    )
    decisions: list[Decision] = []
    with Controller(
        cluster,
        cluster,
        cluster,
        policy,
        decisions.append,
        query=f"large {planner}",
        background=lambda job: job(),
    ):
        for _ in range(190):
            cluster.run_batch()
    assert max(decision.executors for decision in decisions) > 75
    assert {decision.kind for decision in decisions[-20:-1]} == {"hold"}
    held = list(cluster.where().values())
    number = len(cluster.executors())
    assert number < 45
    most = max(held.count(node) for node in set(held))
    assert most <= (1 + policy.tau) * len(held) / number
