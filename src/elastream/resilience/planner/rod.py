"""ROD, resilient operator distribution: Figure 10 of paper 003, with lower bounds (6.1).

Operators are placed by falling norm of their shares. Each goes to a node whose candidate hyperplane
stays on or above the ideal one (class I); if there is none, to the node whose candidate hyperplane
is farthest from the lower bound (class II). Among class I nodes the one is taken that leaves the
fewest streams between nodes, then the one with the farthest hyperplane. The load of operators at
any rates must be at most an even share in class I.

Departures: Figure 10 takes the *smallest* distance in class II, the text of section 5.2 the
largest, which is meant. The order is by the norm of ``l_jk / l_k``, so that units of streams do not
matter. Ties go to the node whose first operator was placed first, then to the largest.

Cost: O(m log m + m n d).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from elastream.resilience.planner.normalised import Floats, Ints, Space

Bools = NDArray[np.bool_]

_NO_LOAD = 1e-100
"""Replaces the norm of a node without load, whose hyperplane is infinitely far."""
_TIE = 1e-9
"""Values closer than this, relative to their size, are equal up to rounding."""


def falling_order(sizes: Floats) -> Ints:
    """Return the operators by falling norm; those equal up to rounding keep their order."""
    norms = np.linalg.norm(sizes, axis=1)
    order = np.argsort(-norms, kind="stable")
    steps = norms[order[:-1]] - norms[order[1:]] > _TIE * norms[order[:-1]]
    level = np.concatenate(([0], np.cumsum(steps)))
    return order[np.lexsort((order, level))]


def rod(space: Space, order: Ints | None = None) -> Ints:
    """Return the node of each operator; ``order`` replaces the order by falling norm."""
    operators, nodes = len(space.shares), len(space.capacity)
    place = np.full(operators, -1, dtype=np.int64)
    weights = space.base / space.capacity[:, None]
    taken, evenly = np.zeros(nodes), float(space.always.sum()) * (1 + _TIE)
    first = [operators] * nodes
    neighbours = _neighbours(space)
    for rank, j in enumerate(falling_order(space.sizes) if order is None else order):
        candidates = weights + space.shares[j] / space.capacity[:, None]
        taken_then = taken + space.always[j] / space.capacity
        is_class_one = (candidates.max(axis=1) <= 1 + _TIE) & (taken_then <= evenly)
        if is_class_one.any():
            allowed = _fewest_crossings(is_class_one, place[neighbours[j]])
        else:
            allowed = ~is_class_one
        tied = _farthest(candidates, 1.0 - candidates @ space.bound - taken_then, allowed)
        node = min(tied, key=lambda i: (first[i], -space.capacity[i], i))
        place[j] = node
        weights[node], taken[node] = candidates[node], taken_then[node]
        first[node] = min(first[node], rank)
    return place


def _neighbours(space: Space) -> list[Ints]:
    """Return the operators that have a stream from or to each operator."""
    neighbours: list[list[int]] = [[] for _ in space.shares]
    for source, target in space.ends.tolist():
        neighbours[source].append(target)
        neighbours[target].append(source)
    return [np.array(others, dtype=np.int64) for others in neighbours]


def _fewest_crossings(allowed: Bools, neighbour_nodes: Ints) -> Bools:
    """Return the allowed nodes that leave the fewest streams between nodes.

    ``neighbour_nodes`` are the nodes of the neighbours, -1 for those not yet placed.
    """
    neighbour_nodes = neighbour_nodes[neighbour_nodes >= 0]
    if not len(neighbour_nodes):
        return allowed
    together = np.bincount(neighbour_nodes, minlength=len(allowed))
    fewest: Bools = allowed & (together == together[allowed].max())
    return fewest


def _farthest(weights: Floats, slack: Floats, allowed: Bools) -> list[int]:
    """Return the allowed nodes whose hyperplane is farthest from the bound, up to rounding.

    ``slack`` is the free capacity of each at the bound.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    distances = slack / np.maximum(norms, _NO_LOAD)
    best = distances[allowed].max()
    tied = np.flatnonzero(allowed & (distances >= best - _TIE * abs(best)))
    return [int(i) for i in tied]
