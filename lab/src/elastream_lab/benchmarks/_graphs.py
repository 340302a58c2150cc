"""Made applications of many operators on places of a made backbone: chains, diamonds, trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from elastream.replication.model.latency import Queue
from elastream.replication.model.problem import (
    Bounds,
    Datastore,
    Deployment,
    Node,
    Operator,
    ReplicationProblem,
    Stream,
)
from elastream_lab.studies.replication.reference import BALANCED, BASELINE, made_network

Edges = list[tuple[int, int]]

_RATE = 60.0
"""Tuples a second of each operator before they have risen."""
_RISEN = 5 / 3


@dataclass(frozen=True, slots=True)
class Graph:
    """A shape of this many operators."""

    name: str
    operators: int
    edges: Callable[[int], Edges]


def chain(operators: int) -> Edges:
    """Return each operator feeding the next one."""
    return list(pairwise(range(operators)))


def diamonds(operators: int) -> Edges:
    """Return fours in a row, of each two in the middle that the first feeds and the last reads."""
    edges = []
    for first in range(0, operators, 4):
        edges += [(first, first + 1), (first, first + 2)]
        edges += [(first + 1, first + 3), (first + 2, first + 3)]
    return edges + [(first - 1, first) for first in range(4, operators, 4)]


def tree(operators: int) -> Edges:
    """Return joins: every two operators feed one, down to a single one."""
    edges, ready, following = [], list(range((operators + 1) // 2)), (operators + 1) // 2
    while len(ready) > 1:
        one, other, *ready = ready
        edges += [(one, following), (other, following)]
        ready.append(following)
        following += 1
    return edges


GRAPHS = (
    *(Graph("chain", operators, chain) for operators in (12, 14, 16, 20)),
    *(Graph("diamonds in a row", operators, diamonds) for operators in (12, 16)),
    *(Graph("tree of joins", operators, tree) for operators in (11, 15)),
)


def made_application(
    graph: Graph, *, nodes: int, max_replicas: int, seed: int
) -> ReplicationProblem:
    """Return an application before it is deployed."""
    draw = Random(f"{graph.name} {graph.operators} {seed}")
    operators = tuple(
        Operator(
            f"o{i}",
            Queue(draw.randint(110, 400)),
            state_bytes=draw.choice([0, 1_000, 2_000_000]),
            code_bytes=300_000,
            max_replicas=max_replicas,
        )
        for i in range(graph.operators)
    )
    network = made_network(nodes, max_replicas, seed=seed).network
    edges = graph.edges(graph.operators)
    fed = Counter(target for _, target in edges)
    return ReplicationProblem(
        operators,
        tuple(Stream(f"o{i}", f"o{j}", _RATE / fed[j]) for i, j in edges),
        tuple(Node(name, 2, 1, 500) for name in network.names),
        network.links(0.02 / 1000),
        Datastore((50,) * nodes, (12_500_000,) * nodes),
        250,
        Bounds(2000, 100, 30_000),
        BASELINE,
    )


def with_risen_rates(problem: ReplicationProblem, current: Deployment) -> ReplicationProblem:
    """Return the application deployed, with more to do than it was deployed for."""
    streams = tuple(replace(each, rate=_RISEN * each.rate) for each in problem.streams)
    return replace(problem, streams=streams, weights=BALANCED, current=current)
