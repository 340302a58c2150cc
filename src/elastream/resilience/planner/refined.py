"""Refined placement: ROD's, improved by what it approximates, the volume of the feasible set.

This goes beyond paper 003, which ends with the greedy pass. ROD's placement, and ROD's with its
order of operators perturbed, are improved until no move and no swap helps
(:mod:`~elastream.resilience.planner.pair_exchange`). Then the best is kicked (some operators moved
elsewhere) and improved again, until a number of consecutive kicks gained nothing or the budget of
point visits is spent. No clock is read, so that equal problems have equal plans.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elastream.resilience.planner.feasible_set import directions
from elastream.resilience.planner.normalised import Ints, Space
from elastream.resilience.planner.pair_exchange import improve
from elastream.resilience.planner.rod import falling_order, rod

_LOG2_POINTS = 10
_STARTS = 4
_KICKS = 40
"""This many consecutive kicks without gain end the search."""
_KICKED = 3
"""Number of operators moved by a kick."""
_GAIN = 1e-6
"""A kick that gains less, relative to the value, counts as no gain."""
_BUDGET = 2e8
"""Point visits, of about 20 ns each."""
_SEED = 3


def refine(space: Space, first: Ints) -> Ints:
    """Return a placement at least about as good as ``first``, usually far better.

    Inseparable operators go to the node on which ``first`` has the first of them.
    """
    if len(space.barred):
        labels = space.inseparable()
        leaders = np.unique(labels, return_index=True)[1]
        return refine(space.merged(labels), first[leaders])[labels]
    order = _canonical_nodes(space, first)
    rank = np.argsort(order)
    canonical = replace(space, capacity=space.capacity[order], base=space.base[order])
    return order[_search(canonical, rank[first])]


def _canonical_nodes(space: Space, place: Ints) -> Ints:
    """Return the nodes by the first operator they hold, then by falling capacity.

    A search that sees them only in this order cannot depend on their numbers.
    """
    first = np.full(len(space.capacity), len(place))
    np.minimum.at(first, place, np.arange(len(place)))
    return np.lexsort((-space.capacity, first))


def _search(space: Space, first: Ints) -> Ints:
    points = directions(space.shares.shape[1], _LOG2_POINTS, seed=_SEED)
    rng = np.random.default_rng(_SEED)
    remaining = _BUDGET
    best, best_value = first, -np.inf
    for start in range(_STARTS):
        place = first if start == 0 else rod(space, _shaken(space, rng))
        place, value, visits = improve(space, points, place, remaining)
        remaining -= visits
        if value > best_value:
            best, best_value = place, value
        if remaining <= 0:
            return best
    kicks = 0
    while kicks < _KICKS and remaining > 0:
        place, value, visits = improve(
            space, points, _kicked(best, len(space.capacity), rng), remaining
        )
        remaining -= visits
        kicks += 1
        if value > best_value + _GAIN * abs(best_value):
            best, best_value, kicks = place, value, 0
    return best


def _shaken(space: Space, rng: np.random.Generator) -> Ints:
    """Return the operators by falling norm, each norm perturbed by up to a half."""
    factors = rng.uniform(0.5, 1.5, size=(len(space.shares), 1))
    return falling_order(space.sizes * factors)


def _kicked(place: Ints, nodes: int, rng: np.random.Generator) -> Ints:
    """Return the placement with a few operators moved to random nodes."""
    kicked = place.copy()
    kicked[rng.integers(len(place), size=_KICKED)] = rng.integers(nodes, size=_KICKED)
    return kicked
