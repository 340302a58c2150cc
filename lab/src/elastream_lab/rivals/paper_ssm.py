"""SSM as paper 000 states it (figures 3 and 4): O(m² n'), kept to measure and check against.

``most[k][a][b]`` is the greatest gain for tasks ``[a, m)`` with at most ``k`` intervals, where the
old node that holds task ``a`` is free (``b = 0``) or taken (``b = 1``); lemma 3.3 says that no
other node matters. The next interval that gains ends at ``x``; it is taken as long as the limit
allows (Solve_P1), the tasks before it are cut into the fewest intervals (lemma 3.4), and it goes
to one of two nodes (lemma 3.5): the one that holds task ``x - 1``, or the one that gains most
among those that end before ``x``. Shares no code with :mod:`~elastream.foresight.ssm.single_step`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.ssm.cuts import intervals_of
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.placement.kernel import kernel


def paper_ssm(problem: StepProblem, *, compiled: bool = False) -> float | None:
    """Return the least state moved, or ``None`` where no assignment holds the limit."""
    old = intervals_of(problem.current)
    bounds = [*sorted({lb for lb, ub in old if lb < ub}), len(problem.work)]
    recurrence = _recurrence.compiled if compiled else _recurrence.plain
    gain = recurrence(
        np.array(problem.work, dtype=np.float64),
        np.array(problem.state, dtype=np.float64),
        np.array(bounds, dtype=np.int64),
        min(problem.target.nodes, len(problem.work)),
        problem.limit * (1 + LOAD_TOLERANCE),
    )
    return None if gain < 0 else float(sum(problem.state)) - gain


@kernel
def _recurrence(
    work: NDArray[np.float64],
    state: NDArray[np.float64],
    bounds: NDArray[np.int64],
    intervals: int,
    limit: float,
) -> float:
    """Return the greatest gain, or -1 where nothing fits."""
    m = len(work)
    most = np.full((intervals + 1, m + 1, 2), -1.0)
    most[:, m, :] = 0.0
    for k in range(1, intervals + 1):
        for a in range(m - 1, -1, -1):
            home = 0
            while bounds[home + 1] <= a:
                home += 1
            for taken in range(2):
                best = -1.0
                needed, packed = 1, 0.0
                lb, load = a, 0.0
                last = home
                before = 0.0
                for x in range(a + 1, m + 1):
                    if work[x - 1] > limit:
                        break
                    packed += work[x - 1]
                    if packed > limit:
                        needed, packed = needed + 1, work[x - 1]
                    if needed > k:
                        break
                    load += work[x - 1]
                    while load > limit:
                        load -= work[lb]
                        lb += 1
                    while bounds[last + 1] < x:
                        last += 1
                    if x == m and best < 0:
                        best = 0.0
                    ends = bounds[last + 1] == x
                    gain_last = 0.0
                    for j in range(max(lb, bounds[last]), x):
                        gain_last += state[j]
                    if last == home and taken:
                        gain_last = 0.0
                    before = 0.0
                    for y in range(home + taken, last):
                        part = 0.0
                        for j in range(max(lb, bounds[y], a), bounds[y + 1]):
                            part += state[j]
                        before = max(before, part)
                    left = k - needed
                    stays_taken = 1 if last == home and taken and not ends else 0
                    if most[left, x, 0] >= 0 or x == m:
                        open_after = most[left, x, stays_taken]
                        closed_after = most[left, x, 0 if ends else 1]
                        if open_after >= 0:
                            best = max(best, before + open_after)
                        if closed_after >= 0:
                            best = max(best, gain_last + closed_after)
                most[k, a, taken] = best
    return float(most[intervals, 0, 0])
