"""The whole loop at a size that no laptop has."""

from __future__ import annotations

import pytest

from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Planner, Policy
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.goals.utilisation import Utilisation
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated


@pytest.mark.parametrize("planner", ["single-step", "free-step"])
def test_fifty_executors_follow_the_load_and_end_evenly_loaded(planner: Planner) -> None:
    def rows_per_s(second: float) -> float:
        return 17_500 * (1.0 if second < 20 else 1.5 if second < 90 else 0.6)

    workloads = [even_workload(200, rows_per_s, name=name) for name in ("clicks", "orders")]
    cluster = SimulatedCluster(workloads, ClusterSettings(executors=50))
    policy = Policy(
        max_executors=200,
        cooldown_s=10,
        planner=planner,
        movement=Movement(moves_per_batch=50),
        goal=Utilisation(keep_triggers=True),
    )
    decisions: list[Decision] = []
    with simulated(cluster, policy, log=decisions.append):
        cluster.run_batches(380)
    assert max(decision.executors for decision in decisions) > 75
    assert {decision.kind for decision in decisions[-20:-1]} == {"hold"}
    held = list(cluster.where().values())
    number = len(cluster.executors())
    assert number < 45
    most = max(held.count(node) for node in set(held))
    assert most <= (1 + policy.tau) * len(held) / number


def test_a_planner_that_looks_ahead_runs_the_loop() -> None:
    def rows_per_s(second: float) -> float:
        return 500 if second % 120 < 60 else 2600

    tasks, sizes = 24, range(1, 7)
    chain = MigrationChain.of(list(sizes), [[1 / 6] * 6] * 6, gamma=0.8)
    values = partition_values(ProjectionProblem((1,) * tasks, (100,) * tasks, 0.4, chain))
    assert isinstance(values, PartitionValues)
    cluster = SimulatedCluster(even_workload(tasks, rows_per_s), ClusterSettings(executors=2))
    policy = Policy(
        max_executors=6,
        cooldown_s=5,
        planner=TransitionPlanner(values),
        tau=0.4,
        goal=Utilisation(keep_triggers=True),
    )
    decisions: list[Decision] = []
    with simulated(cluster, policy, log=decisions.append):
        cluster.run_batches(260)
    kinds = [decision.kind for decision in decisions]
    assert "planner transition" in decisions[0].reason
    assert kinds.count("scale-out") >= 2
    assert kinds.count("scale-in") >= 1
    assert kinds.count("done") >= 3
    assert "abandon" not in kinds
