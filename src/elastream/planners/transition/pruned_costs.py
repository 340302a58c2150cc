"""The cheapest successors of very many partitions, exactly, without a look at every pair.

Papers 000 (section 4.2) and 001 (section 5.2) value all partitions. Of K partitions there are K²
pairs: 10⁵ of them would take 80 GB and the better part of an hour a sweep. But hardly any pair
can be a partition's best, and most can be told to be none for less than a pair costs:

* *Single steps.* No successor that serves a size costs less now than the optimum of single-step,
  which one run of its program finds (:mod:`~elastream.planners.interval_gain`), O(m n). So when
  successors are tried by rising cost *later*, the search ends where that and the optimum together
  reach the best found. What single-step chooses is itself where the first search begins.
* *Pivots.* c is a metric, so c(P, Q) is at least ``|c(P, R) - c(Q, R)|`` for any R: some
  partitions far from each other are kept as such R, with all distances to them.
* *The last choice* of the same partition begins every later search.

What is left is some per cent of the pairs, computed when needed and not kept. Blocks of rows do not
need each other, so a cluster can run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elastream.planners.interval_gain import Floats, Ints, forward, ranges, trace
from elastream.planners.kernel import kernel
from elastream.planners.partition_cost import kept_state
from elastream.planners.transition.ground import Flags, Ground
from elastream.planners.transition.pair_costs import pair_costs
from elastream.planners.transition.partitions import Partitions

__all__ = ["Mapped", "PrunedCosts", "in_turn"]

_PIVOTS = 24
_ANY_GAIN = -(1 << 60)

Compact = NDArray[np.int32]
"""Numbers of members and of tasks on their way from and to executors."""


class Mapped(Protocol):
    """Who runs the blocks."""

    def __call__(
        self,
        work: Callable[[Any, Any, Any], Any],
        fixed: object,
        changing: object,
        blocks: Sequence[Any],
    ) -> Iterable[Any]:
        """Return ``work(fixed, changing, block)`` of each block, in their order.

        ``fixed`` is the same object in many calls: worth keeping where it was brought to.
        """


def in_turn(
    work: Callable[[Any, Any, Any], Any], fixed: object, changing: object, blocks: Sequence[Any]
) -> Iterable[Any]:
    """Run the blocks one after the other, here."""
    return (work(fixed, changing, block) for block in blocks)


@dataclass(frozen=True, slots=True, eq=False)
class _Fixed:
    """What all searches of a pool share."""

    ground: Ground
    members: Partitions
    sums: Ints
    pivots: Floats
    """The cost between each member and each pivot."""


class PrunedCosts:
    """A table of costs that is not kept: every minimum is searched for, within bounds."""

    def __init__(
        self, ground: Ground, members: Partitions, mapped: Mapped = in_turn, blocks: int = 1
    ) -> None:
        sums = members.state_sums(ground)
        self._fixed = _Fixed(ground, members, sums, _pivots(sums, members.counts))
        self._mapped = mapped
        self._rows = np.array_split(np.arange(len(members)), max(1, blocks))
        self._least, self._successor = self._single_steps()

    def cheapest(self, later: Floats, stays: Flags) -> tuple[Ints, Floats]:
        """Return each member's cheapest successor in each state, and its cost now alone."""
        order = np.argsort(later, axis=1, kind="stable").astype(np.int32)
        served = np.isfinite(later).sum(axis=1)
        blocks = [
            (
                rows,
                np.ascontiguousarray(stays[:, rows]),
                np.ascontiguousarray(self._least[:, rows]),
                np.ascontiguousarray(self._successor[:, rows]),
            )
            for rows in self._rows
        ]
        found = list(self._mapped(_searched, self._fixed, (order, served, later), blocks))
        self._successor = np.concatenate([chosen for chosen, _ in found], axis=1)
        return self._successor.copy(), np.concatenate([cost for _, cost in found], axis=1)

    def _single_steps(self) -> tuple[Floats, Ints]:
        """Return for each state and member what a single step costs, and where it leads."""
        ground, members = self._fixed.ground, self._fixed.members
        found = list(self._mapped(_stepped, self._fixed, None, self._rows))
        least = np.concatenate([costs for costs, _ in found], axis=1)
        targets = np.concatenate([bounds for _, bounds in found], axis=1).astype(np.int64)
        known = {row.tobytes(): i for i, row in enumerate(members.bounds)}
        width = members.bounds.shape[1]
        successor = np.array(
            [[known.get(row[:width].tobytes(), -1) for row in of_size] for of_size in targets]
        )
        return least[ground.size_of_state], successor[ground.size_of_state]


def _pivots(sums: Ints, counts: Ints) -> Floats:
    """Return the cost between each member and pivots, each the farthest from those before."""
    found = np.empty((len(counts), min(_PIVOTS, len(counts))))
    nearest = np.full(len(counts), np.inf)
    pivot = 0
    for column in range(found.shape[1]):
        costs = np.empty((len(counts), 1))
        one = slice(pivot, pivot + 1)
        run = pair_costs.for_operations(5.0 * sums.size * found.shape[1])
        run(sums, counts, np.ascontiguousarray(sums[one]), counts[one], costs)
        found[:, column] = costs[:, 0]
        nearest = np.minimum(nearest, costs[:, 0])
        pivot = int(nearest.argmax())
    return found


