"""The 0/1 knapsack: the most profit that fits, exactly, or with a proven bound.

Used by free-step: the most state a node can keep under the load limit, and, with prices for
profits, the best content of a node in column generation.

Model: choose a set S with ``weights(S) <= capacity`` of greatest ``profits(S)``; all numbers
whole. Method: the list of undominated (weight, profit) pairs of the first t items in order of
falling efficiency (Nemhauser and Ullmann 1969), less the pairs whose Dantzig bound, the rest
filled greedily and the last item cut, does not exceed the best known profit (as in Pisinger's
minknap 1997). Cost O(n log n) plus the lengths of the lists, which are short for all but
contrived profits; when they would exceed ``room`` in all, the search stops with the best set so
far and the highest bound still open.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from elastream.planners.free_step.whole_step import Ints
from elastream.planners.kernel import kernel

__all__ = ["knapsack"]

Solution: TypeAlias = tuple[NDArray[np.bool_], np.int64, np.int64]


@kernel
def knapsack(weights: Ints, profits: Ints, capacity: int, room: int) -> Solution:
    """Return which items are taken, their profit, and a proven bound on any profit.

    Items of no profit are never taken. The bound equals the profit unless ``room`` ran out.
    """
    useful = np.flatnonzero((profits > 0) & (weights <= capacity))
    n = len(useful)
    efficiency = np.full(n, np.inf)
    for t in range(n):
        if weights[useful[t]] > 0:
            efficiency[t] = profits[useful[t]] / weights[useful[t]]
    items = useful[np.argsort(-efficiency)]
    weight_of_first = np.zeros(n + 1, dtype=np.int64)
    profit_of_first = np.zeros(n + 1, dtype=np.int64)
    for t in range(n):
        weight_of_first[t + 1] = weight_of_first[t] + weights[items[t]]
        profit_of_first[t + 1] = profit_of_first[t] + profits[items[t]]

    old = np.zeros((2, 2), dtype=np.int64)  # the list: weights, ascending, and profits
    length = 1
    trace = np.empty(room, dtype=np.int64)  # 2 * index in the list before, + 1 if taken
    starts = np.zeros(n + 1, dtype=np.int64)  # where each list begins in the trace
    used = 0
    best, best_stage, best_pair, best_until = np.int64(-1), 0, 0, 0
    bound = np.int64(0)
    for stage in range(n + 1):  # stage t: pairs of items 0 .. t - 1, from those of stage t - 1
        if used + 2 * length > room:
            break
        new = np.zeros((2, 2 * length), dtype=np.int64)
        shifted = length if stage > 0 else 0
        weight_added = weights[items[stage - 1]] if stage > 0 else 0
        profit_added = profits[items[stage - 1]] if stage > 0 else 0
        starts[stage] = used
        count, skip, take, until = 0, 0, 0, n
        top = bound = np.int64(-1)
        while skip < length or take < shifted:
            taking = skip == length or (
                take < shifted and old[0, take] + weight_added <= old[0, skip]
            )
            if taking:
                parent, weight, profit = (
                    take,
                    old[0, take] + weight_added,
                    old[1, take] + profit_added,
                )
                take += 1
            else:
                parent, weight, profit = skip, old[0, skip], old[1, skip]
                skip += 1
            if weight > capacity or profit <= top:
                continue  # too heavy, or no better than a lighter pair
            top = profit
            left = capacity - weight + weight_of_first[stage]
            while weight_of_first[until] > left:
                until -= 1
            filled = reach = profit + profit_of_first[until] - profit_of_first[stage]
            if until < n:
                rest, cut = left - weight_of_first[until], items[until]
                if float(rest) * float(profits[cut]) < 4e18:
                    reach += rest * profits[cut] // weights[cut]
                else:  # that product would overflow: in floating point, rounded up
                    share = float(rest) / float(weights[cut]) * float(profits[cut])
                    reach += min(profits[cut], np.int64(share * (1 + 1e-12)) + 1)
            if reach > best:
                if filled > best:
                    best, best_stage, best_pair, best_until = filled, stage, count, until
                bound = max(bound, reach)
                new[0, count], new[1, count] = weight, profit
                trace[used + count] = 2 * parent + taking
                count += 1
        used += count
        old, length = new, count
        if bound <= best:
            break

    taken = np.zeros(len(weights), dtype=np.bool_)
    taken[items[best_stage:best_until]] = True
    for stage in range(best_stage, 0, -1):
        link = trace[starts[stage] + best_pair]
        taken[items[stage - 1]] = link % 2 == 1
        best_pair = link // 2
    return taken, best, max(best, bound)
