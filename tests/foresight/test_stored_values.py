"""A planner made from stored values, in a loop whose tasks become more and fewer."""

from __future__ import annotations

from elastream.core.policy import Policy
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import PartitionValues, partition_values
from elastream.goals.by_hand import ByHand
from elastream.testing import ClusterSettings, SimulatedCluster, even_workload, simulated

FALLS_BACK = "transition has values for 12 tasks, not for 16: single-step"


def planner_for(tasks: int) -> TransitionPlanner:
    chain = MigrationChain.of([2, 3, 4], [[0, 0.7, 0.3], [0.4, 0, 0.6], [0.3, 0.7, 0]], 0.8)
    values = partition_values(ProjectionProblem.of([1] * tasks, [5] * tasks, 0.4, chain))
    assert isinstance(values, PartitionValues)
    return TransitionPlanner(values)


def test_another_query_does_not_block_scaling_and_the_log_says_so_once() -> None:
    cluster = SimulatedCluster(even_workload(12, 800, name="a"), ClusterSettings(executors=2))
    policy = Policy(max_executors=5, planner=planner_for(12), goal=ByHand(), cooldown_s=1)

    with simulated(cluster, policy) as loop:

        def reasons(*sizes: int) -> list[str]:
            """What plans say while the application is brought to these sizes."""
            before = len(loop.of("plan"))
            for size in sizes:
                cluster.advance(60)
                loop.scale_to(size)
                cluster.advance(60)
                assert len(cluster.executors()) == size
            return [decision.reason for decision in loop.of("plan")[before:]]

        assert not any("values" in reason for reason in reasons(3, 4))
        cluster.begin_query(even_workload(4, 100, name="b"))
        first, *later = reasons(3, 4, 2, 3)
        assert first.endswith(FALLS_BACK)
        assert not any("values" in reason for reason in later)
        cluster.end_query("b")
        assert not any("values" in reason for reason in reasons(4, 3))
        (unknown,) = reasons(5)
        assert unknown.endswith("transition has no values for 5 nodes: single-step")
        assert loop.of("abandon") == []
