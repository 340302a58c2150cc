"""Seeded replication problems: small enough to search, nasty enough to matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import comb, prod
from random import Random

import pytest

from elastream.model.plan import Infeasible
from elastream.replication.model.latency import Latency, Polynomial, Queue
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Deployment,
    Links,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
    Weights,
)
from elastream.replication.planner import minimise
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.exact import replication
from elastream.replication.planner.search import Search

__all__ = ["exhaustive", "expect_the_best", "generated", "some_deployment"]


def expect_the_best(problem: ReplicationProblem, seed: int) -> None:
    """Expect plans that are as good as exhaustive search finds, or none where there is none."""
    best = exhaustive(problem)
    for plan in _in_every_way(problem, seed):
        if best is None:
            assert isinstance(plan, Infeasible)
            continue
        assert not isinstance(plan, Infeasible), plan.reason
        assert plan.status == "optimal"
        assert plan.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
        assert evaluate(problem, plan.deployment).faults == ()


def _in_every_way(problem: ReplicationProblem, seed: int) -> list[ReplicationPlan | Infeasible]:
    """Return the plan as it is made; every fourth also with all thinning, and with no beam.

    What is so small is otherwise searched at once, not thinned out.
    """
    plans = [replication(problem)]
    if seed % 4:
        return plans
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimise, "_FEW", 0)
        plans.append(replication(problem))
        patch.setattr(Search, "beam", lambda *_: None)
        plans.append(replication(problem))
    return plans


def exhaustive(problem: ReplicationProblem) -> float | None:
    """Return the least objective of all deployments; None where none is allowed."""
    worth = (evaluate(problem, deployment) for deployment in deployments(problem))
    allowed = [each.objective for each in worth if not each.faults]
    return min((value for value in allowed if value is not None), default=None)


def deployments(problem: ReplicationProblem) -> Iterator[Deployment]:
    choices = []
    for operator in problem.operators:
        nodes = problem.allowed_nodes(operator)
        sizes = range(1, operator.max_replicas + 1)
        choices.append([c for size in sizes for c in combinations_with_replacement(nodes, size)])
    names = [operator.name for operator in problem.operators]
    for chosen in product(*choices):
        yield dict(zip(names, chosen, strict=True))


def generated(
    seed: int, *, most_nodes: int = 4, most_operators: int = 4, most: int = 90
) -> ReplicationProblem:
    """Return a problem with at most ``most`` deployments; every seed is another one."""
    draw = Random(seed)
    nodes = tuple(_node(draw, u) for u in range(draw.randint(1, most_nodes)))
    nodes = _with_prices(Random(f"prices {seed}"), nodes)
    total = draw.randint(1, most_operators)
    streams = _streams(draw, total)
    operators = _operators(draw, total, [node.name for node in nodes], most)
    size = len(nodes)
    problem = ReplicationProblem(
        operators,
        streams,
        nodes,
        Links(_matrix(draw, size, 40), _matrix(draw, size, 1)),
        Datastore(
            tuple(draw.choice([0, 5, 9]) for _ in nodes),
            tuple(draw.choice([1000, 1000, 50_000]) for _ in nodes),
        ),
        draw.choice([0, 250]),
        Bounds(1e4, 1e4, 1e5),
        draw.choice(_WEIGHTS),
    )
    return _with_bounds(draw, _with_current(draw, problem))


_WEIGHTS = [
    Weights(0.5, 0.5, 0), Weights(0.3, 0.3, 0.4), Weights(1, 0, 0), Weights(0, 1, 0),
    Weights(0.6, 0, 0.4), Weights(0, 0.6, 0.4), Weights(3, 2, 5), Weights(0.1, 0, 9),
]  # fmt: skip


def some_deployment(draw: Random, problem: ReplicationProblem) -> Deployment:
    found = {}
    for operator in problem.operators:
        nodes = problem.allowed_nodes(operator)
        replicas = draw.choices(nodes, k=draw.randint(1, operator.max_replicas))
        found[operator.name] = tuple(sorted(replicas))
    return found


def _node(draw: Random, number: int) -> Node:
    resources = draw.choice([1, 2, 2, 3, 0.7])
    return Node(f"n{number}", resources, draw.choice([1, 1, 0.5, 2]), draw.choice([0, 500, 300]))


def _with_prices(draw: Random, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return the nodes with prices two times of three, and then often with room for sharing."""
    equal: list[float] = [draw.choice([0.5, 1, 4])]
    prices = draw.choice([[0.0], equal, [0, 0.5, 1, 2.5, 8]])
    if prices == [0]:
        return nodes
    room = draw.choice([1, 2, 3])
    return tuple(
        replace(node, price=draw.choice(prices), resources=node.resources * room) for node in nodes
    )


