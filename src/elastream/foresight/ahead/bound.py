"""A lower bound on what any planner moves, now and later: a proof for each future.

The state moved between placements is a metric. So what is moved up to migration i is at least what
a direct move to its target would move, and that is at least what no node can keep: a knapsack for
each node (:mod:`~elastream.placement.free_step.keeping`). The bounds of the migrations, each at
least that of the previous one, are reached step by step at best, and the increase by a later one
counts with its discount.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from elastream.foresight.ahead.futures import LookAhead, ahead_of
from elastream.foresight.ahead.problem import FreeAheadProblem
from elastream.model.assignment import Assignment
from elastream.model.checks import Number
from elastream.model.migration import StepProblem, Target
from elastream.placement.free_step.keeping import keep
from elastream.placement.free_step.whole_step import whole_step
from elastream.placement.state_ticks import rounded_down


def least_total(problem: FreeAheadProblem, look: LookAhead, now: Number) -> tuple[float, float]:
    """Return a bound on the state moved now and, discounted, later, and its standard error.

    ``now`` is a proven bound on the current migration. If futures are drawn, the result is the mean
    over a sample; if they are given, it is proven and its error is 0.
    """
    ahead = ahead_of(problem, look)
    known: dict[tuple[int, int, float], float] = {}
    totals = np.zeros(len(ahead.odds))
    for s in range(len(totals)):
        reached, weight = rounded_down(Fraction(now)), 1.0
        totals[s] = reached
        for i in range(ahead.allowed.shape[1]):
            size, row, limit = (
                int(ahead.allowed[s, i]),
                int(ahead.of_step[s, i]),
                ahead.limits[s, i],
            )
            if size == 0:
                break
            weight *= problem.gamma
            key = (size, row, float(limit))
            if key not in known:
                known[key] = _direct(problem.step, ahead.works[row].tolist(), size, float(limit))
            totals[s] += weight * max(0.0, known[key] - reached)
            reached = max(reached, known[key])
    error = 0.0
    if ahead.drawn and len(totals) > 1:
        error = float(totals.std(ddof=1)) / len(totals) ** 0.5
    return float(totals @ ahead.odds), error


def _direct(step: StepProblem, work: list[float], size: int, limit: float) -> float:
    """Return what a direct move to this number of nodes must move."""
    total = sum(work)
    tau = max(0.0, limit * size / total - 1) if total else 0.0
    current = step.current
    wide = Assignment(current.nodes_of_tasks, max(current.nodes, size))
    whole = whole_step(StepProblem(tuple(work), step.state, wide, Target(size, tau)))
    return rounded_down(keep(whole).lower_bound * whole.state_unit)
