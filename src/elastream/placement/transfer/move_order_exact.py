"""The best order of a few moves, by dynamic programming over the sets of moves already made.

The loads after a step depend only on the set S of moves made so far, so the least strain of
reaching S is the minimum over all sets R within S whose difference the caps admit as one batch:

  ``best(S) = min over R of  best(R) + (raised from R to S, over at S, one step)``.

There are 2^n sets and 3^n pairs of them; n is about twelve moves, not more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elastream.placement.transfer.move_order import Batch, MoveOrder
from elastream.placement.whole_units import UnitArray, unit_array


def exact_order(order: MoveOrder, loads: Sequence[int], moves: Sequence[int]) -> list[Batch]:
    """Return the order of ``moves`` with the least strain, beginning at ``loads``."""
    nodes = {order.source[m] for m in moves} | {order.target[m] for m in moves}
    largest = 2 * sum(loads) * len(moves)
    load = np.stack(
        [
            _sums_by_set([loads[node], *_changes(order, node, moves)], largest)
            for node in sorted(nodes)
        ]
    )
    elsewhere = order.over([held for node, held in enumerate(loads) if node not in nodes])
    over = np.maximum(load - order.limit, 0).sum(axis=0) + elsewhere
    batches = np.flatnonzero(_admitted(order, moves))[1:]
    sets = len(over)
    raised, summed, steps = (np.zeros(sets, dtype=over.dtype) for _ in range(3))
    parent = np.full(sets, -1)
    parent[0] = 0
    for made in range(sets - 1):
        if parent[made] < 0:
            continue
        reached = made | batches[(batches & made) == 0]
        ceiling = np.maximum(load[:, made], order.limit)[:, np.newaxis]
        new_raised = raised[made] + np.maximum(load[:, reached] - ceiling, 0).sum(axis=0)
        new_summed = summed[made] + over[reached]
        new_steps = steps[made] + 1
        better = (parent[reached] < 0) | _precedes(
            (new_raised, new_summed, new_steps), (raised[reached], summed[reached], steps[reached])
        )
        improved = reached[better]
        raised[improved], summed[improved] = new_raised[better], new_summed[better]
        steps[improved], parent[improved] = new_steps, made
    return _traced(parent, moves)


def _precedes(
    first: tuple[UnitArray, UnitArray, UnitArray], second: tuple[UnitArray, UnitArray, UnitArray]
) -> NDArray[np.bool_]:
    """Return where the first triple is lower than the second, lexicographically."""
    earlier: NDArray[np.bool_] = np.asarray(first[2] < second[2])
    for a, b in ((first[1], second[1]), (first[0], second[0])):
        earlier = (a < b) | ((a == b) & earlier)
    return earlier


def _changes(order: MoveOrder, node: int, moves: Sequence[int]) -> list[int]:
    """Return what each move adds to the node's load."""
    return [order.work[m] * ((order.target[m] == node) - (order.source[m] == node)) for m in moves]


def _sums_by_set(terms: Sequence[int], largest: int) -> UnitArray:
    """Return the first term plus the sum of each set of the others, indexed by the set's bits."""
    first_and_others = unit_array(terms, largest=largest)
    sums = first_and_others[:1]
    for term in first_and_others[1:]:
        sums = np.concatenate([sums, sums + term])
    return sums


def _admitted(order: MoveOrder, moves: Sequence[int]) -> NDArray[np.bool_]:
    """Return for each set of moves whether one step may make it."""
    admitted = np.ones(1 << len(moves), dtype=np.bool_)
    for group in {order.group(m) for m in moves}:
        within = [order.group(m) == group for m in moves]
        counts = _sums_by_set([0, *map(int, within)], len(moves))
        if order.caps.tasks is not None:
            admitted &= counts <= order.caps.tasks
        if order.caps.size is not None:
            sizes = [order.size[m] * inside for m, inside in zip(moves, within, strict=True)]
            admitted &= (counts <= 1) | (_sums_by_set([0, *sizes], sum(sizes)) <= order.caps.size)
    return admitted


def _traced(parent: NDArray[np.int64], moves: Sequence[int]) -> list[Batch]:
    batches: list[Batch] = []
    made = len(parent) - 1
    while made:
        before = int(parent[made])
        batches.append([m for bit, m in enumerate(moves) if (made & ~before) >> bit & 1])
        made = before
    return batches[::-1]
