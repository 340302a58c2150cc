"""The 0/1 knapsack: the maximum profit that fits, exactly, or with a proven bound.

Used by free-step: for the most state a node can keep under the load limit, and, with prices as
profits, for the best content of a node in column generation.

Model: choose a set S with ``weights(S) <= capacity`` and maximum ``profits(S)``; all numbers are
whole. Method: the list of undominated (weight, profit) pairs of the first t items in order of
falling efficiency (Nemhauser and Ullmann 1969), without the pairs whose Dantzig bound (the rest
filled greedily and the last item cut) does not exceed the best known profit, as in Pisinger's
minknap (1997). Cost O(n log n) plus the lengths of the lists, which are short for all but contrived
profits. When their total would exceed ``room``, the search stops with the best set so far and the
highest open bound.

:func:`knapsacks` solves it for all nodes of a step, which differ in which tasks are worth more at
home.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.whole_step import Ints
from elastream.placement.kernel import kernel

Solution: TypeAlias = tuple[NDArray[np.bool_], np.int64, np.int64]


@kernel
def knapsack(weights: Ints, profits: Ints, capacity: int, room: int) -> Solution:
    """Return the chosen items, their profit, and a proven bound on any profit.

    Items without profit are never chosen. The bound equals the profit unless ``room`` ran out.
    """
    useful = np.flatnonzero((profits > 0) & (weights <= capacity))
    efficiency = np.full(len(useful), np.inf)
    for t in range(len(useful)):
        if weights[useful[t]] > 0:
            efficiency[t] = profits[useful[t]] / weights[useful[t]]
    items = useful[np.argsort(-efficiency, kind="mergesort")]
    trace = np.empty(room, dtype=np.int64)
    pairs = np.empty((4, room + 2), dtype=np.int64)
    chosen, best, bound, _ = fill(weights[items], profits[items], capacity, 0, trace, pairs)
    taken = np.zeros(len(weights), dtype=np.bool_)
    taken[items] = chosen
    return taken, best, bound


@kernel
def knapsacks(
    work: Ints,
    at_home: Ints,
    abroad: Ints,
    own: Ints,
    first: Ints,
    guests: Ints,
    least: Ints,
    capacity: int,
    room: int,
) -> tuple[Ints, Ints, Ints, int]:
    """Return the best content of each node and the number of steps to find them.

    The contents are given by their tasks, the begin and end of each, and a bound on its worth.
    Contents worth ``least`` are known: a node without a better one is left empty here.

    Node i may hold its own tasks ``own[first[i]:first[i + 1]]``, worth ``at_home`` each (a task may
    be own to several nodes: where it is, and where copies of its state are), and ``guests`` from
    other nodes, worth ``abroad`` each. Both are in falling order of worth per work, and none is
    heavier than the capacity. The lists of a node may be ``room`` long.
    """
    nodes = len(first) - 1
    trace = np.empty(room, dtype=np.int64)
    pairs = np.empty((4, room + 2), dtype=np.int64)
    contents = np.empty(len(own) + nodes * len(guests), dtype=np.int64)
    ends = np.zeros(nodes + 1, dtype=np.int64)
    most = np.zeros(nodes, dtype=np.int64)
    tasks = np.empty(len(own) + len(guests), dtype=np.int64)
    worth = np.empty(len(own) + len(guests), dtype=np.int64)
    seen = np.full(len(work), -1)  # the last node that a task is at home on
    steps = 0
    for node in range(nodes):
        count, a, b = 0, first[node], 0
        seen[own[first[node] : first[node + 1]]] = node
        while a < first[node + 1] or b < len(guests):
            if a == first[node + 1]:
                stays = False
            elif b == len(guests):
                stays = True
            else:
                inside, outside = own[a], guests[b]
                stays = float(at_home[inside]) * work[outside] >= (
                    float(abroad[outside]) * work[inside]
                )
            task = own[a] if stays else guests[b]
            value = at_home[task] if stays else abroad[task]
            a, b = a + stays, b + (not stays)
            if value > 0 and (stays or seen[task] != node):
                tasks[count], worth[count] = task, value
                count += 1
        taken, _, most[node], used = fill(
            work[tasks[:count]], worth[:count], capacity, least[node], trace, pairs
        )
        steps += used + len(guests) + count
        end = ends[node]
        for item in range(count):
            if taken[item]:
                contents[end] = tasks[item]
                end += 1
        ends[node + 1] = end
    return contents[: ends[nodes]], ends, most, steps


@kernel
def fill(
    weights: Ints, profits: Ints, capacity: int, least: int, trace: Ints, pairs: Ints
) -> tuple[NDArray[np.bool_], np.int64, np.int64, int]:
    """Solve the knapsack of items in falling order of efficiency; see :func:`knapsack`.

    Nothing is chosen if no profit above ``least`` is found: some set is known to have that. The
    total length of the lists is returned as well. ``trace`` and the four rows of ``pairs`` are
    scratch space of the maximum list length.
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
    if best <= least:
        taken[:] = False
        best = np.int64(least)

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
    return taken, best, max(best, bound), used
