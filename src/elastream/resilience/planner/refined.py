"""Refined placement: ROD's, improved by what it stands for, the volume of the feasible set.

Beyond paper 003, which ends with the greedy pass because a volume was dear in 2006. Measured
along rays (see ``feasible_set``), a thousand fixed points order placements well, and an exchange
of operators between two nodes is weighed in microseconds (see ``pair_exchange``).

Starts: ROD's placement, and ROD's with its order of operators shaken. Each is brought to a
placement that no move and no swap improves. Then the best is kicked (some operators sent
elsewhere) and improved again, and kept if better, until a number of kicks in a row gained nothing
or the budget of point visits is spent. The budget bounds the time without a clock, so that equal
problems have equal plans. Finally the volume is measured on other points, and ROD's placement is
returned where it is the larger of the two.

Cost: the budget at most, some seconds, plus one look at all exchanges of two nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from elastream.resilience.planner.feasible_set import directions
from elastream.resilience.planner.normalised import Ints, Space
from elastream.resilience.planner.pair_exchange import PairExchange
from elastream.resilience.planner.rod import falling_order, rod

__all__ = ["refine"]

_LOG2_POINTS = 10
_STARTS = 4
_KICKS = 40
"""So many kicks in a row without gain end the search."""
_KICKED = 3
"""Operators sent elsewhere by a kick."""
_GAIN = 1e-6
"""A kick that gains less, relative to the value, counts as none."""
_BUDGET = 2e8
"""Point visits, of about 20 ns each."""
_SEED = 3


def refine(space: Space, first: Ints) -> Ints:
    """Return a placement that bears about as much as ``first`` at least, mostly far more.

    What is inseparable goes where ``first`` has the first of it.
    """
    if len(space.barred):
        labels = space.inseparable()
        leaders = np.unique(labels, return_index=True)[1]
        return refine(space.merged(labels), first[leaders])[labels]
    order = _canonical_nodes(space, first)
    rank = np.argsort(order)
    known = replace(space, capacity=space.capacity[order], base=space.base[order])
    return order[_search(known, rank[first])]


def _canonical_nodes(space: Space, place: Ints) -> Ints:
    """Return the nodes by the first operator they hold, then by falling capacity.

    A search that knows them in this order alone cannot depend on their numbers.
    """
    first = np.full(len(space.capacity), len(place))
    np.minimum.at(first, place, np.arange(len(place)))
    return np.lexsort((-space.capacity, first))


def _search(space: Space, first: Ints) -> Ints:
    points = directions(space.shares.shape[1], _LOG2_POINTS, seed=_SEED)
    search = PairExchange.on(space, points)
    rng = np.random.default_rng(_SEED)
    left = _BUDGET
    best, best_value = first, -np.inf
    for start in range(_STARTS):
        place = first if start == 0 else rod(space, _shaken(space, rng))
        place, value, visits = search.improve(place, left)
        left -= visits
        if value > best_value:
            best, best_value = place, value
        if left <= 0:
            return best
    kicks = 0
    while kicks < _KICKS and left > 0:
        place, value, visits = search.improve(_kicked(best, len(space.capacity), rng), left)
        left -= visits
        kicks += 1
        if value > best_value + _GAIN * abs(best_value):
            best, best_value, kicks = place, value, 0
    return best


def _shaken(space: Space, rng: np.random.Generator) -> Ints:
    """Return the operators by falling norm, each norm off by up to a half."""
    factors = rng.uniform(0.5, 1.5, size=(len(space.shares), 1))
    return falling_order(space.sizes * factors)


def _kicked(place: Ints, nodes: int, rng: np.random.Generator) -> Ints:
    """Return the placement with a few operators sent to any node."""
    kicked = place.copy()
    kicked[rng.integers(len(place), size=_KICKED)] = rng.integers(nodes, size=_KICKED)
    return kicked
