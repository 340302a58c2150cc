"""Proofs for many operators, certified by a plain dynamic program and by the integer program."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, product
from random import Random
from statistics import fmean

import pytest

from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Queue
from elastream.replication.model.plan import ReplicationPlan
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

CHAIN_OF = {total: list(pairwise(range(total))) for total in (14, 16, 20)}
DIAMONDS = [*((i, i + 1) for i in range(0, 12, 3)), *((i, i + 2) for i in range(0, 12, 3))]
DIAMONDS += [(target, i + 3) for i in range(0, 12, 3) for target in (i + 1, i + 2)]
TREE = [(0, 6), (1, 6), (2, 7), (3, 7), (4, 8), (5, 8), (6, 9), (7, 9), (8, 10), (9, 10)]


def application(
    edges: list[tuple[int, int]], seed: int, *, nodes: int, resources: float
) -> ReplicationProblem:
    """Operators with up to two replicas each, on nodes with delays and costs of any kind."""
    draw = Random(seed)
    names = [f"n{u}" for u in range(nodes)]
    delay = [[0.0 if u == v else draw.uniform(1, 40) for v in range(nodes)] for u in range(nodes)]
    paid = [[0.0 if u == v else draw.uniform(0, 0.01) for v in range(nodes)] for u in range(nodes)]
    operators = range(max(max(edge) for edge in edges) + 1)
    return ReplicationProblem(
        tuple(
            Operator(
                f"o{i}", Queue(draw.randint(120, 260)), cost=draw.choice([1, 2]), max_replicas=2
            )
            for i in operators
        ),
        tuple(Stream(f"o{i}", f"o{j}", draw.choice([20, 50])) for i, j in edges),
        tuple(Node(name, resources, draw.choice([1, 1.5]), 100) for name in names),
        Links(tuple(map(tuple, delay)), tuple(map(tuple, paid))),
        Datastore((5,) * nodes, (10_000,) * nodes),
        100,
        Bounds(1000, 100, 10_000),
        Weights(0.6, 0.4, 0),
    )


def least_of_chain(problem: ReplicationProblem) -> float:
    """The least objective where no node is ever full: operator after operator."""
    nodes = range(len(problem.nodes))
    every = [*combinations_with_replacement(nodes, 1), *combinations_with_replacement(nodes, 2)]
    by_ms = problem.weights.response / problem.bounds.response_ms
    by_cost = problem.weights.cost / problem.bounds.cost
    rate = {stream.target: stream.rate for stream in problem.streams}
    rate[problem.operators[0].name] = problem.streams[0].rate

    def alone(operator: Operator, chosen: tuple[int, ...]) -> float:
        assert isinstance(operator.latency, Queue)
        share = rate[operator.name] / len(chosen)
        slowest = min(problem.nodes[u].speedup for u in chosen)
        ms = 1000 / (operator.latency.service_rate - share) / slowest
        return by_ms * ms + by_cost * operator.cost * len(chosen)

    def between(stream: Stream, left: tuple[int, ...], right: tuple[int, ...]) -> float:
        pairs = list(product(left, right))
        ms = max(problem.links.delay_ms[u][v] for u, v in pairs)
        return by_ms * ms + by_cost * stream.rate * fmean(
            problem.links.cost[u][v] for u, v in pairs
        )

    first, *others = problem.operators
    least = {chosen: alone(first, chosen) for chosen in every}
    for operator, stream in zip(others, problem.streams, strict=True):
        least = {
            chosen: alone(operator, chosen)
            + min(least[before] + between(stream, before, chosen) for before in every)
            for chosen in every
        }
    return min(least.values())


@pytest.mark.parametrize("total", [14, 16, 20])
@pytest.mark.parametrize("seed", range(4))
def test_a_long_chain_is_proven_and_as_good_as_a_dynamic_program_says(
    total: int, seed: int
) -> None:
    problem = application(CHAIN_OF[total], seed, nodes=5, resources=100)
    plan = replication(problem)
    assert isinstance(plan, ReplicationPlan)
    assert plan.status == "optimal"
    assert plan.objective == pytest.approx(least_of_chain(problem), rel=1e-9)


@pytest.mark.parametrize("edges", [CHAIN_OF[14], DIAMONDS, TREE], ids=["chain", "diamonds", "tree"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_many_operators_on_full_nodes_are_proven_and_as_good_as_the_integer_program(
    edges: list[tuple[int, int]], seed: int
) -> None:
    problem = application(edges, seed, nodes=3, resources=6)
    plan, program = replication(problem), replication_milp(problem)
    assert isinstance(plan, ReplicationPlan)
    assert plan.status == "optimal"
    assert program is not None
    assert not isinstance(program, Infeasible)
    assert plan.objective == pytest.approx(program.objective, rel=1e-6)