def _stepped(fixed: _Fixed, _changing: None, rows: Ints) -> tuple[Floats, Compact]:
    """Return the single steps of some members to every size: their costs and their bounds."""
    ground = fixed.ground
    some = fixed.members.taken(rows)
    costs = np.zeros((len(ground.sizes), len(rows)))
    bounds = np.empty((*costs.shape, some.bounds.shape[1]), dtype=np.int64)
    most = np.minimum(ground.sizes, ground.tasks).astype(np.int64)
    run = single_steps.for_operations(12.0 * ground.tasks * costs.size * int(most.max()))
    serves = some.serves(ground)
    run(
        ground.work,
        ground.state,
        some.bounds,
        some.counts,
        ground.limits,
        most,
        serves,
        costs,
        bounds,
    )
    return costs, bounds.astype(np.int32)


def _searched(
    fixed: _Fixed,
    sweep: tuple[Compact, Ints, Floats],
    block: tuple[Ints, Flags, Floats, Ints],
) -> tuple[Ints, Floats]:
    """Return the cheapest successors of some members, and what they cost now."""
    order, served, later = sweep
    rows, stays, least, before = block
    chosen = np.empty(stays.shape, dtype=np.int64)
    cost = np.zeros(stays.shape)
    run = cheapest_within.for_operations(100.0 * stays.size)
    counts = fixed.members.counts
    run(
        rows,
        stays,
        least,
        before,
        fixed.sums,
        counts,
        fixed.pivots,
        order,
        served,
        later,
        chosen,
        cost,
    )
    return chosen, cost


@kernel
def single_steps(
    work: Floats,
    state: Ints,
    bounds: Ints,
    counts: Ints,
    limits: Floats,
    most: Ints,
    serves: Flags,
    costs: Floats,
    targets: Ints,
) -> None:
    """Fill in, for each size and partition, the least state moved there and the bounds reached.

    Where a partition serves the size, that is nothing, and where it is.
    """
    m = len(work) - 1
    block = np.empty(m, np.int64)
    for i in range(len(limits)):
        levels = most[i]
        first = np.empty(m + 1, np.int64)
        low = np.empty(levels + 1, np.int64)
        high = np.empty(levels + 1, np.int64)
        offset = np.empty(levels + 1, np.int64)
        cells = ranges(work, limits[i], first, low, high, offset)
        free = np.empty(cells, np.int64)
        used = np.empty(cells, np.int64)
        stacks = np.empty((6, m + 1), np.int64)
        cuts = np.empty(levels + 1, np.int64)
        match = np.empty(levels + 1, np.int64)
        for r in range(len(counts)):
            if serves[i, r]:
                costs[i, r] = 0.0
                targets[i, r, :] = bounds[r]
                continue
            starts = bounds[r, : counts[r] + 1].copy()
            nothing = np.zeros(len(starts), np.int64)
            for b in range(counts[r]):
                block[starts[b] : starts[b + 1]] = b
            forward(
                state,
                starts,
                block,
                first,
                low,
                high,
                offset,
                free,
                used,
                stacks,
                nothing,
                _ANY_GAIN,
            )
            gain = -1
            level = 0
            for each in range(1, levels + 1):
                if high[each] >= m and free[offset[each] + m] > gain:
                    gain = free[offset[each] + m]
                    level = each
            end = level + 1
            trace(
                state,
                starts,
                block,
                low[:end],
                high[:end],
                offset[:end],
                free,
                used,
                gain,
                cuts,
                match,
            )
            costs[i, r] = state[m] - gain
            targets[i, r, :] = m
            for bound in range(end):
                targets[i, r, bound] = cuts[level - bound]


@kernel
def cheapest_within(
    rows: Ints,
    stays: Flags,
    least: Floats,
    before: Ints,
    sums: Ints,
    counts: Ints,
    pivots: Floats,
    order: Compact,
    served: Ints,
    later: Floats,
    chosen: Ints,
    cost: Floats,
) -> None:
    """Find the cheapest successor of each row's member for each state, within bounds.

    ``order[z]`` are the members by rising ``later[z]``, the ``served[z]`` that serve z first;
    ``least[z, r]`` bounds what any of them costs row r now, and ``before[z, r]`` is one of them or
    -1.
    """
    known = np.empty(len(counts))
    known_of = np.full(len(counts), -1)
    for r in range(len(rows)):
        i = rows[r]
        old = sums[i, : counts[i] + 1]
        for z in range(len(later)):
            if stays[z, r]:
                chosen[z, r] = i
                cost[z, r] = 0.0
                continue
            at = before[z, r]
            paid = 0.0
            best = np.inf
            if at >= 0:
                paid = float(old[-1] - kept_state(old, sums[at, : counts[at] + 1]))
                best = paid + later[z, at]
            for t in range(served[z]):
                q = order[z, t]
                if later[z, q] + least[z, r] >= best:
                    break
                room = best - later[z, q]
                near = True
                for p in range(pivots.shape[1]):
                    if abs(pivots[i, p] - pivots[q, p]) >= room:
                        near = False
                        break
                if not near:
                    continue
                if known_of[q] != i:
                    known[q] = float(old[-1] - kept_state(old, sums[q, : counts[q] + 1]))
                    known_of[q] = i
                if known[q] + later[z, q] < best:
                    at = q
                    paid = known[q]
                    best = paid + later[z, q]
            chosen[z, r] = at
            cost[z, r] = paid
