"""A staged problem as a mixed-integer program, for HiGHS.

Model: ``x[j, i] = 1`` puts task j on node i, ``y[i] = 1`` opens node i, and ``L[s]`` is the most
work of stage s on a slot of any node::

    minimise   sum of the state of task j over x[j, i] where it has to be loaded
    such that  sum_i x[j, i] = 1
               sum over tasks of stage s:  work[j] x[j, i] <= slots[i] L[s]
               sum over stages of query q: L[s] <= most_batch[q]
               sum_j work[j] x[j, i] <= slots[i] most_busy,  sum_j size[j] x[j, i] <= memory[i]
               sum_j seat[j] x[j, i] <= seats[i]
               sum over tasks of stage s:  x[j, i] <= (tasks of stage s) y[i]
               sum_i y[i] <= allowed            (without y where every node may be open)

HiGHS keeps a row only to about one part in a million: a placement that does not keep its limits is
forbidden, and the program is solved again.
"""

from __future__ import annotations

import numpy as np

from elastream.placement.branches import branches_of
from elastream.placement.free_step.assignment_milp import proven
from elastream.placement.linear_programs import Rows, integer_program
from elastream.placement.staged.piles import Piles
from elastream.placement.staged.step import Ints, StagedStep

_ATTEMPTS = 6
_LARGEST = 1e6
"""Largest coefficient of a cost."""
_ROOT, _BRANCH = 2500, 3
"""Effort before the first branch, where cuts take most of the time, and for each branch, for each
pair of task and node."""


def solve(step: StagedStep, *, effort: float) -> tuple[Ints | None, int]:
    """Return a placement that keeps all limits, and a bound: above all state if there is none."""
    tasks, n = len(step.work), len(step.nodes)
    rejected: list[Ints] = []
    bound = 0
    for attempt in range(_ATTEMPTS):
        branches = branches_of(effort / 2**attempt, _BRANCH * tasks * n)
        if branches == 0 or tasks * n * _ROOT > effort:
            break
        costs = np.array([step.costs(task) for task in range(tasks)], dtype=np.float64)
        scale = min(1.0, _LARGEST / max(1.0, float(costs.max())))
        choice = n * (step.allowed < n)
        stages = len(step.query)
        unit = 1 / max(1e-300, float(step.most.max()))
        found = integer_program(
            np.concatenate([scale * costs.ravel(), np.zeros(choice + stages)]),
            _rows(step, rejected),
            lower=np.concatenate([np.zeros(tasks * n + choice), unit * step.least]),
            upper=np.concatenate([np.ones(tasks * n + choice), unit * step.most]),
            whole=np.arange(tasks * n + choice + stages) < tasks * n + choice,
            branches=branches,
        )
        if found.infeasible:
            return None, int(step.state.sum()) + 1
        bound = max(bound, proven(found.bound, scale))
        if found.x is None:
            break
        place = found.x[: tasks * n].reshape(-1, n).argmax(axis=1)
        few = len(set(place.tolist())) <= step.allowed
        if few and Piles(step, place, np.ones(n, dtype=np.bool_)).keeps():
            return place, bound
        rejected.append(place)
    return None, bound


def _rows(step: StagedStep, rejected: list[Ints]) -> Rows:
    """Return the constraints; one column per x, node by node for each task, then y, then L."""
    tasks, n, stages = len(step.work), len(step.nodes), len(step.query)
    x = np.arange(tasks * n)
    task, node = np.divmod(x, n)
    y = tasks * n
    length = y + n * (step.allowed < n)
    pile = step.stage[task] * n + node
    stage, at = np.divmod(np.arange(stages * n), n)
    unit = 1 / max(1e-300, float(step.most.max()))
    rows = Rows.of(task, x, 1, 1, np.ones(tasks))
    rows += Rows.of(
        np.concatenate([pile, np.arange(stages * n)]),
        np.concatenate([x, length + stage]),
        np.concatenate([unit * (step.work[task] / step.slots[node]), -np.ones(stages * n)]),
        -np.inf,
        np.zeros(stages * n),
    )
    rows += Rows.of(step.query, length + np.arange(stages), 1, -np.inf, unit * step.most_batch)
    if np.isfinite(step.most_busy):
        share = unit * step.work[task] / step.slots[node]
        rows += Rows.of(node, x, share, -np.inf, np.full(n, unit * step.most_busy))
    if np.isfinite(step.memory).any():
        size = 1 / max(1.0, float(step.size.max()))
        rows += Rows.of(node, x, size * step.size[task], -np.inf, size * step.memory)
    if np.isfinite(step.seats).any():
        rows += Rows.of(node, x, step.seat[task], -np.inf, step.seats)
    if step.allowed < n:
        count = np.bincount(step.stage, minlength=stages).astype(np.float64)
        rows += Rows.of(
            np.concatenate([pile, np.arange(stages * n)]),
            np.concatenate([x, y + at]),
            np.concatenate([np.ones(tasks * n), -count[stage]]),
            -np.inf,
            np.zeros(stages * n),
        )
        rows += Rows.of(np.zeros(n), y + np.arange(n), 1, 0, [step.allowed])
    for place in rejected:
        rows += Rows.of(np.zeros(tasks), np.arange(tasks) * n + place, 1, 0, [tasks - 1])
    return rows
