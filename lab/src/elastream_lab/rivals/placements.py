"""The placements that ROD is compared with: sections 7.2 and 7.3.5 of paper 003.

All but one balance load: at given rates (LLF, connected), at the largest rates seen (max-rate), or
on the mean of a series while keeping apart what rises and falls together (correlation). "Least
loaded" means the least load for the node's capacity, so that unequal nodes are served too. What
cannot be placed, and what operators take at any rates, counts as load.

Correlation-based balancing is described in the paper by its aim alone, "operators with high load
correlation are separated onto different nodes" (its reference 23 moves operators at run time).
Here: operators by falling mean load; each goes to that node, of those it does not fill above the
mean, whose load so far correlates least with its own; where it fills all, to the least loaded.

Rates are rows of the normalised space: ``x_k = l_k r_k / C_T``.
"""

from __future__ import annotations

import numpy as np

from elastream.resilience.planner.normalised import Floats, Ints, Space

_ROUNDING = 1e-9


def largest_load_first(space: Space, rates: Floats) -> Ints:
    """Operators by falling load, each to the node least loaded so far."""
    loads = space.shares @ rates + space.always
    place = np.zeros(len(loads), dtype=np.int64)
    filled = space.base @ rates / space.capacity
    for j in np.argsort(-loads, kind="stable"):
        node = int(np.argmin(filled))
        place[j] = node
        filled[node] += loads[j] / space.capacity[node]
    return place


def max_rate(space: Space, series: Floats) -> Ints:
    """Largest load first at the largest rate of each stream in ``series``, a row for each time."""
    return largest_load_first(space, series.max(axis=0))


def connected(space: Space, rates: Floats) -> Ints:
    """Keep connected operators together as long as the node stays below the mean load.

    The most loaded operator left goes to the least loaded node; then operators connected to those
    there follow, the most loaded first, while the node stays below the mean; and again.
    """
    loads = space.shares @ rates + space.always
    mean = float(loads.sum() + (space.base @ rates).sum())
    place = np.full(len(loads), -1, dtype=np.int64)
    filled = space.base @ rates / space.capacity
    neighbours: list[set[int]] = [set() for _ in loads]
    for source, target in space.ends.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    falling = [int(j) for j in np.argsort(-loads, kind="stable")]
    rank = {j: position for position, j in enumerate(falling)}
    for j in falling:
        if place[j] >= 0:
            continue
        node = int(np.argmin(filled))
        place[j] = node
        filled[node] += loads[j] / space.capacity[node]
        reached = {o for k in np.flatnonzero(place == node) for o in neighbours[int(k)]}
        while fitting := [
            o
            for o in reached
            if place[o] < 0 and filled[node] + loads[o] / space.capacity[node] < mean
        ]:
            follower = min(fitting, key=rank.__getitem__)
            place[follower] = node
            filled[node] += loads[follower] / space.capacity[node]
            reached |= neighbours[follower]
    return place


def correlation(space: Space, series: Floats) -> Ints:
    """Keep apart what rises and falls together in ``series``, a row for each time."""
    loads = space.shares @ series.T + space.always[:, None]
    means = loads.mean(axis=1)
    history = space.base @ series.T
    mean = float(means.sum() + history.mean(axis=1).sum()) * (1 + _ROUNDING)
    place = np.zeros(len(loads), dtype=np.int64)
    filled = history.mean(axis=1) / space.capacity
    for j in np.argsort(-means, kind="stable"):
        after = filled + means[j] / space.capacity
        fits = np.flatnonzero(after <= mean)
        if len(fits):
            node = int(fits[np.argmin(_correlations(history[fits], loads[j]))])
        else:
            node = int(np.argmin(after))
        place[j] = node
        filled[node] = after[node]
        history[node] += loads[j]
    return place


def random_even(space: Space, seed: int) -> Ints:
    """Place at random, the same number of operators on each node, give or take one."""
    rng = np.random.default_rng(seed)
    nodes = len(space.capacity)
    seats = np.arange(len(space.shares)) % nodes
    place: Ints = rng.permutation(nodes)[rng.permutation(seats)]
    return place


def _correlations(histories: Floats, load: Floats) -> Floats:
    """Return the correlation of each history with the load; 0 where either never changes."""
    apart = histories - histories.mean(axis=1, keepdims=True)
    own = load - load.mean()
    norms = np.linalg.norm(apart, axis=1) * np.linalg.norm(own)
    flat = norms <= _ROUNDING * max(float(norms.max()), np.finfo(np.float64).tiny)
    found: Floats = np.where(flat, 0.0, (apart @ own) / np.where(flat, 1.0, norms))
    return found
