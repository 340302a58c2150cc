"""Equation 18 with slots: what operators on a node keep busy, and the stages of a batch."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.planner.generated import expect_the_best, generated

from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Polynomial
from elastream.replication.model.problem import (
    Batch,
    Bounds,
    Datastore,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Weights,
)
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.exact import replication
from elastream_lab.studies.replication.milp import replication_milp

seeds = st.integers(0, 2**40)


def with_slots(seed: int, *, most_nodes: int = 4, most: int = 90) -> ReplicationProblem:
    """Return a generated problem whose operators keep slots busy, often too many for few nodes."""
    problem = generated(seed, most_nodes=most_nodes, most=most)
    draw = Random(f"slots {seed}")
    work = [draw.choice([0, 0.4, 0.9, 1.3]) for _ in problem.operators]
    names = [operator.name for operator in problem.operators]
    return replace(
        problem,
        operators=tuple(
            replace(operator, busy=tuple(amount / k * (1.2 if k > 1 else 1) for k in (1, 2, 3)))
            for operator, amount in zip(problem.operators, work, strict=True)
        ),
        nodes=tuple(replace(node, slots=draw.choice([1, 1, 1, 2, 0.5])) for node in problem.nodes),
        batches=tuple(
            Batch(tuple(draw.sample(names, draw.randint(1, len(names)))), draw.choice([0.9, 1.5]))
            for _ in range(draw.randint(0, 2))
        ),
        distinct=draw.random() < 0.5,
    )


@given(seeds)
@settings(max_examples=150)
def test_the_plan_is_as_good_as_exhaustive_search(seed: int) -> None:
    expect_the_best(with_slots(seed), seed)


@pytest.mark.parametrize("seed", range(8))
def test_the_integer_program_agrees(seed: int) -> None:
    problem = with_slots(seed, most_nodes=5, most=10**4)
    plan, program = replication(problem), replication_milp(problem)
    if isinstance(program, Infeasible):
        assert isinstance(plan, Infeasible)
        return
    assert program is not None
    assert not isinstance(plan, Infeasible)
    assert plan.objective == pytest.approx(program.objective, rel=1e-6, abs=1e-9)


def two_operators(*, slots: float = 1, batches: tuple[Batch, ...] = ()) -> ReplicationProblem:
    """Return a problem of two operators of 0.6 slots each, for which one node is cheapest."""
    flat = ((0.0, 0.0), (0.0, 0.0))
    return ReplicationProblem(
        operators=tuple(
            Operator(name, Polynomial((100.0,)), busy=(0.6, 0.3), max_replicas=2) for name in "ij"
        ),
        streams=(),
        nodes=tuple(Node(name, 5, price=1, slots=slots) for name in "uv"),
        links=Links(flat, flat),
        datastore=Datastore((0, 0), (1, 1)),
        sync_ms=0,
        bounds=Bounds(1000, 10, 1000),
        weights=Weights(0, 1, 0),
        batches=batches,
    )


def deployment(problem: ReplicationProblem) -> dict[str, tuple[str, ...]]:
    plan = replication(problem)
    assert not isinstance(plan, Infeasible)
    return dict(plan.deployment)


def test_operators_on_a_node_share_its_slots() -> None:
    assert deployment(two_operators(slots=1.2)) == {"i": ("u",), "j": ("u",)}
    assert deployment(two_operators()) == {"i": ("u",), "j": ("v",)}


def test_stages_of_a_batch_are_counted_together_wherever_they_run() -> None:
    apart = two_operators(batches=(Batch(("i", "j"), 0.9),))
    assert evaluate(apart, {"i": ("u",), "j": ("v",)}).faults == (
        "batches of i, j are busy 1.2, above 0.9",
    )
    assert deployment(apart) in ({"i": ("u",), "j": ("u", "v")}, {"i": ("u", "v"), "j": ("u",)})


def test_slots_that_are_too_few_are_named() -> None:
    none = replication(two_operators(slots=0.5))
    assert isinstance(none, Infeasible)
    assert none.reason.endswith("the nodes have 10 resources in all, and 1 slots")
    one = replication(two_operators(slots=0.2))
    assert isinstance(one, Infeasible)
    assert one.reason == (
        "operator i needs 0.6 slots in 2 replicas at least, and its nodes have no room for that"
    )


def test_a_batch_names_known_operators() -> None:
    with pytest.raises(ProblemError, match=r"batches\[0\]\.operators\[1\]: there is no operator"):
        two_operators(batches=(Batch(("i", "k"), 1),))
