"""Rent: the prices of the nodes in use, bounded from below while operators are unplaced.

A node that holds a replica of any operator costs its price, once: our extension of paper 004, whose
costs are a sum over operators and streams. Forms are such sums. A form with shares of the rent
(``forms.py``) needs nothing more; to any other form the bound of this module is added. With some
operators on the nodes O and the rest unplaced, a deployment costs at least::

    form(O, rest) + price(O and S) + cheapest further nodes that make room for the rest

S are the nodes that one of the rest uses in every configuration. However the rest is placed, the
form is at most the cost without the rent and the prices are at most the rent, so their sum is at
most the cost. The number of further nodes is computed with the largest ones, their price with the
cheapest ones. The rent is also at least that of any single operator. Once all operators are placed
it is exact.

Cost: O(n) per partial deployment, nothing if no node has a price.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from elastream.replication.planner.configurations import Configurations, Floats
from elastream.replication.planner.instance import Instance

Nodes = NDArray[np.bool_]

_TOLERANCE = 1e-9
"""Relative shortage of room that is ignored: rounding errors of sums."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What unplaced operators will use, whichever configurations they get."""

    sure: Nodes
    """Nodes that one of them uses in every case."""
    reachable: Nodes
    """Nodes that one of them may use."""
    need: Floats
    """Lower bound on the room that they take together, of each kind."""
    rent: float
    """Lower bound on the prices of the nodes of any one of them."""

    def joined(self, other: Rest) -> Rest:
        """Return what the operators of both will use."""
        return Rest(
            self.sure | other.sure,
            self.reachable | other.reachable,
            self.need + other.need,
            max(self.rent, other.rent),
        )


class Rent:
    """The rent of the deployments of one instance."""

    def __init__(self, instance: Instance) -> None:
        self._price = instance.node_price
        self._capacity = instance.capacity
        self.due = bool(self._price.any())
        """Whether any node has a price; otherwise every rent is 0."""
        self._each = [self._rest_of(domain) for domain in instance.domains] if self.due else []

    def rest(self, operators: Iterable[int]) -> Rest:
        """Return what these operators will use."""
        none = np.zeros(len(self._price), dtype=bool)
        known = (self._each[i] for i in operators) if self.due else ()
        return reduce(Rest.joined, known, Rest(none, none, np.zeros(len(self._capacity)), 0.0))

    def paid(self, occupied: Nodes) -> Floats:
        """Return the prices of the nodes in use, one entry per row."""
        return np.asarray(np.where(occupied, self._price, 0.0).sum(axis=1))

    def least(self, rest: Rest, occupied: Nodes, used: Floats) -> Floats:
        """Return a lower bound on the rent of each partial deployment, however ``rest`` is placed.

        ``occupied`` are the nodes with replicas; ``used`` is the use of each node by these.
        """
        if not self.due:
            return np.zeros(len(occupied))
        certain = occupied | rest.sure
        there = certain & rest.reachable
        further = np.zeros(len(certain))
        for kind, capacity in enumerate(self._capacity):
            room = np.where(there, capacity * (1 + _TOLERANCE) - used[:, kind], 0.0).sum(axis=1)
            lacking = rest.need[kind] * (1 - _TOLERANCE) - room
            short = np.flatnonzero(lacking > 0)
            free = rest.reachable & ~certain[short]
            least = self._cheapest(capacity, free, lacking[short])
            further[short] = np.maximum(further[short], least)
        return np.maximum(self.paid(certain) + further, rest.rent)

    def _cheapest(self, capacity: Floats, further: Nodes, lacking: Floats) -> Floats:
        """Return the price of the cheapest of ``further``, as many as of the largest would do."""
        order = np.argsort(-capacity, kind="stable")
        large = further[:, order]
        room = np.where(large, capacity[order], 0.0).cumsum(axis=1)
        fewest = 1 + (large & (room < lacking[:, None])).sum(axis=1)
        order = np.argsort(self._price, kind="stable")
        cheap = further[:, order]
        taken = cheap & (cheap.cumsum(axis=1) <= fewest[:, None])
        return np.asarray(np.where(taken, self._price[order], 0.0).sum(axis=1))

    def _rest_of(self, domain: Configurations) -> Rest:
        there = domain.count > 0
        return Rest(
            np.all(there, axis=0),
            np.any(there, axis=0),
            (domain.size[:, None] * domain.use).min(axis=0),
            float(self.paid(there).min()),
        )
