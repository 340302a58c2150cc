"""The free step as a mixed-integer program, for HiGHS.

Model: ``x[j, i] = 1`` puts task j on node i, ``y[i] = 1`` lets node i hold tasks::

    minimise   sum of state[j] x[j, i] over tasks j and nodes i where j is not and has no copy
    such that  sum_i x[j, i] = 1                    every task has a node
               sum_j work[j] x[j, i] <= capacity y[i]
               sum_i y[i] <= allowed                (left out where every node may be used)

HiGHS keeps a row only to about one part in a million: each answer is checked in whole numbers, and
an overfull node's tasks are forbidden to share any node (a cover inequality) before the program
is solved again. Idle nodes are interchangeable; HiGHS sees that by itself, and rows that order
them by load made it slower in every trial.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from elastream.placement.branches import branches_of
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep
from elastream.placement.linear_programs import IntegerSolution, Rows, integer_program

_ATTEMPTS = 6
_LARGEST_COEFFICIENT = 1e6
_RESOLUTION = 5e-10
"""Costs closer than this share of the cost are equal to HiGHS."""


def proven(dual_bound: float, scale: float) -> int:
    """Return the whole cost proven by a solver's bound on the scaled cost."""
    if not math.isfinite(dual_bound):
        return 0
    bound = dual_bound / scale
    return max(0, math.ceil(bound - _RESOLUTION * abs(bound) - 1e-5))


def assignment_milp(step: WholeStep, *, effort: float) -> Answer:
    """Solve the program; ``effort`` limits the first solution, each later one gets half."""
    covers: list[Ints] = []
    lower_bound = 0
    for attempt in range(_ATTEMPTS):
        found = _solve(step, covers, effort / 2**attempt)
        if found is None:
            break
        if found.infeasible:
            return Answer(None, int(step.state.sum()) + 1)
        lower_bound = max(lower_bound, proven(found.bound, _scale(step)))
        if found.x is None:
            break
        place = _placed(step, found.x)
        if step.fits(place):
            return Answer(place, min(lower_bound, step.cost(place)))
        overfull = np.flatnonzero(step.loads(place) > step.capacity)
        covers += [np.flatnonzero(place == node) for node in overfull]
    return Answer(None, lower_bound)


def _scale(step: WholeStep) -> float:
    return min(1.0, _LARGEST_COEFFICIENT / max(1, int(step.state.max())))


def _placed(step: WholeStep, x: NDArray[np.float64]) -> Ints:
    nodes = len(step.nodes)
    return np.asarray(x[: len(step.work) * nodes].reshape(-1, nodes).argmax(axis=1), np.int64)


def _solve(step: WholeStep, covers: list[Ints], effort: float) -> IntegerSolution | None:
    tasks, nodes = len(step.work), len(step.nodes)
    branches = branches_of(effort, (tasks + 1) * nodes)
    if branches == 0:
        return None
    away = step.away(np.arange(tasks)[:, None], np.arange(nodes))
    cost = np.concatenate([(_scale(step) * step.state[:, None] * away).ravel(), np.zeros(nodes)])
    always_open = np.full(nodes, step.allowed == nodes)
    return integer_program(
        cost,
        _rows(step, covers),
        lower=np.concatenate([np.zeros(tasks * nodes), always_open]),
        branches=branches,
    )


def _rows(step: WholeStep, covers: list[Ints]) -> Rows:
    """Return the constraints; one column per x, node by node for each task, then one per y."""
    tasks, nodes = len(step.work), len(step.nodes)
    scale = min(1.0, _LARGEST_COEFFICIENT / max(1, step.capacity))
    x = np.arange(tasks * nodes)
    task, node = np.divmod(x, nodes)
    every = np.arange(nodes)
    y = tasks * nodes + every
    rows = Rows.of(task, x, 1, 1, np.ones(tasks))
    rows += Rows.of(
        np.concatenate([node, every]),
        np.concatenate([x, y]),
        np.concatenate([scale * step.work[task], np.full(nodes, -scale * step.capacity)]),
        -np.inf,
        np.zeros(nodes),
    )
    rows += Rows.of(np.zeros(nodes), y, 1, 0, [step.allowed])
    for cover in covers:
        together = np.isin(task, cover)
        rows += Rows.of(node[together], x[together], 1, 0, np.full(nodes, len(cover) - 1))
    return rows
