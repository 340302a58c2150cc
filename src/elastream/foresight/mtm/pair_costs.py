"""Kernels over all pairs: the cost of moving between two partitions, and the cheapest successor.

The cost of a pair is a sweep over the bounds of both
(:mod:`~elastream.foresight.ssm.partition_cost`), O(k + k'). Costs are whole ticks, exact as floats.
"""

from __future__ import annotations

import numpy as np

from elastream.foresight.mtm.ground import Flags
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.foresight.ssm.partition_cost import kept_state
from elastream.placement.kernel import kernel


@kernel
def pair_costs(
    old_sums: Ints, old_counts: Ints, new_sums: Ints, new_counts: Ints, costs: Floats
) -> None:
    """Fill in the least state moved from each old partition to each new one.

    A row of the sums holds the state before each bound of a partition.
    """
    for i in range(len(old_counts)):
        old = old_sums[i, : old_counts[i] + 1]
        for j in range(len(new_counts)):
            kept = kept_state(old, new_sums[j, : new_counts[j] + 1])
            costs[i, j] = old[-1] - kept


@kernel
def cheapest_of_pool(
    sums: Ints,
    counts: Ints,
    pool_sums: Ints,
    pool_counts: Ints,
    later: Floats,
    stays: Flags,
    value: Floats,
) -> None:
    """Fill in what the cheapest successor in the pool costs, now and later, without a table."""
    for i in range(len(counts)):
        old = sums[i, : counts[i] + 1]
        total = old[-1]
        value[:, i] = np.inf
        for q in range(len(pool_counts)):
            cost = float(total - kept_state(old, pool_sums[q, : pool_counts[q] + 1]))
            for z in range(len(later)):
                if not stays[z, i] and cost + later[z, q] < value[z, i]:
                    value[z, i] = cost + later[z, q]
