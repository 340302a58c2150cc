"""Whether any placement bears the lower bound: bin packing, by integer programming.

At the lower bound every operator has one load. Where local search finds no placement that fits,
this decides: binary variables a_ij, each operator on one node, no node above its capacity, the
largest load for the capacity least. Transfers are left out: a placement that does not fit without
them fits with them even less. What is inseparable counts as one operator.
"""

from __future__ import annotations

import numpy as np

from elastream.model.plan import Infeasible
from elastream.placement.branches import branches_of
from elastream.resilience.planner.normalised import FULL, Ints, Space

__all__ = ["packing_at_bound"]

_TOLERANCE = 1e-6
"""How exactly the solver proves its bound."""
_EFFORT = 500_000
"""Variables of the program times its branches: some seconds."""


def packing_at_bound(space: Space, *, effort: float = _EFFORT) -> Ints | Infeasible | None:
    """Return a placement that fits, a proof that none does, or ``None``: ``effort`` is spent."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    labels = space.inseparable()
    merged = space.merged(labels)
    loads = merged.shares @ space.bound + merged.always
    before = space.base @ space.bound
    free = space.capacity - before
    heaviest = int(loads.argmax())
    if loads[heaviest] > free.max():
        part = loads[heaviest] / free.max() if free.max() > 0 else np.inf
        who = _named(np.flatnonzero(labels == heaviest))
        return Infeasible(f"{who} {part:.6g} times the largest node at the lower bound")
    nodes, operators = len(space.capacity), len(loads)
    branches = branches_of(effort, nodes * operators)
    if branches == 0:
        return None
    placed = np.hstack([np.tile(np.eye(operators), nodes), np.zeros((operators, 1))])
    filled = np.hstack([np.kron(np.eye(nodes), loads), -space.capacity[:, None]])
    cost = np.zeros(nodes * operators + 1)
    cost[-1] = 1.0
    outcome = milp(
        cost,
        integrality=np.append(np.ones(nodes * operators), 0),
        bounds=Bounds(0, np.append(np.ones(nodes * operators), np.inf)),
        constraints=[LinearConstraint(placed, 1, 1), LinearConstraint(filled, -np.inf, -before)],
        options={"node_limit": branches},
    )
    if outcome.x is not None:
        place = outcome.x[:-1].reshape(nodes, operators).argmax(axis=0).astype(np.int64)
        filled_to = (before + np.bincount(place, loads, minlength=nodes)) / space.capacity
        if filled_to.max() < 1 - FULL:
            return np.asarray(place)[labels]
    if outcome.mip_dual_bound is not None and outcome.mip_dual_bound >= 1 - _TOLERANCE:
        return Infeasible(
            "no placement bears anything above the lower bound: some node needs "
            f"{outcome.mip_dual_bound:.6g} times its capacity"
        )
    return None


def _named(operators: Ints) -> str:
    """Return operators that go together as the subject of a line."""
    if len(operators) == 1:
        return f"operator {operators[0]} alone needs"
    return f"operators {', '.join(map(str, operators))}, which cannot be parted, need"
