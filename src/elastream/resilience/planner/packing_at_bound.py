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
from elastream.placement.linear_programs import Rows, integer_program
from elastream.resilience.planner.normalised import FULL, Ints, Space

__all__ = ["packing_at_bound"]

_TOLERANCE = 1e-6
"""How exactly the solver proves its bound."""
_GAP = 1e-4
_EFFORT = 500_000
"""Variables of the program times its branches: some seconds."""


def packing_at_bound(space: Space, *, effort: float = _EFFORT) -> Ints | Infeasible | None:
    """Return a placement that fits, a proof that none does, or ``None``: ``effort`` is spent."""
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
    pairs = np.arange(nodes * operators)
    node, operator = np.divmod(pairs, operators)
    filled = Rows.of(
        np.concatenate([node, np.arange(nodes)]),
        np.concatenate([pairs, np.full(nodes, len(pairs))]),
        np.concatenate([loads[operator], -space.capacity]),
        -np.inf,
        -before,
    )
    outcome = integer_program(
        np.append(np.zeros(len(pairs)), 1.0),
        Rows.of(operator, pairs, 1, 1, np.ones(operators)) + filled,
        upper=np.append(np.ones(len(pairs)), np.inf),
        whole=np.append(np.ones(len(pairs), dtype=np.bool_), False),
        branches=branches,
        gap=_GAP,
    )
    if outcome.x is not None:
        place = outcome.x[:-1].reshape(nodes, operators).argmax(axis=0).astype(np.int64)
        filled_to = (before + np.bincount(place, loads, minlength=nodes)) / space.capacity
        if filled_to.max() < 1 - FULL:
            return np.asarray(place)[labels]
    if outcome.bound >= 1 - _TOLERANCE:
        return Infeasible(
            "no placement bears anything above the lower bound: some node needs "
            f"{outcome.bound:.6g} times its capacity"
        )
    return None


def _named(operators: Ints) -> str:
    """Return operators that go together as the subject of a line."""
    if len(operators) == 1:
        return f"operator {operators[0]} alone needs"
    return f"operators {', '.join(map(str, operators))}, which cannot be parted, need"
