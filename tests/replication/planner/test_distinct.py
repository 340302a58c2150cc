"""Problems in which no operator may have two replicas on one node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import expect_the_best, generated

from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Queue
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)
from elastream.replication.planner.exact import replication
from elastream_lab.studies.replication.milp import replication_milp

seeds = st.integers(0, 2**40)


@given(seeds)
@settings(max_examples=100)
def test_the_plan_is_as_good_as_exhaustive_search(seed: int) -> None:
    problem = replace(generated(seed), distinct=True)
    expect_the_best(problem, seed)


@pytest.mark.parametrize("seed", range(6))
def test_the_integer_program_agrees(seed: int) -> None:
    problem = replace(generated(seed, most_nodes=5, most_operators=4, most=10**5), distinct=True)
    plan, program = replication(problem), replication_milp(problem)
    if isinstance(program, Infeasible):
        assert isinstance(plan, Infeasible)
        return
    assert program is not None
    assert not isinstance(plan, Infeasible)
    assert plan.objective == pytest.approx(program.objective, rel=1e-6, abs=1e-9)


def test_a_second_replica_goes_to_another_node_however_far_that_is() -> None:
    problem = ReplicationProblem(
        operators=(
            Operator("source", Queue(500), nodes=("a",)),
            Operator("count", Queue(100), max_replicas=2),
        ),
        streams=(Stream("source", "count", 120),),
        nodes=(Node("a", 5), Node("b", 5)),
        links=Links(((0, 90), (90, 0)), ((0, 0), (0, 0))),
        datastore=Datastore((5, 5), (1e6, 1e6)),
        sync_ms=250,
        bounds=Bounds(1000, 30, 7500),
        weights=Weights(1, 0, 0),
    )
    near, apart = replication(problem), replication(replace(problem, distinct=True))
    assert not isinstance(near, Infeasible)
    assert not isinstance(apart, Infeasible)
    assert near.deployment["count"] == ("a", "a")
    assert apart.deployment["count"] == ("a", "b")


def test_many_nodes_and_replicas_are_fewer_sets_than_multisets() -> None:
    size = 18
    nodes = tuple(Node(f"n{number}", 5) for number in range(size))
    apart = tuple(tuple(10.0 * (u != v) for v in range(size)) for u in range(size))
    free = ((0.0,) * size,) * size
    problem = ReplicationProblem(
        operators=(Operator("count", Queue(100), max_replicas=size),),
        streams=(),
        nodes=nodes,
        links=Links(apart, free),
        datastore=Datastore((5,) * size, (1e6,) * size),
        sync_ms=250,
        bounds=Bounds(1000, 30, 7500),
        weights=Weights(0.5, 0.5, 0),
        distinct=True,
    )
    plan = replication(problem)
    assert not isinstance(plan, Infeasible)
    assert len(plan.deployment["count"]) == 1
