"""A staged problem as mixed-integer programs, for HiGHS.

The whole program: ``x[j, i] = 1`` puts task j on node i, ``y[i] = 1`` opens node i, and ``L[s]`` is
the most work of stage s on a slot of any node::

    minimise   sum of the state of task j over x[j, i] where it has to be loaded
    such that  sum_i x[j, i] = 1
               sum over tasks of stage s:  work[j] x[j, i] <= slots[i] L[s]
               sum over stages of query q: L[s] <= most_batch[q]
               sum_j work[j] x[j, i] <= slots[i] most_busy,  sum_j size[j] x[j, i] <= memory[i]
               sum_j seat[j] x[j, i] <= seats[i]
               sum over tasks of stage s:  x[j, i] <= (tasks of stage s) y[i]
               sum_i y[i] <= allowed            (without y where every node may be open)

It has a column for each pair of task and node, which is too much for hundreds of tasks. The
*staying* program has one for each task: only which tasks stay where they are; those that leave need
no place. Its optimum is a lower bound on the cost of any placement.

HiGHS keeps a row only to about one part in a million: a placement that does not keep its limits is
forbidden, and the program is solved again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elastream.placement.branches import branches_of
from elastream.placement.free_step.assignment_milp import proven
from elastream.placement.linear_programs import IntegerSolution, Rows, integer_program
from elastream.placement.staged.piles import Piles
from elastream.placement.staged.step import Flags, Floats, Ints, StagedStep

_ATTEMPTS = 6
_LARGEST = 1e6
"""Largest coefficient of a cost."""
_RESOLUTION = 1e-8
"""Share of the state that may stay by which a bound on it is rounded down."""
_ROOT, _BRANCH = 200, 3
"""Effort before the first branch, where cuts take most of the time, and for each branch, for each
pair of task and node."""


@dataclass(frozen=True, slots=True, eq=False)
class Staying:
    """Which tasks stay at best, if those that leave needed no place."""

    stays: Flags
    lengths: Floats
    """How long each stage is then."""


def stay(step: StagedStep, *, filled: float = 1.0, effort: float) -> tuple[Staying | None, int]:
    """Return the tasks that stay, and a bound on the cost: above all state if nothing fits.

    ``filled``: how much of the limits they may fill; the bound is one where that is all.
    """
    free = list(step.copies)
    tasks = np.flatnonzero((step.home >= 0) & (step.state > 0))
    tasks = np.setdiff1d(tasks, np.array(free, dtype=np.int64))
    must = int(step.state.sum() - step.state[free].sum())
    if not len(tasks) or not _affordable(effort, len(tasks)):
        return None, 0
    found, scale = _solved(step, tasks, step.home[tasks], [], filled, effort)
    if found.infeasible:
        return None, int(step.state.sum()) + 1
    most = int(step.state[tasks].sum())
    left = most + found.bound / scale - _RESOLUTION * most - 1e-5
    leaves = math.ceil(left) if math.isfinite(left) else 0
    bound = must - most + max(0, leaves)
    if found.x is None:
        return None, bound
    stays = np.zeros(len(step.work), dtype=np.bool_)
    stays[tasks] = found.x[: len(tasks)] > 0.5
    lengths = found.x[-len(step.query) :] * max(1e-300, float(step.most.max()))
    return Staying(stays, np.clip(lengths, step.least, step.most)), bound


def solve(step: StagedStep, *, effort: float) -> tuple[Ints | None, int]:
    """Return a placement that keeps all limits, and a bound: above all state if there is none."""
    n = len(step.nodes)
    if not _affordable(effort, len(step.work) * n):
        return None, 0
    task, node = np.divmod(np.arange(len(step.work) * n), n)
    rejected: list[Ints] = []
    bound = 0
    for attempt in range(_ATTEMPTS):
        if not _affordable(effort / 2**attempt, len(task)):
            break
        found, scale = _solved(step, task, node, rejected, None, effort / 2**attempt)
        if found.infeasible:
            return None, int(step.state.sum()) + 1
        bound = max(bound, proven(found.bound, scale))
        if found.x is None:
            break
        chosen = np.zeros((len(step.work), n))
        chosen[task, node] = found.x[: len(task)]
        place = chosen.argmax(axis=1)
        few = len(set(place.tolist())) <= step.allowed
        if few and Piles(step, place, np.ones(n, dtype=np.bool_)).keeps():
            return place, bound
        rejected.append(place)
    return None, bound


def _affordable(effort: float, columns: int) -> bool:
    return branches_of(effort, _BRANCH * columns) > 0 and columns * _ROOT <= effort


def _solved(
    step: StagedStep,
    task: Ints,
    node: Ints,
    rejected: list[Ints],
    filled: float | None,
    effort: float,
) -> tuple[IntegerSolution, float]:
    """Solve the program with these pairs, and return also what its costs were multiplied with.

    ``filled``: how much of the limits tasks that stay may fill; ``None``: every task has a node.
    """
    columns, stages, choice = len(task), len(step.query), len(step.nodes)
    choice *= step.allowed < choice
    costs = np.array([step.state[j] * _loads(step, j, i) for j, i in zip(task, node, strict=True)])
    costs = costs.astype(np.float64) if filled is None else -step.state[task].astype(np.float64)
    scale = min(1.0, _LARGEST / max(1.0, float(np.abs(costs).max())))
    unit = 1 / max(1e-300, float(step.most.max()))
    found = integer_program(
        np.concatenate([scale * costs, np.zeros(choice + stages)]),
        _rows(step, task, node, rejected, filled),
        lower=np.concatenate([np.zeros(columns + choice), unit * step.least]),
        upper=np.concatenate([np.ones(columns + choice), unit * step.most]),
        whole=np.arange(columns + choice + stages) < columns + choice,
        branches=branches_of(effort, _BRANCH * columns),
    )
    return found, scale


def _loads(step: StagedStep, task: int, node: int) -> bool:
    return bool(step.home[task] != node and node not in step.copies.get(task, ()))


def _rows(
    step: StagedStep, task: Ints, node: Ints, rejected: list[Ints], filled: float | None
) -> Rows:
    """Return the constraints; one column per pair, then y, then L."""
    n, stages = len(step.nodes), len(step.query)
    x = np.arange(len(task))
    y = len(task)
    length = y + n * (step.allowed < n)
    pile = step.stage[task] * n + node
    stage, at = np.divmod(np.arange(stages * n), n)
    unit = 1 / max(1e-300, float(step.most.max()))
    rows = Rows.of(
        np.concatenate([pile, np.arange(stages * n)]),
        np.concatenate([x, length + stage]),
        np.concatenate(
            [unit * (step.work[task] / step.slots[node]), np.full(stages * n, -(filled or 1.0))]
        ),
        -np.inf,
        np.zeros(stages * n),
    )
    if filled is None:
        rows += Rows.of(task, x, 1, 1, np.ones(len(step.work)))
    rows += Rows.of(step.query, length + np.arange(stages), 1, -np.inf, unit * step.most_batch)
    if np.isfinite(step.most_busy):
        share = unit * step.work[task] / step.slots[node]
        rows += Rows.of(
            node, x, share, -np.inf, np.full(n, (filled or 1.0) * unit * step.most_busy)
        )
    if np.isfinite(step.memory).any():
        size = 1 / max(1.0, float(step.size.max()))
        rows += Rows.of(node, x, size * step.size[task], -np.inf, size * step.memory)
    if np.isfinite(step.seats).any():
        rows += Rows.of(node, x, step.seat[task], -np.inf, step.seats)
    if step.allowed < n:
        count = np.bincount(pile, minlength=stages * n).astype(np.float64)
        rows += Rows.of(
            np.concatenate([pile, np.arange(stages * n)]),
            np.concatenate([x, y + at]),
            np.concatenate([np.ones(len(task)), -count]),
            -np.inf,
            np.zeros(stages * n),
        )
        rows += Rows.of(np.zeros(n), y + np.arange(n), 1, 0, [step.allowed])
    for place in rejected:
        same = np.flatnonzero(place[task] == node)
        rows += Rows.of(np.zeros(len(same)), same, 1, 0, [len(place) - 1])
    return rows
