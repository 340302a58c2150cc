"""Simple_SSM, figure 2 of paper 000: the plainest correct recurrence, kept for reference.

O(m³ n³ n'²) time: for a handful of tasks, to check the fast planner against the paper's own words.
A sub-problem cuts tasks ``[alpha, beta)`` into ``count`` intervals for nodes ``[gamma, delta)``;
lemma 3.1 splits it at a task ``x`` and behind a node ``y``. Slips of the paper, read by the
definition: ``x`` and ``y`` run to the end of their ranges (the lemma stops one and two short), and
either part may be left without nodes, since its intervals may go to nodes that gain nothing; the
lemma leaves out the case that the last interval alone gains.
"""

from __future__ import annotations

from functools import cache

from elastream.foresight.ssm.cuts import intervals_of
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum


def simple_ssm(problem: StepProblem) -> Number | None:
    """Return the least state moved, or ``None`` where no assignment holds the limit."""
    old = intervals_of(problem.current)
    blocks = sorted(interval for interval in old if interval.lb < interval.ub)
    limit = problem.limit * (1 + LOAD_TOLERANCE)

    @cache
    def gain(alpha: int, beta: int, gamma: int, delta: int, count: int) -> Number | None:
        if count == 1:
            if exact_sum(problem.work[alpha:beta]) > limit:
                return None
            shared = [
                problem.state[max(alpha, lb) : min(beta, ub)] for lb, ub in blocks[gamma:delta]
            ]
            return max((exact_sum(sizes) for sizes in shared), default=0)
        best: Number | None = None
        for x in range(alpha + 1, beta):
            for split in range(gamma, delta + 1):
                for left in range(1, count):
                    first = gain(alpha, x, gamma, split, left)
                    second = gain(x, beta, split, delta, count - left)
                    if first is not None and second is not None:
                        best = first + second if best is None else max(best, first + second)
        return best

    tasks = len(problem.work)
    counts = range(1, min(problem.target.nodes, tasks) + 1)
    gains = [gain(0, tasks, 0, len(blocks), count) for count in counts]
    found = [value for value in gains if value is not None]
    return exact_sum(problem.state) - max(found) if found else None