def _matrix(draw: Random, size: int, scale: float) -> tuple[tuple[float, ...], ...]:
    kind = draw.choice(["equal", "symmetric", "any", "any", "zero"])
    entries = [[0.0] * size for _ in range(size)]
    for u, v in product(range(size), repeat=2):
        if kind == "equal":
            entries[u][v] = scale if u != v else 0.0
        elif kind == "symmetric" and u < v:
            entries[u][v] = entries[v][u] = scale * draw.randint(0, 4) / 4
        elif kind == "any":
            entries[u][v] = scale * draw.random() if u != v or draw.random() < 0.2 else 0.0
    return tuple(map(tuple, entries))


def _streams(draw: Random, total: int) -> tuple[Stream, ...]:
    dense = draw.choice([0.3, 0.7, 1.0])
    pairs = [(i, j) for j in range(total) for i in range(j) if draw.random() < dense]
    return tuple(Stream(f"o{i}", f"o{j}", draw.choice([0, 10, 55, 80])) for i, j in pairs)


def _operators(draw: Random, total: int, names: list[str], most: int) -> tuple[Operator, ...]:
    made = []
    ways: list[int] = []
    for i in draw.sample(range(total), total):
        name = f"o{i}"
        left = most // prod(ways)
        options = [
            (size, replicas)
            for size in range(1, len(names) + 1)
            for replicas in (1, 2, 3)
            if comb(size + replicas, replicas) - 1 <= left
        ]
        size, replicas = draw.choice(options or [(1, 1)])
        ways.append(comb(size + replicas, replicas) - 1)
        nodes = None if size == len(names) else tuple(draw.sample(names, size))
        made.append(
            Operator(
                name,
                _latency(draw),
                draw.choice([0, 0, 100, 4000]),
                draw.choice([0, 300]),
                draw.choice([0, 1, 2.5]),
                draw.choice([0, 1, 1, 1, 0.7]),
                replicas,
                nodes,
            )
        )
    return tuple(made)


def _latency(draw: Random) -> Latency:
    if draw.random() < 0.3:
        return Polynomial((draw.randint(0, 9), draw.choice([0, 0.2, 0.01]), draw.choice([0, 1e-3])))
    return Queue(draw.choice([60, 100, 130, 200, 300]))


def _with_current(draw: Random, problem: ReplicationProblem) -> ReplicationProblem:
    if draw.random() < 0.35:
        return problem
    found = replace(problem, current=some_deployment(draw, problem))
    if draw.random() < 0.4:
        found = replace(found, restricted=True)
    if draw.random() < 0.4:
        speeds = tuple(draw.choice([2000, 9000]) for _ in problem.nodes)
        found = replace(found, downtime="restart", local_bytes_per_s=draw.choice([None, speeds]))
    return found


def _with_bounds(draw: Random, problem: ReplicationProblem) -> ReplicationProblem:
    """Return the problem with bounds about where a random deployment is, exactly there at times."""
    worth = evaluate(problem, some_deployment(draw, problem))
    near = [1.0, 1.0, 1.2, 3, 0.9]
    return replace(
        problem,
        bounds=Bounds(
            max(1e-3, (worth.response_ms or 90) * draw.choice(near)),
            max(1e-3, worth.cost * draw.choice(near)),
            max(1e-3, worth.downtime_ms * draw.choice(near)),
        ),
    )
