"""Random query graphs as section 7.1 of paper 003 draws them.

A tree of operators for each input stream, all of the same size; every operator has one to three
operators downstream. A tuple takes 0.1 to 1 ms; half of the operators have selectivity 1, the
others one between 0.5 and 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elastream.resilience.model.graph import GraphOperator, QueryGraph
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.load_model import linear_load

NODES = 10
"""The paper's cluster: this many nodes, all alike."""


def random_graph(
    inputs: int,
    tree: int,
    rng: np.random.Generator,
    *,
    equal_cost_ms: float | None = None,
    transfer_cost_ms: float = 0.0,
) -> QueryGraph:
    """Return a graph of ``inputs`` trees of ``tree`` operators each.

    With ``equal_cost_ms`` a tuple takes every operator the same time.
    """
    names = [f"I{k}" for k in range(inputs)]
    operators = []
    for name in names:
        upstream = [name]
        for source in upstream:  # grows while it is walked
            room = tree + 1 - len(upstream)
            for _ in range(min(room, int(rng.integers(1, 4)) if source != name else 1)):
                cost = rng.uniform(0.1, 1.0) if equal_cost_ms is None else equal_cost_ms
                upstream.append(f"{name}.{len(upstream)}")
                operators.append(GraphOperator.of(upstream[-1], [source], float(cost)))
    halved = rng.permutation(len(operators))[: len(operators) // 2]
    for j in halved.tolist():
        operators[j] = replace(operators[j], selectivity=float(rng.uniform(0.5, 1.0)))
    return QueryGraph.of(names, operators, transfer_cost_ms)


def with_errors(graph: QueryGraph, level: float, rng: np.random.Generator) -> QueryGraph:
    """Return the graph as measured with errors: costs and selectivities off by up to ``level``."""

    def measured(value: float) -> float:
        return float(value * rng.uniform(1 - level, 1 + level))

    operators = [
        replace(o, cost=measured(o.cost), selectivity=measured(o.selectivity or 0.0))
        for o in graph.operators
    ]
    return replace(graph, operators=tuple(operators))


def problem_of(graph: QueryGraph, nodes: int = NODES) -> ResilientProblem:
    """Return the problem of placing the graph on nodes that are all alike."""
    return linear_load(graph).problem([1.0] * nodes)
