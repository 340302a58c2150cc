from __future__ import annotations

from dataclasses import replace

import pytest
from tests.replication.goal.scenes import executors, observed, scene, seen

from elastream.replication.goal.goal import Replication
from elastream.replication.goal.problem import problem_of
from elastream.replication.goal.solving import executors_for, prefer_live_executors
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import Deployment, ReplicationProblem, Weights
from elastream.replication.planner.exact import EFFORT, plan_of, replication

ON = {"query/source": ("source",)}


def problem(speed_of_0: float = 1.0) -> ReplicationProblem:
    """Two executors and one that might come: what a row takes counts, and a little its price."""
    goal = Replication(response_ms=5000, weights=Weights(1, 0.001, 0), max_replicas=2)
    nodes = executors(2)
    batches = scene({0: "0", 1: "01"}, run_ms={0: 50.0, 1: 400.0}, rows={0: 20, 1: 100})
    found = problem_of(observed(batches, nodes, most=3), seen(batches, nodes), goal)
    assert found is not None
    slowed = {"0": speed_of_0}
    return replace(
        found,
        nodes=tuple(
            replace(node, speedup=slowed.get(node.name, 1.0), spawn_ms=0) for node in found.nodes
        ),
    )


def planned(which: ReplicationProblem, deployment: Deployment) -> ReplicationPlan:
    """A deployment as a plan that is taken to be the best."""
    plan = plan_of(which, {**ON, **deployment}, 0.0)
    return replace(plan, lower_bound=plan.objective)


def test_newcomers_are_wanted_next_to_those_that_are_alive() -> None:
    assert executors_for({**ON, "query/0": ("0",), "query/1": ("0", "1")}, 3) == 2
    assert executors_for({**ON, "query/0": ("0",), "query/1": ("0", "newcomer 0")}, 3) == 4


def test_a_newcomer_gives_way_to_an_idle_executor_that_is_as_good() -> None:
    which = problem()
    plan = planned(which, {"query/0": ("newcomer 0",), "query/1": ("newcomer 0",)})
    found = prefer_live_executors(which, plan, 0.0)
    assert found.objective == pytest.approx(plan.objective)
    assert found.deployment == {**ON, "query/0": ("0",), "query/1": ("0",)}


def test_a_newcomer_gives_way_to_an_executor_that_is_slower_within_the_bounds() -> None:
    which = problem(0.7)
    best = replication(which)
    assert isinstance(best, ReplicationPlan)
    assert best.deployment["query/1"] == ("1", "newcomer 0")
    found = prefer_live_executors(which, best, EFFORT)
    assert not any("newcomer" in node for nodes in found.deployment.values() for node in nodes)
    assert found.objective > best.objective == found.lower_bound
    assert found.status == "feasible"


def test_what_keeps_the_bounds_in_no_other_way_stays() -> None:
    which = problem(0.7)
    best = replication(which)
    assert isinstance(best, ReplicationPlan)
    tight = replace(which, bounds=replace(which.bounds, response_ms=best.response_ms))
    best = replication(tight)
    assert isinstance(best, ReplicationPlan)
    assert prefer_live_executors(tight, best, EFFORT).deployment == best.deployment
