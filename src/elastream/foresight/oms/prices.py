"""Prices that pull the steps of a sequence apart: a bound on the state that can stay.

Model. The state kept between steps ``i - 1`` and ``i`` of a sequence depends on both their cuts. It
counts as much as step ``i`` does, so every pair has sizes of its own
(:mod:`~elastream.foresight.oms.chain`), and prices are in the same weighed ticks.
Give every pair of neighbours copies of its two cuts, and each pair is a problem of its own, solved
exactly by :mod:`~elastream.foresight.oms.pairs`. That the two copies of a step agree, interval
by interval, is left to prices: a pair is paid the price of each interval that its new cut uses, and
pays that of each interval its old cut uses. That a cut has at most ``n_i`` intervals is left to a
fee. For any prices the best values of all pairs add up to an upper bound on what any sequence
keeps (Lagrangian decomposition); :class:`Ascent` looks for prices that make it tight.

All amounts are whole ticks, so a bound is a proof and not an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from elastream.foresight.oms.chain import Chain
from elastream.foresight.oms.intervals import IntervalGraph
from elastream.foresight.oms.pairs import offsets, pair_cuts, pair_values
from elastream.foresight.ssm.interval_gain import Floats, Ints

Copies = list[tuple[Ints, Ints]]
"""For each pair the vertices at which the intervals of its old and of its new cut close."""

_CELL_OPERATIONS = 10.0
"""Inner steps that a value of a table takes."""
_MANY_MOVES = 100
"""An ascent takes at least this many moves, so compiling its kernels pays."""


@dataclass(frozen=True, slots=True)
class CutPrices:
    """What an interval is worth in the new cut of a pair, and costs in the old cut of the next."""

    of_intervals: tuple[Ints, ...]
    """For each step and vertex; zero for the first and the last step, which have one copy."""
    fees: tuple[int, ...]
    """For each step what a new interval costs, because no more than ``most`` are allowed."""

    @classmethod
    def zero(cls, chain: Chain) -> CutPrices:
        """Return no prices and no fees."""
        return cls(tuple(np.zeros_like(g.start) for g in chain.graphs), (0,) * len(chain.graphs))

    def of_pair(self, i: int) -> tuple[Ints, Ints]:
        """Return what closing an interval pays in the old and the new cut of steps i - 1 and i."""
        return -self.of_intervals[i - 1], self.of_intervals[i] - self.fees[i]

    def refund(self, chain: Chain) -> int:
        """Return the fees of all intervals allowed: what the relaxation gives for the fees."""
        return sum(fee * graph.most for fee, graph in zip(self.fees, chain.graphs, strict=True))


@dataclass(frozen=True, slots=True)
class Potential:
    """The tables of all pairs for some prices, and the bound they prove."""

    prices: CutPrices
    values: tuple[Ints, ...]
    """For each pair, the first being steps 0 and 1, what ``pair_values`` filled in."""
    offsets: tuple[Ints, ...]
    bound: int
    """No sequence keeps more."""


def potential(chain: Chain, prices: CutPrices) -> Potential:
    """Return the tables for these prices."""
    tables, places, bound = [], [], prices.refund(chain)
    for i, (old, new) in enumerate(pairwise(chain.graphs), start=1):
        place = offsets(old, new)
        table = np.empty(place[-1], dtype=np.int64)
        old_price, new_price = prices.of_pair(i)
        fill = pair_values.for_operations(_CELL_OPERATIONS * len(table))
        bound += int(fill(chain.states[i - 1], old, old_price, new, new_price, place, table))
        tables.append(table)
        places.append(place)
    return Potential(prices, tuple(tables), tuple(places), bound)


class Ascent:
    """A deflected subgradient method that lowers the bound of a chain.

    Where the two copies of a step differ, intervals that only the new copy uses become cheaper and
    those that only the old one uses dearer. So do all intervals that end near a bound which only
    one copy has, the more the nearer: one pair's choice teaches about its neighbourhood, and a
    tenth of the moves suffices. The length of a move is Polyak's, from the bound to a little less
    than what some sequence keeps. It shrinks where moves fail. Where later steps count less, their
    prices are smaller, and so are their moves.
    """

    _EAGERNESS = 1.6
    """The share of the way to the target that the first moves go."""
    _LEAST_EAGERNESS = 1e-9
    _MARGIN = 0.05
    """How far the target lies beyond a known sequence, as a share of what that one moves."""
    _PATIENCE = 20
    """Failures before moves shrink."""
    _SHRINK = 0.85
    _MEMORY = 0.9
    """Weight of the directions before."""

    def __init__(self, chain: Chain) -> None:
        self.best = CutPrices.zero(chain)
        self.least = chain.total
        """The lowest bound met; ``best`` are its prices."""
        self._chain = chain
        self._prices = self.best
        self._scales = _scales(chain)
        self._directions = [np.zeros(len(graph.start)) for graph in chain.graphs]
        self._eagerness, self._failures = self._EAGERNESS, 0
        self._bounds = [graph.bounds for graph in chain.graphs]
        self._nearness = [_nearness(graph) for graph in chain.graphs]
        self._offsets = [offsets(old, new) for old, new in pairwise(chain.graphs)]
        self._table = np.empty(max(int(o[-1]) for o in self._offsets), dtype=np.int64)
        self._closed = np.empty((2, chain.tasks + 1), dtype=np.int64)

    @property
    def spent(self) -> bool:
        """Whether moves have become too short to change much."""
        return self._eagerness < self._LEAST_EAGERNESS

    def move(self, known: int) -> Copies:
        """Solve all pairs for the present prices and move on; return the cuts that solved them.

        ``known`` is what some sequence keeps.
        """
        bound, copies = self._solved()
        if bound < self.least:
            self.best, self.least, self._failures = self._prices, bound, 0
        else:
            self._failures += 1
            if self._failures == self._PATIENCE:
                self._eagerness, self._failures = self._eagerness * self._SHRINK, 0
        spare = self._spare(copies)
        norm = self._turned(copies)
        norm += sum(s * surplus**2 for s, surplus in zip(self._scales, spare, strict=True))
        if norm > 0:
            moved = self._chain.total - known
            length = self._eagerness * (bound - known + self._MARGIN * moved) / norm
            self._prices = self._moved(length, spare, float(self._chain.states[0][-1]))
        return copies

    def _solved(self) -> tuple[int, Copies]:
        chain, effort = self._chain, _CELL_OPERATIONS * _MANY_MOVES * len(self._table)
        fill, walk = pair_values.for_operations(effort), pair_cuts.for_operations(effort)
        bound, copies = self._prices.refund(chain), []
        for i, (old, new) in enumerate(pairwise(chain.graphs), start=1):
            old_price, new_price = self._prices.of_pair(i)
            given = (chain.states[i - 1], old, old_price, new, new_price, self._offsets[i - 1])
            bound += int(fill(*given, self._table))
            old_count, new_count = walk(*given, self._table, *self._closed)
            copies.append((self._closed[0, :old_count].copy(), self._closed[1, :new_count].copy()))
        return bound, copies

    def _spare(self, copies: Copies) -> list[int]:
        """Return for each step how many more intervals it may use, where the fee can change."""
        spare = [0]
        for fee, graph, (_, used) in zip(
            self._prices.fees[1:], self._chain.graphs[1:], copies, strict=True
        ):
            free = graph.most - len(used)
            spare.append(0 if fee == 0 and free > 0 else free)
        return spare

    def _turned(self, copies: Copies) -> float:
        """Turn the directions towards the slopes; return the slopes' squares, so measured."""
        norm = 0.0
        for i, ((_, paid), (paying, _)) in enumerate(pairwise(copies), start=1):
            bounds = self._bounds[i]
            at_bounds = np.zeros(self._chain.tasks + 1)
            at_bounds[bounds[paid]] += 1
            at_bounds[bounds[paying]] -= 1
            slope = np.convolve(at_bounds, self._nearness[i], mode="same")[bounds]
            slope[paid] += 1
            slope[paying] -= 1
            norm += self._scales[i] * float(slope[paid].sum() - slope[paying].sum())
            self._directions[i] *= self._MEMORY
            self._directions[i] += self._scales[i] * (1 - self._MEMORY) * slope
        return norm

    def _moved(self, length: float, spare: list[int], most: float) -> CutPrices:
        prices = (
            np.clip(price - np.rint(length * direction), -most, most).astype(np.int64)
            for price, direction in zip(self._prices.of_intervals, self._directions, strict=True)
        )
        fees = (
            int(min(max(0.0, fee - length * scale * surplus), most))
            for fee, scale, surplus in zip(self._prices.fees, self._scales, spare, strict=True)
        )
        return CutPrices(tuple(prices), tuple(fees))


def _scales(chain: Chain) -> list[float]:
    """Return how far the prices of each step move: the weight of its pair relative to the first."""
    most = int(chain.states[0][-1])
    return [1.0, *(int(state[-1]) / most for state in chain.states)]


def _nearness(graph: IntervalGraph) -> Floats:
    """Return weights that fall from 1 at a bound to 0 some one and a half intervals away."""
    reach = min(3 * len(graph.reach) // graph.most // 2, len(graph.reach) // 2)
    return np.asarray(np.bartlett(2 * reach + 3)[1:-1])
