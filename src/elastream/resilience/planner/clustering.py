"""Place operators that are expensive to separate as one: section 6.3 of paper 003.

Before ROD, the operators at the ends of expensive arcs are joined into clusters. The clustering
ratio of two connected clusters is the cost of their arcs, if they cross, over the smaller of the
two clusters' own loads (norms of shares; the paper's is per tuple). While a pair has at least the
threshold and would not exceed the weight bound, the pair with the largest ratio (``by_ratio``) or
with the least total weight (``by_weight``) is merged. A few thresholds and bounds are tried for
both, and no clustering. The result is the plan whose nearest hyperplane is farthest from the lower
bound. O(m e log e) per threshold, plus ROD's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from elastream.resilience.planner.normalised import Floats, Ints, Space
from elastream.resilience.planner.rod import rod

Approach = Literal["by_ratio", "by_weight"]
_APPROACHES: tuple[Approach, ...] = ("by_ratio", "by_weight")
_THRESHOLDS = (0.1, 0.2, 0.4, 0.8, 1.6)
_ROUNDING = 1e-9
_NO_LOAD = 1e-100
"""Replaces a load of zero: separating operators without load is always too expensive."""
_WEIGHTS = (0.5, 1.0, 2.0, 4.0)
"""Largest share of any stream's load in a cluster, in shares of the largest node."""


def rod_with_clustering(space: Space) -> Ints:
    """Return ROD's placement of the best clustering; without transfer costs, ROD's own.

    Inseparable operators stay together in all of them.
    """
    if len(space.barred):
        labels = space.inseparable()
        return rod_with_clustering(space.merged(labels))[labels]
    best = rod(space)
    if not space.transfer_costs:
        return best
    farthest = space.plane_distance(best)
    for labels in _clusterings(space):
        place = rod_of_clusters(space, labels)
        distance = space.plane_distance(place)
        if distance > farthest:
            best, farthest = place, distance
    return best


def clusters(space: Space, approach: Approach, threshold: float, heaviest: float) -> Ints:
    """Return the cluster of each operator, numbered from 0.

    No cluster of several operators has more than ``heaviest`` of any stream's load.
    """
    shares, ends, transfers = space.shares.copy(), space.ends, space.transfers
    member_of = np.arange(len(shares))
    while True:
        ends, transfers = _links(ends, transfers)
        together = shares[ends[:, 0]] + shares[ends[:, 1]]
        own = np.linalg.norm(shares, axis=1)[ends].min(axis=1)
        ratios = np.linalg.norm(transfers, axis=1) / np.maximum(own, _NO_LOAD)
        fits = (ratios >= threshold) & (together.max(axis=1) <= heaviest * (1 + _ROUNDING))
        if not fits.any():
            return np.unique(member_of, return_inverse=True)[1].astype(np.int64)
        cost = -ratios if approach == "by_ratio" else np.linalg.norm(together, axis=1)
        u, v = ends[np.argmin(np.where(fits, cost, np.inf))]
        shares[u] += shares[v]
        member_of[member_of == v] = u
        ends = np.where(ends == v, u, ends)


def rod_of_clusters(space: Space, labels: Ints) -> Ints:
    """Return ROD's placement with each cluster kept on one node."""
    return rod(space.merged(labels))[labels]


def _clusterings(space: Space) -> Iterator[Ints]:
    seen: set[bytes] = set()
    largest = float(space.capacity.max())
    for approach in _APPROACHES:
        for threshold in _THRESHOLDS:
            for weight in _WEIGHTS:
                labels = clusters(space, approach, threshold, weight * largest)
                if labels.tobytes() not in seen:
                    seen.add(labels.tobytes())
                    yield labels


def _links(ends: Ints, transfers: Floats) -> tuple[Ints, Floats]:
    """Return each pair of connected clusters once, with the total cost of its arcs."""
    apart = ends[:, 0] != ends[:, 1]
    pairs, numbers = np.unique(np.sort(ends[apart], axis=1), axis=0, return_inverse=True)
    summed = np.zeros((len(pairs), transfers.shape[1]))
    np.add.at(summed, numbers, transfers[apart])
    return pairs, summed
