"""All steps of a sequence at once: a sweep over the tasks that proves an optimum.

Model. What the future needs to know at bound ``x`` is, for every step, the open interval and how
many are closed, and for every pair of neighbours the bit of :mod:`~elastream.foresight.oms.pairs`:
a *label*. Of two labels that agree in all of this only the one that kept more state goes on. For
``p`` steps of ``n`` nodes there are O((2 w n)^p) labels at a bound, ``w`` being how many tasks an
interval can hold: polynomial for a fixed ``p``.

Bound. A label can gain no more than the sum, over all pairs, of the pair's value to go at its open
intervals (:class:`~elastream.foresight.oms.prices.Potential`). One that cannot beat a known
sequence is dropped. At a bound the steps choose in turn: an interval grows or closes, and the cell
that ends with it is matched or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.oms.chain import Chain
from elastream.foresight.oms.pairs import NONE
from elastream.foresight.oms.prices import Potential
from elastream.foresight.ssm.interval_gain import Ints

Bools = NDArray[np.bool_]
Small = NDArray[np.int32]

_LARGEST_KEY = 1 << 62


class Sweep(NamedTuple):
    """What a sweep found."""

    complete: bool
    """Whether it came to an end; if so, its result is proven best, or the known sequence is."""
    labels: int
    """How many labels were made."""
    kept: int | None = None
    """State kept by the best sequence, weighed; ``None`` where none beats the known one."""
    cuts: tuple[tuple[int, ...], ...] = ()
    """Its cut after each step, as bounds."""


class _Labels(NamedTuple):
    """Labels at one bound; a column each, a row per step (the first for the current cut)."""

    vertex: Ints
    """The open interval of each step."""
    closed: Ints
    """How many intervals each step has closed."""
    matched: Ints
    """The bit of each pair, in the row of its new step."""
    kept: Ints
    """State kept in the cells that have ended, each weighed as its pair."""


class _Front(NamedTuple):
    """Labels in the making: the steps up to one have chosen whether to grow or to close."""

    parent: Ints
    """The label at the bound."""
    previous: Ints
    """The same label in the front of the step before."""
    closes: Bools
    vertex: Ints
    """The open interval of the step at the next bound."""
    matched: Ints
    kept: Ints
    ahead: Ints
    """Values to go of the pairs that have chosen, less the fees of intervals now closed."""


class _History(NamedTuple):
    """How the labels at one bound came about."""

    parent: Small
    closes: Bools


def sweep(chain: Chain, guide: Potential, known: int, most_labels: int) -> Sweep:
    """Return the sequence that keeps the most state, if that is more than ``known``.

    Gives up once ``most_labels`` labels are made.
    """
    m, rows = chain.tasks, len(chain.graphs)
    nothing = np.zeros((rows, 1), dtype=np.int64)
    labels = _Labels(nothing, nothing, nothing, np.zeros(1, dtype=np.int64))
    histories: list[_History] = []
    made = 0
    for x in range(1, m):
        crossing = _Crossing(chain, guide, known + chain.unit, x, labels)
        to_go = crossing.to_go()
        fronts = [crossing.first()]
        for step in range(1, rows):
            fronts.append(crossing.front(step, fronts[-1], to_go[step + 1]))
            made += len(fronts[-1].kept)
            if made > most_labels:
                return Sweep(False, made)
        labels, history = crossing.merged(fronts)
        if len(labels.kept) == 0:
            return Sweep(True, made)
        histories.append(history)
    kept = labels.kept.copy()
    for step in range(1, rows):
        kept += _cells(chain, labels, m, step) * (1 - labels.matched[step])
    best = int(np.argmax(kept))
    if kept[best] <= known:
        return Sweep(True, made)
    return Sweep(True, made, int(kept[best]), _cuts(histories, best, rows, m))


@dataclass(frozen=True, slots=True)
class _Crossing:
    """The way of all labels over one bound."""

    chain: Chain
    guide: Potential
    goal: int
    """Labels that cannot keep this much are dropped."""
    x: int
    labels: _Labels

    def to_go(self) -> list[Ints]:
        """Return for each step, and one after the last, the values to go of its pair and later.

        What is given back for intervals not closed yet is in all of them.
        """
        labels, graphs = self.labels, self.chain.graphs
        fees = np.array(self.guide.prices.fees)
        most = np.array([graph.most for graph in graphs])
        sums: list[Ints] = [fees @ (most[:, np.newaxis] - labels.closed)]
        for step in range(len(graphs) - 1, 0, -1):
            old, new = labels.vertex[step - 1 : step + 1]
            sums.append(sums[-1] + self._values(step, self.x, old, new, labels.matched[step]))
        return [sums[-1], *reversed(sums)]

    def first(self) -> _Front:
        """Return the front before the first step: the current cut closes where it has a bound."""
        graph, vertex = self.chain.graphs[0], self.labels.vertex[0]
        closes = graph.may_close[vertex] == 1
        after = np.where(closes, graph.opened[self.x], graph.grown[vertex])
        zeros = np.zeros(len(vertex), dtype=np.int64)
        everyone = np.arange(len(vertex))
        return _Front(everyone, everyone, closes, after, zeros, self.labels.kept, zeros)

    def front(self, step: int, front: _Front, to_go: Ints) -> _Front:
        """Let a step choose: grow or close, and match the cell that ends with it or not."""
        graph, old_graph = self.chain.graphs[step], self.chain.graphs[step - 1]
        parent = front.parent
        vertex, bit = self.labels.vertex[step][parent], self.labels.matched[step][parent]
        cell = _cells(self.chain, self.labels, self.x, step)[parent]
        start, old_start = (
            graph.start[vertex],
            old_graph.start[self.labels.vertex[step - 1][parent]],
        )
        none, parts = np.zeros_like(cell), []
        for closes in (False, True):
            after = np.full(len(vertex), graph.opened[self.x]) if closes else graph.grown[vertex]
            allowed = graph.may_close[vertex] == 1 if closes else after >= 0
            ends = front.closes | closes
            both = front.closes & closes
            survivor_is_earlier = old_start < start if closes else start < old_start
            bit_after = np.where(both, 0, np.where(ends, bit & survivor_is_earlier, bit))
            unmatched = allowed & ~(both & (bit == 0))
            matched = allowed & ends & (bit == 0) & ((cell > 0) | both)
            for which, gain, bits in ((unmatched, none, bit_after), (matched, cell, 1 - both)):
                chosen = np.flatnonzero(which)
                parts.append(
                    self._children(
                        step,
                        front,
                        chosen,
                        closes,
                        after[chosen],
                        gain[chosen],
                        bits[chosen],
                        to_go,
                    )
                )
        return _Front(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _children(
        self,
        step: int,
        front: _Front,
        chosen: Ints,
        closes: bool,
        after: Ints,
        gain: Ints,
        bit: Ints,
        to_go: Ints,
    ) -> _Front:
        """Return the labels of one choice that can still reach the goal."""
        graph, prices = self.chain.graphs[step], self.guide.prices
        parent = front.parent[chosen]
        value = self._values(step, self.x + 1, front.vertex[chosen], after, bit)
        kept = front.kept[chosen] + gain
        ahead = front.ahead[chosen] + value - closes * prices.fees[step]
        # the next pair has not chosen yet: its value still pays for an interval closed here
        price = closes * prices.of_intervals[step][self.labels.vertex[step][parent]]
        fits = self.labels.closed[step][parent] + closes + graph.needed[after] <= graph.most
        good = fits & (value > NONE // 2) & (kept + ahead + price + to_go[parent] >= self.goal)
        return _Front(
            parent[good],
            chosen[good],
            np.full(int(good.sum()), closes),
            after[good],
            bit[good],
            kept[good],
            ahead[good],
        )

    def merged(self, fronts: list[_Front]) -> tuple[_Labels, _History]:
        """Return the labels at the next bound, of equal ones the one that kept the most."""
        last = fronts[-1]
        at = np.arange(len(last.kept))
        columns = []
        for front in reversed(fronts):
            columns.append((front.vertex[at], front.matched[at], front.closes[at]))
            at = front.previous[at]
        vertex, matched, closes = (np.array(rows[::-1]) for rows in zip(*columns, strict=True))
        closed = self.labels.closed[:, last.parent] + closes
        key = self._keys(vertex, matched, closed)
        order = np.lexsort((-last.kept, key))
        best = order[np.diff(key[order], prepend=-1) != 0]
        labels = _Labels(vertex[:, best], closed[:, best], matched[:, best], last.kept[best])
        return labels, _History(last.parent[best].astype(np.int32), closes[:, best])

    def _keys(self, vertex: Ints, matched: Ints, closed: Ints) -> Ints:
        """Return a number for each label, the same for labels that agree."""
        key, span = np.zeros(vertex.shape[1], dtype=np.int64), 1
        for step, graph in enumerate(self.chain.graphs[1:], start=1):
            begin, end = graph.first[self.x + 1 : self.x + 3].tolist()
            radix = 2 * (end - begin) * (graph.most + 1)
            if span * radix >= _LARGEST_KEY:
                key = np.unique(key, return_inverse=True)[1]
                span = len(key)
            place = 2 * (vertex[step] - begin) + matched[step]
            key = key * radix + place * (graph.most + 1) + closed[step]
            span *= radix
        return key

    def _values(self, step: int, x: int, old: Ints, new: Ints, bit: Ints) -> Ints:
        """Return the values to go of the pair of ``step`` and the one before at bound ``x``."""
        old_first, new_first = self.chain.graphs[step - 1].first, self.chain.graphs[step].first
        width = new_first[x + 1] - new_first[x]
        row = (old - old_first[x]) * width + new - new_first[x]
        cell = self.guide.offsets[step - 1][x] + 2 * row + bit
        values: Ints = self.guide.values[step - 1][cell]
        return values


def _cells(chain: Chain, labels: _Labels, x: int, step: int) -> Ints:
    """Return the weighed state that the open intervals of a step and the one before share."""
    old = chain.graphs[step - 1].start[labels.vertex[step - 1]]
    new = chain.graphs[step].start[labels.vertex[step]]
    state = chain.states[step - 1]
    cells: Ints = state[x] - state[np.maximum(old, new)]
    return cells


def _cuts(histories: list[_History], label: int, rows: int, m: int) -> tuple[tuple[int, ...], ...]:
    """Return the cut of each step, by going back through the histories."""
    cuts = [[m] for _ in range(rows)]
    for x in range(m - 1, 0, -1):
        history = histories[x - 1]
        for cut, closes in zip(cuts, history.closes[:, label], strict=True):
            if closes:
                cut.append(x)
        label = int(history.parent[label])
    return tuple((0, *reversed(cut)) for cut in cuts[1:])
