"""Trials that the figures of resilience share: methods run on a graph, volumes on fixed points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elastream.model.plan import Infeasible
from elastream.resilience.model.graph import QueryGraph
from elastream.resilience.planner.feasible_set import directions, ray_values
from elastream.resilience.planner.normalised import Floats, Ints, Space, normalise
from elastream_lab.rivals.methods import METHODS
from elastream_lab.studies.resilience.graphs import NODES, problem_of

RIVALS = ("correlation", "llf", "random", "connected")
"""The methods of section 7.2, in the order of figure 14."""
_RUNS = 10
"""A rival is run so often on a graph, as in section 7.3.1."""


@dataclass(frozen=True, slots=True, eq=False)
class Ruler:
    """Measures volumes on one fixed set of points, so that placements are compared alike."""

    points: Floats

    @classmethod
    def of(cls, streams: int) -> Ruler:
        """Return a ruler of 4096 directions, good to three digits."""
        return cls(directions(streams, 12, seed=1))

    def ratio(self, space: Space, place: Ints) -> float:
        """Return the feasible volume over the ideal one."""
        rows = space.above_bound(place)
        return 0.0 if rows is None else float(ray_values(rows, self.points).mean())


def space_of(graph: QueryGraph) -> Space:
    """Return the normalised space of the graph on nodes that are all alike."""
    space = normalise(problem_of(graph, NODES))
    if isinstance(space, Infeasible):  # nodes with capacity, no lower bound
        raise AssertionError(space.reason)
    return space


def trial(planned: Space, true: Space, methods: Sequence[str], seed: int) -> Mapping[str, float]:
    """Return, by method, the ratio of its placements; rivals are run ten times.

    Placements are made on ``planned`` and measured on ``true``.
    """
    ruler = Ruler.of(true.shares.shape[1])
    found = {}
    for method in methods:
        runs = _RUNS if method in RIVALS else 1
        places = (METHODS[method](planned, _RUNS * seed + run) for run in range(runs))
        found[method] = mean([ruler.ratio(true, place) for place in places])
    return found


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return float(np.mean(values))
