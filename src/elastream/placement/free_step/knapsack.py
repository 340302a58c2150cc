"""The 0/1 knapsack: the maximum profit that fits, exactly, or with a proven bound.

Model: choose a set S with ``weights(S) <= capacity`` and maximum ``profits(S)``; all numbers are
whole. Method: the list of undominated (weight, profit) pairs of the first t items in order of
falling efficiency (Nemhauser and Ullmann 1969), without the pairs whose Dantzig bound (the rest
filled greedily and the last item cut) does not exceed the best known profit, as in Pisinger's
minknap (1997). Cost O(n log n) plus the lengths of the lists, which are short for all but contrived
profits. When their total would exceed ``room``, the search stops with the best set so far and the
highest open bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.whole_step import Ints
from elastream.placement.kernel import kernel


@kernel
def knapsacks(
    weights: Ints, profits: Ints, first: Ints, capacity: int, room: int
) -> tuple[NDArray[np.bool_], Ints]:
    """Return which items are chosen, and for each knapsack a bound on any profit.

    Knapsack i has the items ``first[i]`` to ``first[i + 1] - 1``, in falling order of profit per
    weight. The bound equals the profit unless the lists became longer than ``room``.
    """
    taken = np.zeros(len(weights), dtype=np.bool_)
    most = np.zeros(len(first) - 1, dtype=np.int64)
    trace = np.empty(room, dtype=np.int64)
    pairs = np.empty((4, room + 2), dtype=np.int64)
    for node in range(len(most)):
        begin, end = first[node], first[node + 1]
        taken[begin:end], most[node] = fill(
            weights[begin:end], profits[begin:end], capacity, trace, pairs
        )
    return taken, most


@kernel
def fill(
    weights: Ints, profits: Ints, capacity: int, trace: Ints, pairs: Ints
) -> tuple[NDArray[np.bool_], np.int64]:
    """Solve one knapsack; see :func:`knapsacks`.

    ``trace`` and the four rows of ``pairs`` are scratch space of the maximum list length.
    """
    n, room = len(weights), len(trace)
    weight_of_first = np.zeros(n + 1, dtype=np.int64)
    profit_of_first = np.zeros(n + 1, dtype=np.int64)
    taken = np.zeros(n, dtype=np.bool_)  # greedily: whatever still fits
    left, best = capacity, np.int64(0)
    for t in range(n):
        weight_of_first[t + 1] = weight_of_first[t] + weights[t]
        profit_of_first[t + 1] = profit_of_first[t] + profits[t]
        if weights[t] <= left:
            taken[t] = True
            left -= weights[t]
            best += profits[t]

    old, new = pairs[:2], pairs[2:]  # lists: weights, ascending, and profits
    old[0, 0], old[1, 0] = 0, 0
    length = 1
    starts = np.zeros(n + 1, dtype=np.int64)  # where each list begins in the trace
    used = 0
    best_stage, best_pair, best_until = -1, 0, 0
    bound = np.int64(0)
    lightest_until = n
    for stage in range(n + 1):  # stage t: pairs of items 0 .. t - 1, from those of stage t - 1
        if used + 2 * length > room:
            break
        shifted = length if stage > 0 else 0
        weight_added = weights[stage - 1] if stage > 0 else 0
        profit_added = profits[stage - 1] if stage > 0 else 0
        starts[stage] = used
        count, skip, take, until = 0, 0, 0, lightest_until
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
            left = capacity - weight + weight_of_first[stage]
            while until < n and weight_of_first[until + 1] <= left:
                until += 1
            while weight_of_first[until] > left:
                until -= 1
            if top < 0:
                lightest_until = until
            top = profit
            filled = reach = profit + profit_of_first[until] - profit_of_first[stage]
            if until < n:
                rest = left - weight_of_first[until]
                if float(rest) * float(profits[until]) < 4e18:
                    reach += rest * profits[until] // weights[until]
                else:  # that product would overflow: in floating point, rounded up
                    share = float(rest) / float(weights[until]) * float(profits[until])
                    reach += min(profits[until], np.int64(share * (1 + 1e-12)) + 1)
            if reach > best:
                if filled > best:
                    best, best_stage, best_pair, best_until = filled, stage, count, until
                bound = max(bound, reach)
                new[0, count], new[1, count] = weight, profit
                trace[used + count] = 2 * parent + taking  # the pair before, and what was done
                count += 1
        used += count
        old, new = new, old
        length = count
        if bound <= best:
            break

    if best_stage >= 0:
        taken[:] = False
        taken[best_stage:best_until] = True
    for stage in range(best_stage, 0, -1):
        link = trace[starts[stage] + best_pair]
        taken[stage - 1] = link % 2 == 1
        best_pair = link // 2
    return taken, max(best, bound)
