"""The value of a partition outside the pool.

Model. A candidate Q follows the pool's policy with one addition: it stays while it serves. In the
states it does not serve it pays ``b(y) = min over R of c(Q, R) + gamma C(y, R)``, and its value, an
upper bound, solves a linear system as large as the chain::

  C(z, Q) = sum over y of  odds(z, y) (gamma C(y, Q) if Q serves y else b(y))

The *shortfall* of Q, the reduced cost of column generation, is the least of ``c(P, Q) + gamma
C(y, Q) - U(y, P)`` over the visited partitions P and the states y that P does not serve: negative
if Q improves the policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastream.foresight.mtm.ground import Flags, Ground
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.foresight.ssm.partition_cost import kept_state
from elastream.placement.kernel import kernel

_CANDIDATES_AT_ONCE = 512


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A valued pool as the kernels read it."""

    members: Partitions
    sums: Ints
    """State before each bound of each member."""
    later: Floats
    """What choosing each member costs later, infinite where it does not serve the state."""

    @classmethod
    def of(cls, ground: Ground, members: Partitions, values: Floats) -> Pool:
        """Return the pool of these members and their values in each state, in ticks."""
        serves = members.serves(ground)[ground.size_of_state]
        later = np.where(serves, ground.gamma * values, np.inf)
        return cls(members, members.state_sums(ground), np.ascontiguousarray(later))

    def part(self, places: Ints) -> Pool:
        """Return the members at these places alone."""
        later = np.ascontiguousarray(self.later[:, places])
        return Pool(self.members.taken(places), self.sums[places], later)


def values_of(ground: Ground, candidates: Partitions, pool: Pool) -> Floats:
    """Return the value of each candidate in each state of the chain, in ticks."""
    serves = candidates.serves(ground)[ground.size_of_state]
    jump = np.empty(serves.shape)
    sums = candidates.state_sums(ground)
    run = cheapest_of_pool.for_operations(5.0 * jump.size * len(pool.members))
    run(
        sums,
        candidates.counts,
        pool.sums,
        pool.members.counts,
        pool.later,
        serves,
        jump,
    )
    return _held(ground, serves, jump)


def shortfalls(
    ground: Ground, candidates: Partitions, pool: Pool, visited: Partitions, onward: Floats
) -> Floats:
    """Return by how much each candidate falls short of the visited partitions' best successors.

    ``onward[z, p]`` is U of a visited partition, infinitely low where p serves z.
    """
    found = np.empty(len(candidates))
    visited_sums = visited.state_sums(ground)
    for begin in range(0, len(candidates), _CANDIDATES_AT_ONCE):
        some = candidates.taken(np.arange(begin, min(begin + _CANDIDATES_AT_ONCE, len(candidates))))
        serves = some.serves(ground)[ground.size_of_state]
        later = np.where(serves, ground.gamma * values_of(ground, some, pool), np.inf)
        costs = np.empty((len(some), len(visited)))
        sums = some.state_sums(ground)
        run = pair_costs.for_operations(5.0 * costs.size * sums.shape[1])
        run(sums, some.counts, visited_sums, visited.counts, costs)
        least = np.full(len(some), np.inf)
        for of_state, floor in zip(later, onward, strict=True):
            np.minimum(least, (costs - floor).min(axis=1) + of_state, out=least)
        found[begin : begin + len(some)] = least
    return found


def mask_served(ground: Ground, partitions: Partitions, onward: Floats) -> Floats:
    """Return ``onward`` with minus infinity where the partition serves the state."""
    serves = partitions.serves(ground)[ground.size_of_state]
    return np.where(serves, -np.inf, onward)


def _held(ground: Ground, serves: Flags, jump: Floats) -> Floats:
    """Return the values of staying while one serves and jumping at the given cost when not."""
    states = len(ground.odds)
    stay = np.eye(states) - ground.gamma * ground.odds * serves.T[:, None, :]
    paid = ground.odds @ np.where(serves, 0.0, jump)
    return np.linalg.solve(stay, paid.T[:, :, None])[:, :, 0].T.astype(np.float64)


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
