"""Why a replication problem has no deployment: which bound or capacity cannot be met.

The problem is solved again without its bounds, for each metric alone. If there is no deployment
even then, the nodes are too small. If the minimum of a metric is above its bound, that bound cannot
be met. Otherwise the bounds exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from elastream.replication.model.problem import ReplicationProblem
from elastream.replication.planner.instance import Objective
from elastream.replication.planner.minimise import Minimum


def reason_of(problem: ReplicationProblem, solve: Callable[[Objective], Minimum]) -> str:
    """Return one sentence that names what cannot be met."""
    bounds = problem.bounds
    response = Objective(1 / bounds.response_ms, 0.0, 0.0)
    fastest = solve(response)
    if fastest.best is None and np.isinf(fastest.lower_bound):
        return _no_room(problem)
    if fastest.lower_bound > 1:
        return _above("response_ms", fastest, bounds.response_ms, "responds faster than", "ms")
    cheapest = solve(Objective(0.0, 1 / bounds.cost, 0.0))
    if cheapest.lower_bound > 1:
        return _above("cost", cheapest, bounds.cost, "costs less than", "an hour")
    within = solve(replace(response, cost_limit=float(bounds.cost)))
    if within.best is not None or np.isfinite(within.lower_bound):
        return (
            f"the bounds response_ms {bounds.response_ms:g} and cost {bounds.cost:g} cannot be met "
            f"together: within that cost no deployment responds faster than "
            f"{within.lower_bound * bounds.response_ms:.6g} ms"
        )
    return "the bounds response_ms and cost cannot be met together"


def _above(field: str, least: Minimum, bound: float, what: str, unit: str) -> str:
    return (
        f"the bound {field} is {bound:g}, and no deployment that fits the nodes {what} "
        f"{least.lower_bound * bound:.6g} {unit}"
    )


def _no_room(problem: ReplicationProblem) -> str:
    total = sum(node.resources for node in problem.nodes)
    return (
        "the operators do not fit on the nodes they may run on, each with as few replicas as it "
        f"can bear: the nodes have {total:g} resources in all"
    )
