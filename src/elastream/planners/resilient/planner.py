"""Resilient placement by any method: the paper's, ours, and the rivals.

A rival needs rates to balance at, which a problem does not have. As in section 7.3.1 of paper 003
they are drawn at random from the ideal set, by the seed; correlation and max-rate draw a series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from elastream.model.plan import Infeasible
from elastream.model.resilience.plan import FeasibleSet, ResilientPlan
from elastream.model.resilience.problem import ResilientProblem
from elastream.planners.resilient import rivals
from elastream.planners.resilient.clustering import rod_with_clustering
from elastream.planners.resilient.feasible_set import volume_ratio
from elastream.planners.resilient.normalised import Floats, Ints, Space, normalised
from elastream.planners.resilient.packing_at_bound import packing_at_bound
from elastream.planners.resilient.refined import refine

__all__ = ["METHODS", "Method", "described", "drawn_rates", "resilient"]

Method = Callable[[Space, int], Ints]
"""A placement of the operators of a space; chance is a seed."""

_SERIES = 100
"""Points in time of a drawn series."""


def drawn_rates(space: Space, seed: int, count: int) -> Floats:
    """Return rows of rates drawn uniformly from the ideal set above the lower bound."""
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet(np.ones(len(space.bound) + 1), size=count)
    drawn: Floats = space.bound + space.room * parts[:, :-1]
    return drawn


def _rod(space: Space, seed: int) -> Ints:  # noqa: ARG001
    return rod_with_clustering(space)


def _refined(space: Space, seed: int) -> Ints:  # noqa: ARG001
    first = rod_with_clustering(space)
    better = refine(space, first)
    return max(better, first, key=lambda place: _measured(space, space.weights(place)).ratio)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "refined": _refined,
        "rod": _rod,
        "llf": lambda s, seed: rivals.largest_load_first(s, drawn_rates(s, seed, 1)[0]),
        "connected": lambda s, seed: rivals.connected(s, drawn_rates(s, seed, 1)[0]),
        "correlation": lambda s, seed: rivals.correlation(s, drawn_rates(s, seed, _SERIES)),
        "random": rivals.random_even,
        "max-rate": lambda s, seed: rivals.max_rate(s, drawn_rates(s, seed, _SERIES)),
    }
)
"""Every method by its name, the default first."""


def resilient(
    problem: ResilientProblem, method: str = "refined", *, seed: int = 0
) -> ResilientPlan | Infeasible:
    """Return where to place the operators so that as many rates as possible can be borne.

    ``method`` is one of ``METHODS``; ``seed`` matters to the rivals alone. A plan that a node is
    overloaded by at the lower bound already is ``unbalanced``; that no plan bears the lower bound
    is found out by "refined" alone.
    """
    space = normalised(problem)
    if isinstance(space, Infeasible):
        return space
    place = METHODS[method](space, seed)
    plan = described(problem, space, place)
    if plan.status == "unbalanced" and method == "refined":
        packed = packing_at_bound(space)
        if isinstance(packed, Infeasible):
            return packed
        if packed is not None:
            plan = described(problem, space, refine(space, packed))
    return plan


def described(problem: ResilientProblem, space: Space, place: Ints) -> ResilientPlan:
    """Return the plan of a placement: what it weighs and what it bears."""
    free = space.without_transfers()
    weights = free.weights(place)
    shown = np.zeros((len(problem.capacity), len(problem.lower_bound)))
    shown[np.ix_(space.nodes, space.streams)] = weights
    feasible = _measured(free, weights)
    with_transfer = None
    if space.transfer_costs:
        with_transfer = _measured(space, space.weights(place))
    borne = with_transfer or feasible
    return ResilientPlan(
        "feasible" if borne.ratio > 0 else "unbalanced",
        tuple(int(node) for node in space.nodes[place]),
        feasible,
        tuple(tuple(row) for row in shown.tolist()),
        with_transfer,
    )


def _measured(space: Space, weights: Floats) -> FeasibleSet:
    value, error = volume_ratio(space.above_bound(weights))
    return FeasibleSet(value, error, space.plane_distance(weights))
