"""The cheapest successors of many partitions, exactly, without comparing every pair.

Papers 000 (section 4.2) and 001 (section 5.2) compare all pairs. Here partitions that end alike are
ruled out together. They are a tree: a node is a bound, the path to the root the bounds after it, a
leaf a partition. A search for the best successor of P knows three things of all below a node:

* what the intervals behind the bound *have* kept of P's state, by the sweep of
  :mod:`~elastream.foresight.ssm.partition_cost`;
* what those before it *can* keep at most: :mod:`~elastream.foresight.ssm.interval_gain`, run once
  for P and the size, O(m n), has that for every bound and number of intervals left;
* what choosing any of them costs *later* at the least.

Where the three together reach the best that is known, the node is left with all below it. Both
sides of a bound may share an old interval, which only one can keep; both count it, so at a leaf
the sum is the cost itself. Costs now are whole ticks and rounding keeps order, so nothing better is
left out. Of 50,660 partitions of 48 tasks a search visits 108 nodes on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.mtm.ground import Flags, Ground
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.ssm.interval_gain import Floats, Held, Ints, forward, spans
from elastream.placement.kernel import kernel

_NONE = -(1 << 60)
"""The gain of what cannot be reached."""

_LEAST_ROWS = 512
"""Rows of a block: some tenths of a second of a core."""

Compact = NDArray[np.int32]
"""Numbers of nodes, members and tasks: half the memory, and half the way to executors."""


class _Tree(NamedTuple):
    """Partitions by their bounds from the last to the first; nodes in the order of a walk."""

    bound: Compact
    """Where the interval of each node starts."""
    depth: Compact
    """How many intervals are behind that one."""
    member: Compact
    """Of a leaf, the partition; -1 of other nodes."""
    beyond: Compact
    """The first node after all that are below."""
    leaf: Compact
    """Of each partition, its leaf."""

    @classmethod
    def of(cls, members: Partitions) -> _Tree:
        """Return the tree of some partitions."""
        bounds, counts = members.bounds, members.counts
        place = counts[:, None] - 1 - np.arange(bounds.shape[1] - 1)
        backwards = np.where(
            place >= 0, np.take_along_axis(bounds, np.maximum(place, 0), axis=1), -1
        )
        order = np.lexsort(backwards.T[::-1])
        backwards, counts = backwards[order], counts[order]
        shared = np.zeros(len(counts), dtype=np.int64)
        alike = np.logical_and.accumulate(backwards[1:] == backwards[:-1], axis=1)
        shared[1:] = alike.sum(axis=1)
        added = counts - shared
        ends = np.cumsum(added)
        row = np.repeat(np.arange(len(counts)), added)
        depth = np.arange(ends[-1]) - np.repeat(ends - added - shared, added)
        member = np.full(len(row), -1, dtype=np.int32)
        member[ends - 1] = order
        leaf = np.empty(len(counts), dtype=np.int32)
        leaf[order] = ends - 1
        beyond = np.empty(len(row), dtype=np.int32)
        walk = first_beyond.for_operations(3.0 * len(row))
        walk(depth.astype(np.int32), np.empty(bounds.shape[1] + 1, dtype=np.int64), beyond)
        bound = backwards[row, depth].astype(np.int32)
        return cls(bound, depth.astype(np.int32), member, beyond, leaf)

    def least_below(self, later: Floats) -> Floats:
        """Return for each state and node the least of ``later`` over the partitions below."""
        least = np.full((len(later), len(self.bound)), np.inf)
        least[:, self.leaf] = later
        depths = int(self.depth.max()) + 1
        run = take_least_below.for_operations(3.0 * least.size)
        run(self.depth, np.empty(depths, dtype=np.int64), least)
        return least


class SuccessorTree:
    """Finds the cheapest successors of all members, each of which is tried as one."""

    def __init__(self, ground: Ground, members: Partitions, runner: Runner) -> None:
        self._fixed = ground, members, _Tree.of(members)
        self._runner = runner
        self._blocks = runner.split(len(members), _LEAST_ROWS)
        self._successor = np.full((len(ground.size_of_state), len(members)), -1, dtype=np.int64)

    def cheapest(self, later: Floats, stays: Flags) -> tuple[Ints, Floats]:
        """Return each member's cheapest successor in each state, and its cost now alone.

        ``later[z, q]`` is what choosing q costs later, infinite where q does not serve z. Where
        ``stays[z, p]`` the successor is p itself and costs nothing.
        """
        _, _, tree = self._fixed
        blocks = [
            (
                rows,
                np.ascontiguousarray(stays[:, rows]),
                np.ascontiguousarray(self._successor[:, rows]),
            )
            for rows in self._blocks
        ]
        found = self._runner.run(_searched, self._fixed, tree.least_below(later), blocks)
        self._successor = np.concatenate([chosen for chosen, _ in found], axis=1)
        return self._successor.copy(), np.concatenate([cost for _, cost in found], axis=1)


def _searched(
    fixed: tuple[Ground, Partitions, _Tree], least: Floats, block: tuple[Ints, Flags, Ints]
) -> tuple[Ints, Floats]:
    """Return the cheapest successors of some members, and what they cost now."""
    ground, members, tree = fixed
    rows, stays, before = block
    chosen = np.empty(stays.shape, dtype=np.int64)
    cost = np.zeros(stays.shape)
    run = search.for_operations(30.0 * ground.tasks * stays.size)
    run(ground, members.bounds, members.counts, tree, least, rows, stays, before, chosen, cost)
    return chosen, cost


@kernel
def first_beyond(depth: Compact, following: Ints, beyond: Compact) -> None:
    """Fill in for each node the first one after it that is not deeper; ``following`` is scratch."""
    nodes = len(depth)
    open_ = 0
    for node in range(nodes - 1, -1, -1):
        while open_ > 0 and depth[following[open_ - 1]] > depth[node]:
            open_ -= 1
        beyond[node] = following[open_ - 1] if open_ > 0 else nodes
        if open_ > 0 and depth[following[open_ - 1]] == depth[node]:
            open_ -= 1
        following[open_] = node
        open_ += 1


@kernel
def take_least_below(depth: Compact, path: Ints, least: Floats) -> None:
    """Lower the entry of each node to the least below it; those of leaves are there."""
    for z in range(len(least)):
        for node in range(len(depth)):
            above = depth[node]
            path[above] = node
            value = least[z, node]
            while above > 0 and value < least[z, path[above - 1]]:
                above -= 1
                least[z, path[above]] = value


@kernel
def search(
    ground: Ground,
    bounds: Ints,
    counts: Ints,
    tree: _Tree,
    least: Floats,
    rows: Ints,
    stays: Flags,
    before: Ints,
    chosen: Ints,
    cost: Floats,
) -> None:
    """Find the cheapest successor of each row's member for each state.

    ``least[z, node]`` is what the members below a node cost later at least, infinite where none
    serves z; ``before[z, r]`` a successor to begin with, or -1.
    """
    m = len(ground.work) - 1
    width = bounds.shape[1]
    block = np.empty(m, np.int64)
    kept = np.empty((3, width + 1), np.int64)
    kept[0, 0], kept[1, 0], kept[2, 0] = m, 0, _NONE
    for r in range(len(rows)):
        starts = bounds[rows[r], : counts[rows[r]] + 1]
        for b in range(len(starts) - 1):
            block[starts[b] : starts[b + 1]] = b
        held = Held(ground.state, starts, block)
        size, levels = -1, 0
        free, used, offset = kept[0], kept[0], kept[0]
        for z in range(len(least)):
            if stays[z, r]:
                chosen[z, r] = rows[r]
                cost[z, r] = 0.0
                continue
            if ground.size_of_state[z] != size:
                size = ground.size_of_state[z]
                levels = min(ground.sizes[size], m)
                free, used, offset = most_before(ground.work, held, ground.limits[size], levels)
            at, best, paid = before[z, r], np.inf, 0.0
            if at >= 0:
                paid = float(ground.state[m] - kept_between(held, bounds[at], counts[at]))
                best = paid + least[z, tree.leaf[at]]
            node = 0
            while node < len(tree.bound):
                if least[z, node] >= best:
                    node = tree.beyond[node]
                    continue
                d, x = tree.depth[node], tree.bound[node]
                now_free, now_used = one_more(held, x, kept[0, d], kept[1, d], kept[2, d])
                if tree.member[node] >= 0:
                    now = float(ground.state[m] - now_free)
                    if now + least[z, node] < best:
                        at, paid, best = tree.member[node], now, now + least[z, node]
                    node += 1
                    continue
                cell = offset[min(levels - d - 1, x)] + x
                most = max(free[cell] + max(now_free, now_used), used[cell] + now_free)
                if float(ground.state[m] - most) + least[z, node] >= best:
                    node = tree.beyond[node]
                    continue
                kept[0, d + 1], kept[1, d + 1], kept[2, d + 1] = x, now_free, now_used
                node += 1
            chosen[z, r] = at
            cost[z, r] = paid


@kernel
def most_before(work: Floats, held: Held, limit: float, levels: int) -> tuple[Ints, Ints, Ints]:
    """Return the most that at most l intervals keep of the tasks before x: two cells of each.

    Cell ``offset[l] + x``, with the old interval of task x - 1 not matched yet, and matched.
    """
    span, cells = spans(work, limit, levels)
    free, used = np.empty(cells, np.int64), np.empty(cells, np.int64)
    if cells > 0:
        forward(held, span, free, used, np.zeros(len(held.starts), np.int64), _NONE)
        low, high, offset = span.low, span.high, span.offset
        for level in range(2, len(low)):
            for x in range(max(low[level], low[level - 1]), min(high[level], high[level - 1]) + 1):
                here, fewer = offset[level] + x, offset[level - 1] + x
                free[here] = max(free[here], free[fewer])
                used[here] = max(used[here], used[fewer])
    return free, used, span.offset


@kernel
def one_more(held: Held, a: int, x: int, free: int, used: int) -> tuple[int, int]:
    """Return the most that the tasks from ``a`` on keep, when ``[a, x)`` is the next interval.

    ``free`` and ``used`` are what those from ``x`` on keep where the old interval that holds task
    ``x - 1`` is not matched yet, and where it is; the answers are for that of task ``a - 1``.
    """
    state, starts = held.state, held.starts
    last, home = held.block[x - 1], held.block[a]
    if last == home:
        now_free = free
        now_used = max(used, free + state[x] - state[a])
    else:
        either = max(free, used)
        now_free = max(either, free + state[x] - state[starts[last]])
        for inner in range(home + 1, last):
            now_free = max(now_free, either + state[starts[inner + 1]] - state[starts[inner]])
        now_used = either + state[starts[home + 1]] - state[a]
    if a == starts[home]:
        return max(now_free, now_used), _NONE
    return now_free, now_used


@kernel
def kept_between(held: Held, cut: Ints, count: int) -> int:
    """Return the most state that can stay when these old intervals become those of a cut."""
    free, used = 0, _NONE
    for i in range(count - 1, -1, -1):
        free, used = one_more(held, cut[i], cut[i + 1], free, used)
    return free
