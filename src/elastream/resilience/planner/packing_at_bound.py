"""Decide whether any placement is feasible at the lower bound: bin packing by integer programming.

At the lower bound every operator has one load. If local search finds no placement that fits, this
decides: binary variables a_ij, each operator on one node, no node above its capacity, minimise the
largest load relative to the capacity. Transfers are left out: a placement that does not fit without
them fits even less with them. Inseparable operators count as one.
"""

from __future__ import annotations

import numpy as np

from elastream.model.plan import Infeasible
from elastream.placement.branches import branches_of
from elastream.placement.linear_programs import Rows, integer_program
from elastream.resilience.planner.normalised import FULL, Ints, Space

_TOLERANCE = 1e-6
"""Tolerance to which the solver proves its bound."""
_GAP = 1e-4
_EFFORT = 500_000
"""Variables of the program times its branches: a few seconds."""


def packing_at_bound(space: Space, *, effort: float = _EFFORT) -> Ints | Infeasible | None:
    """Return a placement that fits, a proof that none does, or ``None`` if ``effort`` is spent."""
    labels = space.inseparable()
    merged = space.merged(labels)
    loads = merged.shares @ space.bound + merged.always
    base_load = space.base @ space.bound
    free = space.capacity - base_load
    heaviest = int(loads.argmax())
    if loads[heaviest] > free.max():
        part = loads[heaviest] / free.max() if free.max() > 0 else np.inf
        subject = _named(np.flatnonzero(labels == heaviest))
        return Infeasible(f"{subject} {part:.6g} times the largest node at the lower bound")
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
        -base_load,
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
        filled_to = (base_load + np.bincount(place, loads, minlength=nodes)) / space.capacity
        if filled_to.max() < 1 - FULL:
            return np.asarray(place)[labels]
    if outcome.bound >= 1 - _TOLERANCE:
        return Infeasible(
            "no placement is feasible above the lower bound: some node needs "
            f"{outcome.bound:.6g} times its capacity"
        )
    return None


def _named(operators: Ints) -> str:
    """Return inseparable operators as the subject of a sentence."""
    if len(operators) == 1:
        return f"operator {operators[0]} alone needs"
    return f"operators {', '.join(map(str, operators))}, which cannot be separated, need"
