"""Points of the ideal set, and what the model says that executors would have to do there.

A point is a rate for each stream. It is drawn uniformly from the ideal set, as section 7.1 of paper
003 does. What it asks of an executor is added up from the loads of the problem, pair by pair: what
the planner makes of them, its normalised space, is not used, so that it is held against executors
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elastream.model.errors import SparkError
from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import ResilientProblem
from elastream.resilience.planner.feasible_set import volume_ratio
from elastream.resilience.planner.normalised import Floats, Ints, Space, normalise
from elastream_lab.rivals import placements as rivals
from elastream_lab.rivals.methods import METHODS, drawn_rates


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What a trial run says of some executors."""

    problem: ResilientProblem
    space: Space
    cores: tuple[float, ...]
    """Of each executor."""

    @classmethod
    def of(cls, problem: ResilientProblem, cores: Sequence[float]) -> Model:
        """Return the model; refuses a trial that left nothing to place."""
        return cls(problem, space_of_trial(problem), tuple(cores))

    def points(self, seed: int, count: int) -> Floats:
        """Return rows of rates, in rows a second, drawn uniformly from the ideal set."""
        problem = self.problem
        costs = np.array(problem.load, dtype=np.float64).sum(axis=0)
        if problem.unplaced:
            costs += np.array(problem.unplaced, dtype=np.float64).sum(axis=0)
        drawn = drawn_rates(self.space, seed, count)
        rates: Floats = np.zeros((count, len(costs)))
        rates[:, self.space.streams] = (
            drawn * float(sum(problem.capacity)) / costs[self.space.streams]
        )
        return rates

    def place(self, method: str, seed: int) -> tuple[int, ...]:
        """Return the node of each pair; the seed draws the rates that rivals balance."""
        space = self.space
        if method == "connected":
            found = rivals.connected(by_substream(space), drawn_rates(space, seed, 1)[0])
        else:
            found = METHODS[method](space, seed)
        return tuple(int(node) for node in space.nodes[found])

    def utilisation(self, nodes: Sequence[int], rates: Floats) -> Floats:
        """Return what part of its time each executor would be busy; above 1 it cannot be."""
        problem = self.problem
        load = np.array(problem.load, dtype=np.float64) @ rates
        if problem.fixed:
            load = load + np.array(problem.fixed, dtype=np.float64)
        cores = np.array(self.cores, dtype=np.float64)
        busy = cores - np.array(problem.capacity, dtype=np.float64)
        if problem.unplaced:
            busy = busy + np.array(problem.unplaced, dtype=np.float64) @ rates
        np.add.at(busy, np.array(nodes, dtype=np.int64), load)
        used: Floats = busy / cores
        return used

    def volume(self, nodes: Sequence[int]) -> float:
        """Return the feasible volume over the ideal one, as a plan shows it."""
        numbers = {int(node): place for place, node in enumerate(self.space.nodes)}
        place: Ints = np.array([numbers[node] for node in nodes], dtype=np.int64)
        return volume_ratio(self.space.above_bound(place)).value


def space_of_trial(problem: ResilientProblem) -> Space:
    """Return the normalised space of a problem that a trial run measured."""
    space = normalise(problem)
    if isinstance(space, Infeasible):  # executors that are full without any packet
        raise SparkError(space.reason)
    return space


def by_substream(space: Space) -> Space:
    """Return the space with the operators of a sub-stream connected: they read the same one."""
    streams = space.shares.argmax(axis=1)
    ends = [(j, j + 1) for j in range(len(streams) - 1) if streams[j] == streams[j + 1]]
    return replace(
        space,
        ends=np.array(ends, dtype=np.int64).reshape(-1, 2),
        transfers=np.zeros((len(ends), space.shares.shape[1])),
    )
