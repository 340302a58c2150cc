"""How evenly tasks can be spread at all.

With few tasks, or one heavy task, no placement meets a tight load limit: six equal tasks on four
nodes leave two on one of them, a third above the mean. The loop asks here before it plans, so that
it neither adds nodes that cannot help nor hands a planner a limit that cannot be met.

Any tasks on any node: longest processing time first (Graham 1969), within 4/3 of the optimum,
O(m log m + m log n). Consecutive tasks: the exact optimum, by bisection over the limit with a
greedy fill, O(m) a probe.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["even_bounds", "even_max_load"]

_PROBES = 60
"""Halvings of the limit's range: enough to reach neighbouring floating-point numbers."""


def even_max_load(work: Sequence[float], nodes: int, *, contiguous: bool) -> float:
    """Return the load of the fullest node when ``work`` is spread over ``nodes`` evenly."""
    if contiguous:
        bounds = even_bounds(work, nodes)
        return max(sum(work[lb:ub]) for lb, ub in pairwise(bounds))
    loads = [0.0] * min(nodes, max(1, len(work)))
    for amount in sorted(work, reverse=True):
        heapq.heapreplace(loads, loads[0] + amount)
    return max(loads)


def even_bounds(work: Sequence[float], nodes: int) -> list[int]:
    """Return the ends ``0 = b_0 <= ... <= b_k = m`` of at most ``nodes`` intervals, k of them.

    The fullest interval is as light as intervals can be.
    """
    low, high = max(work), sum(work)
    low = max(low, high / nodes)
    best = _filled(work, high, nodes)
    for _ in range(_PROBES):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        bounds = _filled(work, middle, nodes)
        if bounds is None:
            low = middle
        else:
            high, best = middle, bounds
    exact = _filled(work, low, nodes)
    return exact or best or [0, len(work)]


def _filled(work: Sequence[float], limit: float, nodes: int) -> list[int] | None:
    """Fill node after node up to ``limit``; ``None`` where the tasks do not fit."""
    bounds = [0]
    load = 0.0
    for task, amount in enumerate(work):
        if load + amount > limit and task > bounds[-1]:
            bounds.append(task)
            load = 0.0
        load += amount
    bounds.append(len(work))
    return bounds if len(bounds) - 1 <= nodes else None
