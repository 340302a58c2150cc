"""Problems of resilient placement, small and nasty, and the optimum by trying all."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.feasible_set import ray_values
from elastream.resilience.planner.normalised import Floats, Ints, Space, normalise
from elastream_lab.studies.resilience.graphs import problem_of, random_graph

EXAMPLE = ResilientProblem.of([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1])
"""Example 2 of the paper."""


def space_of(problem: ResilientProblem) -> Space:
    space = normalise(problem)
    assert not isinstance(space, Infeasible), space.reason
    return space


def random_space(inputs: int, tree: int, nodes: int, seed: int, transfer: float = 0.0) -> Space:
    graph = random_graph(inputs, tree, np.random.default_rng(seed), transfer_cost_ms=transfer)
    return space_of(problem_of(graph, nodes))


def all_placements(operators: int, nodes: int) -> list[Ints]:
    return [np.array(p) for p in itertools.product(range(nodes), repeat=operators)]


def value(space: Space, place: Ints, points: Floats) -> float:
    rows = space.above_bound(place)
    return 0.0 if rows is None else float(ray_values(rows, points).mean())


def optimum(space: Space, points: Floats) -> float:
    places = all_placements(len(space.shares), len(space.capacity))
    return max(value(space, place, points) for place in places)


@st.composite
def problems(
    draw: st.DrawFn,
    max_operators: int = 6,
    max_nodes: int = 3,
    max_streams: int = 4,
    bounded: bool = True,
) -> ResilientProblem:
    """Loads with zeros, equal values and zero rows; unequal nodes; a bound well inside."""
    operators = draw(st.integers(1, max_operators))
    streams = draw(st.integers(1, max_streams))
    amounts = st.sampled_from([0, 0, 1, 1, 2, 3, 5, 8])
    rows = st.lists(amounts, min_size=streams, max_size=streams)
    load = draw(st.lists(rows, min_size=operators, max_size=operators).filter(
        lambda load: any(map(any, load))
    ))  # fmt: skip
    capacity = draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=1, max_size=max_nodes))
    least = None
    if bounded and draw(st.booleans()):
        totals = [sum(column) for column in zip(*load, strict=True)]
        parts = draw(st.lists(st.sampled_from([0.0, 0.1, 0.2]), min_size=streams, max_size=streams))
        least = [
            part * sum(capacity) / total if total else 0.0
            for part, total in zip(parts, totals, strict=True)
        ]
    return ResilientProblem.of(load, capacity, least)
