"""The replication loop on a simulated cluster, and its step by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.control.replication.scenes import CHAIN, executors, load_of, looked

from elastream.control.decisions import Decision
from elastream.control.driver import Controller
from elastream.control.events import Log
from elastream.control.observation import TaskId
from elastream.control.replication.driver import ReplicationController
from elastream.control.replication.events import (
    CarryOut,
    DelaysMeasured,
    Failed,
    Looked,
    PlanMade,
    Probe,
    Solve,
)
from elastream.control.replication.policy import ReplicationPolicy
from elastream.control.replication.solving import solved
from elastream.control.replication.step import ReplicationState, started, step
from elastream.model.replication.problem import Weights
from elastream.simulation.cluster import ClusterSettings, SimulatedCluster
from elastream.simulation.workload import SimulatedTask, Workload

PARTITIONS = 6
QUICK = ReplicationPolicy(
    response_ms=900, act=True, period_s=10, cooldown_s=4, patience=2, smoothing_s=3
)


def workload(peak: float) -> Workload:
    """Operator 1 costs 4 ms a row, operator 0 a tenth of it; 100 rows a second, more at times."""
    tasks = tuple(
        SimulatedTask(TaskId(operator, j), 1 / PARTITIONS, row_ms, 1 << 16)
        for operator, row_ms in ((0, 0.4), (1, 4.0))
        for j in range(PARTITIONS)
    )
    return Workload(tasks, lambda second: peak if 60 <= second < 140 else 100.0)


class Run:
    def __init__(self, policy: ReplicationPolicy, *, peak: float = 500.0, nodes: int = 4) -> None:
        self.cluster = SimulatedCluster(workload(peak), ClusterSettings(executors=nodes))
        self.decisions: list[Decision] = []
        self.lower = Controller(
            self.cluster,
            self.cluster,
            self.cluster,
            policy.carrying_out(),
            lambda decision: self.decisions.append(decision) if decision.kind != "hold" else None,
            query=f"run {id(self)}",
            background=lambda job: job(),
        ).start()
        self.loop = ReplicationController(
            self.cluster,
            self.lower,
            CHAIN,
            policy,
            self.decisions.append,
            carry_out=lambda goal, _: self.lower.move(goal),
            background=lambda job: job(),
        )
        self.replicas: list[int] = []

    def until(self, second: float) -> Run:
        while self.cluster.now_ms < 1000 * second:
            self.cluster.run_batch()
            self.replicas.append(len(self.holders(1)))
        return self

    def holders(self, operator: int) -> set[str]:
        return {node for task, node in self.cluster.where().items() if task.operator == operator}

    def close(self) -> None:
        self.loop.close()
        self.lower.detach()

    @property
    def kinds(self) -> list[str]:
        return [decision.kind for decision in self.decisions]


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run(QUICK)
    yield made
    made.close()


def test_replicas_follow_a_load_that_rises_and_falls(run: Run) -> None:
    few = len(run.until(55).holders(1))
    many = len(run.until(130).holders(1))
    after = len(run.until(230).holders(1))
    assert few < many
    assert after < many
    assert run.kinds.count("plan") == run.kinds.count("done") >= 2


def test_the_cluster_is_as_the_last_plan_has_it(run: Run) -> None:
    run.until(130)
    plans = [decision for decision in run.decisions if decision.kind == "plan"]
    assert plans[-1].figures["cost"] == sum(len(run.holders(operator)) for operator in (0, 1))


def test_a_steady_load_is_left_alone_after_the_first_plan() -> None:
    run = Run(QUICK, peak=100.0)
    try:
        run.until(200)
        assert run.kinds.count("plan") == 1
    finally:
        run.close()


def test_advice_moves_nothing() -> None:
    run = Run(replace(QUICK, act=False))
    try:
        before = run.until(2).cluster.where()
        run.until(130)
        assert run.cluster.where() == before
        assert "advise" in run.kinds
        assert "plan" not in run.kinds
    finally:
        run.close()


def test_a_bound_that_cannot_be_met_is_met_as_nearly_as_can_be() -> None:
    run = Run(replace(QUICK, response_ms=400), peak=900)
    try:
        run.until(130)
        assert len(run.holders(1)) == 4
        assert any("as fast as can be" in decision.reason for decision in run.decisions)
    finally:
        run.close()


def test_downtime_that_counts_makes_fewer_changes() -> None:
    changes = []
    for weights in (Weights(0.5, 0.5, 0), Weights(0.3, 0.3, 0.4)):
        policy = replace(QUICK, response_ms=1500, weights=weights, sync_ms=3000, downtime_ms=5000)
        run = Run(policy)
        run.until(230)
        run.close()
        changes.append(run.kinds.count("plan"))
    assert changes[1] < changes[0]


def watching(policy: ReplicationPolicy, *, hosts: bool = False) -> ReplicationState:
    return started(policy, CHAIN, executors(3, hosts=hosts))[0]


def look(number: int, *, duration_ms: float = 500.0, hosts: bool = False) -> Looked:
    nodes = executors(3, hosts=hosts)
    batches = [
        looked(
            each,
            {0: "00", 1: "0011"},
            run_ms={0: 50.0, 1: 400.0},
            rows={0: 10, 1: 100},
            duration_ms=duration_ms,
        )
        for each in range(number + 1)
    ]
    return Looked(batches[-1], load_of(batches, nodes), nodes, moving=False)


def test_it_is_solved_when_the_period_is_over_or_the_bound_broken_for_long_enough() -> None:
    policy = ReplicationPolicy(response_ms=600, period_s=20, cooldown_s=5, patience=3)
    solves = []
    for slow_from in (1000, 8):
        state = watching(policy)
        for number in range(30):
            event = look(number, duration_ms=700 if number >= slow_from else 500)
            state, told = step(state, event)
            if any(isinstance(each, Solve) for each in told):
                solves.append(number)
                break
    assert solves == [20, 10]


def test_hosts_are_probed_once_and_again_when_a_new_one_comes() -> None:
    policy = ReplicationPolicy(response_ms=600, probes=2)
    state = watching(policy, hosts=True)
    state, told = step(state, look(0, hosts=True))
    probes = [each for each in told if isinstance(each, Probe)]
    assert [probe.hosts for probe in probes] == [("host0", "host1", "host2")]
    assert len(probes[0].pairs) == 6
    state, told = step(state, look(1, hosts=True))
    assert not any(isinstance(each, Probe) for each in told)
    table = {("host0", "host1"): 7.0}
    state, told = step(state, DelaysMeasured(probes[0].ticket, table, table))
    assert state.round_trips_ms == table
    state, told = step(state, look(2, hosts=True))
    assert not any(isinstance(each, Probe) for each in told)


def test_one_host_needs_no_probe() -> None:
    _, told = step(watching(ReplicationPolicy(response_ms=600)), look(0))
    assert not any(isinstance(each, Probe) for each in told)


def test_a_plan_that_failed_is_told_and_tried_again_later() -> None:
    policy = ReplicationPolicy(response_ms=900, period_s=5, weights=Weights(0, 1, 0), act=True)
    state = watching(policy)
    solve = None
    number = 0
    while solve is None:
        state, told = step(state, look(number))
        solve = next((each for each in told if isinstance(each, Solve)), None)
        number += 1
    state, told = step(state, Failed(solve.ticket, "out of luck"))
    assert [each.decision.kind for each in told if isinstance(each, Log)] == ["abandon"]
    later = []
    for again in range(number, number + 10):
        state, told = step(state, look(again))
        later += [each for each in told if isinstance(each, Solve)]
        if later:
            break
    assert later
    state, told = step(state, PlanMade(solve.ticket, solved(solve.order)))
    assert told == (), "an answer that nobody waits for is passed over"
    state, told = step(state, PlanMade(later[0].ticket, solved(later[0].order)))
    carried = [each for each in told if isinstance(each, CarryOut)]
    assert [set(each.goal.values()) for each in carried] == [{"0"}], "the cheapest is one replica"
