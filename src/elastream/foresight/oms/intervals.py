"""The cuts that one step of a sequence allows, as a graph of intervals that grow task by task.

A cut of ``m`` tasks into at most ``n`` intervals of work at most ``limit`` is a walk over the
*bounds* 1 .. m. A vertex is an interval that is open at a bound ``x``: it holds the tasks
``start .. x - 1``. At ``x`` it *grows* by task ``x``, or it closes and the next one *opens*. Only
vertices on some allowed cut are kept: an interval ``[a, b)`` is dropped where the fewest intervals
before ``a`` and after ``b`` leave no room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from elastream.foresight.ssm.interval_gain import Floats, Ints


class IntervalGraph(NamedTuple):
    """The open intervals of a step, ordered by bound, then by start; arrays, for kernels."""

    first: Ints
    """The vertices at bound x are ``first[x] .. first[x + 1] - 1``; x from 0 to m."""
    start: Ints
    """First task of each vertex."""
    grown: Ints
    """The vertex that is one task longer; -1 where the interval must not grow."""
    may_close: Ints
    """1 where the interval may end at the vertex's bound, else 0."""
    opened: Ints
    """For each bound x the vertex of the interval that starts there; -1 where none may."""
    needed: Ints
    """Fewest intervals that hold the vertex's tasks and all after them."""
    reach: Ints
    """For each task the last bound to which an interval that starts there may grow."""
    most: int
    """Maximum number of intervals of a cut."""

    @property
    def bounds(self) -> Ints:
        """The bound of each vertex."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def allows(self, cut: Sequence[int]) -> bool:
        """Return whether the step may end in the cut with these bounds."""
        return len(cut) - 1 <= self.most and all(ub <= self.reach[lb] for lb, ub in pairwise(cut))

    def includes(self, other: IntervalGraph) -> bool:
        """Return whether every cut that ``other`` allows is allowed here."""
        return self.most >= other.most and bool((self.reach >= other.reach).all())


def graph_within(work: Floats, limit: float, nodes: int) -> IntervalGraph:
    """Return the graph of a step.

    ``work`` are prefix sums; ``limit`` is what a node may hold, the tolerance included. Raises
    ``ValueError`` where no cut is allowed.
    """
    sums = work.tolist()
    m = len(sums) - 1
    reach, before, end, least = [0] * m, [0] * (m + 1), 0, 0
    for a in range(m):
        while end < m and sums[end + 1] - sums[a] <= limit:
            end += 1
        if end == a:
            raise ValueError(f"task {a} does not fit")
        reach[a] = end
    for x in range(1, m + 1):
        while reach[least] < x:
            least += 1
        before[x] = before[least] + 1
    after = [0] * (m + 1)
    for a in range(m - 1, -1, -1):
        after[a] = after[reach[a]] + 1
    most = min(nodes, m)
    if after[0] > most:
        raise ValueError(f"{after[0]} intervals are needed, {most} allowed")
    fewest_after = np.array(after)
    room = most - 1 - np.array(before[:m])
    first_end = np.maximum(np.searchsorted(-fewest_after, -room), np.arange(1, m + 1))
    return _graph(first_end, np.array(reach), fewest_after, most)


def fixed_cut(cut: Sequence[int]) -> IntervalGraph:
    """Return the graph that allows exactly the cut with these bounds."""
    m, count = cut[-1], len(cut) - 1
    first_end = np.full(m, m + 1)
    reach = np.zeros(m, dtype=np.int64)
    after = np.zeros(m + 1, dtype=np.int64)
    first_end[list(cut[:-1])] = reach[list(cut[:-1])] = cut[1:]
    after[list(cut)] = np.arange(count, -1, -1)
    return _graph(first_end, reach, after, count)


def _graph(first_end: Ints, reach: Ints, fewest_after: Ints, most: int) -> IntervalGraph:
    """Build the graph whose intervals ``[a, b)`` have ``first_end[a] <= b <= reach[a]``."""
    m = len(reach)
    usable = first_end <= reach
    lengths = np.where(usable, reach - np.arange(m), 0)
    offset = np.cumsum(lengths) - lengths
    start = np.repeat(np.arange(m), lengths)
    bound = start + 1 + np.arange(len(start)) - offset[start]
    order = np.lexsort((start, bound))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    opened = np.full(m + 1, -1)
    opened[:m][usable] = place[offset[usable]]
    may_close = (first_end[start] <= bound) & ((bound == m) | (opened[bound] >= 0))
    follows = np.append(place[1:], -1)
    grown = np.where(bound < reach[start], follows, -1)
    return IntervalGraph(
        first=np.searchsorted(bound[order], np.arange(m + 2)),
        start=start[order],
        grown=grown[order],
        may_close=may_close[order].astype(np.int64),
        opened=opened,
        needed=1 + fewest_after[reach[start]][order],
        reach=reach,
        most=most,
    )
