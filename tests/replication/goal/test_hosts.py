"""Plans by the delays between hosts: probed, made coordinates of, and planned by (section 6.2)."""

from __future__ import annotations

import pytest

from elastream import Policy
from elastream.model.observation import OperatorGraph
from elastream.replication import Replication, Weights
from elastream.testing import ClusterSettings, SimulatedCluster, simulated
from elastream.testing.workload import SimulatedTask, Workload

HOSTS = ("near1", "near2", "far")
APART_MS = {("near1", "near2"): 1.0, ("near1", "far"): 200.0, ("near2", "far"): 200.0}


class Chain(Workload):
    """Three operators, each of which reads the one before."""

    __slots__ = ()

    @property
    def graph(self) -> OperatorGraph:
        return OperatorGraph({0: 1, 1: 2, 2: None})


@pytest.mark.parametrize(("probes", "left"), [(0, set(HOSTS)), (2, {"near1", "near2"})])
def test_operators_that_talk_to_each_other_are_put_together_where_delays_are_known(
    probes: int, left: set[str]
) -> None:
    tasks = [SimulatedTask(op, part, 1 / 3, 5.0, 1000) for op in range(3) for part in range(3)]
    load = Chain(tuple(tasks), lambda _: 10.0, trigger_ms=2000.0)
    settings = ClusterSettings(executors=3, slots=3, hosts=HOSTS, round_trips_ms=APART_MS)
    cluster = SimulatedCluster(load, settings)
    goal = Replication(
        response_ms=60_000.0, weights=Weights(1, 0, 0), probes=probes, period_s=10.0, cooldown_s=5.0
    )
    with simulated(cluster, Policy(max_executors=3, goal=goal, cooldown_s=5.0)) as loop:
        cluster.advance(120)
    host_of = {executor.id: executor.host for executor in cluster.executors()}
    assert {host_of[node] for node in cluster.where().values()} == left, loop.story
    assert set(host_of.values()) == left, "an executor that holds nothing is given back"
