"""Resilient placement: the paper's ROD (003, section 5), and ROD refined by exchanges."""

from __future__ import annotations

from typing import Literal

import numpy as np

from elastream.model.plan import Infeasible
from elastream.resilience.model.problem import FeasibleSet, ResilientPlan, ResilientProblem
from elastream.resilience.planner.clustering import rod_with_clustering
from elastream.resilience.planner.feasible_set import volume_ratio
from elastream.resilience.planner.normalised import Ints, Space, normalise
from elastream.resilience.planner.packing_at_bound import packing_at_bound
from elastream.resilience.planner.refined import refine

Method = Literal["refined", "rod"]
"""ROD as in the paper, or ROD improved by exchanging operators until nothing helps."""


def refined_placement(space: Space) -> Ints:
    """Return ROD's placement improved by exchanges, or ROD's if that is better."""
    first = rod_with_clustering(space)
    better = refine(space, first)
    return max(better, first, key=lambda place: _measured(space, place).ratio)


def resilient(problem: ResilientProblem, method: Method = "refined") -> ResilientPlan | Infeasible:
    """Return where to place the operators so that as many rates as possible are feasible.

    A plan with a node already overloaded at the lower bound is ``unbalanced``. Only "refined"
    detects that no plan is feasible at the lower bound.
    """
    space = normalise(problem)
    if isinstance(space, Infeasible):
        return space
    place = refined_placement(space) if method == "refined" else rod_with_clustering(space)
    plan = describe(problem, space, place)
    if plan.status == "unbalanced" and method == "refined":
        packed = packing_at_bound(space)
        if isinstance(packed, Infeasible):
            return packed
        if packed is not None:
            plan = describe(problem, space, refine(space, packed))
    return plan


def describe(problem: ResilientProblem, space: Space, place: Ints) -> ResilientPlan:
    """Return the plan of a placement with its weights and feasible set."""
    free = space.without_transfers()
    weights = np.zeros((len(problem.capacity), len(problem.lower_bound)))
    weights[np.ix_(space.nodes, space.streams)] = free.weights(place)
    feasible = _measured(free, place)
    with_transfer = None
    if space.transfer_costs:
        with_transfer = _measured(space, place)
    borne = with_transfer or feasible
    return ResilientPlan(
        "feasible" if borne.ratio > 0 else "unbalanced",
        tuple(int(node) for node in space.nodes[place]),
        feasible,
        tuple(tuple(row) for row in weights.tolist()),
        with_transfer,
        problem.tasks,
        problem.executors,
    )


def _measured(space: Space, place: Ints) -> FeasibleSet:
    value, error = volume_ratio(space.above_bound(place))
    return FeasibleSet(value, error, space.plane_distance(place))
