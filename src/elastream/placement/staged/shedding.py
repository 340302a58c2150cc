"""What nodes must shed at least: a lower bound, and the best length of each stage.

Every plan has for each stage s a length L_s, the most work on a slot of any node, and the lengths
of a query's stages sum to its limit at most. With given lengths, tasks leave an open node i until
no stage has more than ``slots[i] * L_s`` there. The least state of such tasks, taken as divisible
or, where they are few, whole, is bounded by a convex and piecewise linear function of L_s. So the
cheapest lengths are found by taking the segments of all stages of a query in the order of their
slopes: O(m log m).

Three relaxations make it a bound on any plan. *Busy*: a price on the work of a node replaces the
limit on all its work. *Open nodes*: with ``most_i`` the most node i could keep and ``pi`` any
price, node i keeps at most ``pi`` if it is open, and besides the part ``1 - pi / most_i`` of what
it keeps at these lengths. *Memory*: from a node leave at least the bytes that are too many. A task
that has a copy leaves for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from elastream.placement.staged.step import Flags, Floats, Ints, StagedStep

_ROUNDING = 1e-9
"""Share of all state that is taken off a bound for rounding errors."""
_LIGHT = 1e-12
"""A task with less work, compared with the heaviest, makes no node shed anything."""
_EXCHANGED = 8
"""Open and other nodes of which each pair is exchanged."""
_FEW, _SETS = 2000, 256
"""Most tasks for which tasks are taken whole, and most sets of tasks of one stage on a node."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """The bound, and what reaches it."""

    bound: Fraction
    """No plan loads less, in units of state."""
    lengths: Floats
    """The best length of each stage."""
    kept: Floats
    """State that each node keeps at these lengths."""


def shed(step: StagedStep) -> Shares:
    """Return the best bound of a few prices."""
    parts = _Parts.of(step)
    n = len(step.nodes)
    segments = parts.segments(np.zeros(n))
    most = np.maximum(0.0, parts.whole - segments.costs(step.most))
    pis = [0.0]
    if step.allowed < n:
        falling = -np.sort(-most)
        pis += [float(falling[r]) for r in sorted({step.allowed - 1, step.allowed, 0})]
        pis.append(float(falling[step.allowed - 1 : step.allowed + 1].mean()))
    best = Shares(Fraction(0), step.least, parts.whole)
    by_size = np.zeros(n, dtype=np.bool_)
    for _ in range(2):
        for pi in pis:
            part = np.where(most > pi, 1 - pi / np.maximum(most, max(pi, 1e-300)), float(not pi))
            lengths, least = segments.split(part * ~by_size)
            bound = parts.lost + float(((1 - part) * parts.whole).sum()) - step.allowed * pi
            bound += least + float((part * parts.excess)[by_size].sum())
            bound -= _ROUNDING * float(parts.lost + parts.whole.sum())
            if bound > best.bound or best.lengths is step.least:
                costs = np.maximum(segments.costs(lengths), parts.excess)
                best = Shares(Fraction(max(0.0, bound)), lengths, parts.whole - costs)
        prices = parts.prices(best.lengths)
        by_size = parts.excess > segments.costs(best.lengths)
        if not prices.any() and not by_size.any():
            break
        segments = parts.segments(prices)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Segments:
    """What nodes shed, by the lengths of the stages: a sum of linear parts."""

    step: StagedStep
    base: Floats
    """What each node sheds when all stages have the least length."""
    stage: Ints
    node: Ints
    low: Floats
    high: Floats
    """The lengths between which the node sheds less and less."""
    slope: Floats
    """How much less for each unit of length."""

    def costs(self, lengths: Floats) -> Floats:
        """Return what each node sheds at these lengths."""
        saved = self.slope * np.clip(lengths[self.stage] - self.low, 0.0, self.high - self.low)
        return self.base - np.bincount(self.node, saved, len(self.base))

    def split(self, part: Floats) -> tuple[Floats, float]:
        """Return the best lengths, and what all nodes shed there, each counted by its ``part``."""
        step = self.step
        slope = self.slope * part[self.node]
        at, change = np.concatenate([self.low, self.high]), np.concatenate([slope, -slope])
        stage = np.concatenate([self.stage, self.stage])
        order = np.lexsort((at, stage))
        at, stage, slope = at[order], stage[order], np.cumsum(change[order])[:-1]
        width = np.where(np.diff(stage) == 0, np.diff(at), 0.0)
        stage = stage[:-1]
        order = np.lexsort((-slope, step.query[stage]))
        stage, slope, width = stage[order], slope[order], width[order]
        query, count = step.query[stage], len(step.most_batch)
        needed = np.bincount(step.query, step.least, count)
        left = np.maximum(0.0, step.most_batch - needed)
        taken = np.clip(left[query] - _before(query, width), 0.0, width)
        lengths = step.least + np.bincount(stage, taken, len(step.query))
        spare = np.maximum(0.0, left - np.bincount(query, taken, count))
        share = step.least / np.maximum(needed, 1e-300)[step.query]
        lengths = np.minimum(step.most, lengths + share * spare[step.query])
        return lengths, float((part * self.base).sum() - (slope * taken).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The tasks that may leave their node, in the order in which they would."""

    step: StagedStep
    stage: Ints
    node: Ints
    work: Floats
    ratio: Floats
    """State per work."""
    before: Floats
    """Work of the stage that leaves the node earlier."""
    load: Floats
    """Work of the stage on the node."""
    whole: Floats
    """State that each node holds, copied tasks left out."""
    lost: float
    """State on nodes that must be left empty."""
    excess: Floats
    """State that leaves each node for lack of memory."""

    @classmethod
    def of(cls, step: StagedStep) -> _Parts:
        n = len(step.nodes)
        copied = np.zeros(len(step.work), dtype=np.bool_)
        copied[list(step.copies)] = True
        state = np.where(copied, 0, step.state).astype(np.float64)
        here = step.home >= 0
        whole = np.bincount(step.home[here], state[here], n).astype(np.float64)
        held = np.bincount(step.home[here], step.size[here], n)
        free = np.bincount(step.home[here], np.where(copied, step.size, 0.0)[here], n)
        tasks = np.flatnonzero(here & (step.work > _LIGHT))
        ratio = state[tasks] / step.work[tasks]
        order = np.lexsort((ratio, step.home[tasks], step.stage[tasks]))
        tasks, ratio = tasks[order], ratio[order]
        work, node, stage = step.work[tasks], step.home[tasks], step.stage[tasks]
        load = np.bincount(stage * n + node, work, len(step.query) * n)[stage * n + node]
        sums = np.cumsum(work) - work
        first = np.flatnonzero(np.diff(stage * n + node, prepend=-1))
        start = np.repeat(sums[first], np.diff(first, append=len(tasks)))
        excess = np.maximum(0.0, held - step.memory - free) / float(step.state_unit)
        return cls(
            step, stage, node, work, ratio, sums - start, load, whole, float(state[~here].sum()),
            np.asarray(np.floor(excess * (1 - _ROUNDING)), np.float64),
        )  # fmt: skip

    def _leaving(self, lengths: Floats) -> Floats:
        """Return the part of each task's work that leaves at these lengths."""
        most = self.step.slots[self.node] * lengths[self.stage]
        return np.clip(self.load - most - self.before, 0.0, self.work)

    def segments(self, prices: Floats) -> _Segments:
        """Return what nodes shed at least, with a price on their work."""
        step, n = self.step, len(prices)
        slots = step.slots[self.node]
        least, most = step.least[self.stage], step.most[self.stage]
        worth = self.ratio - prices[self.node]
        shed = np.maximum(0.0, worth) * self._leaving(step.least)
        base = np.zeros(n)
        np.add.at(base, self.node, np.minimum(0.0, worth) * self.work + shed)
        room = np.where(prices > 0, step.slots * step.most_busy, 0.0)
        base += prices * (np.bincount(self.node, self.work, n) - room)
        high = (self.load - self.before) / slots
        rows = np.stack([
            self.stage, self.node, np.clip(high - self.work / slots, least, most),
            np.clip(high, least, most), np.maximum(0.0, worth) * slots,
        ])  # fmt: skip
        if len(step.work) <= _FEW:
            cut = np.ones(len(self.work), dtype=np.bool_)
            whole: list[Floats] = []
            ends = np.flatnonzero(np.diff(self.stage * n + self.node, append=-1)) + 1
            for start, end in pairwise([0, *ends.tolist()]):
                pile = slice(start, end)
                hull = None
                if self.load[start] > slots[start] * least[start]:
                    value = np.maximum(0.0, worth[pile]) * self.work[pile]
                    hull = _hull(self.work[pile] / slots[start], value, least[start], most[start])
                if hull is not None:
                    at, cost = hull
                    cut[pile] = False
                    base[self.node[start]] += cost[0] - shed[pile].sum()
                    slope = -np.diff(cost) / np.diff(at)
                    where = np.full((len(slope), 2), (self.stage[start], self.node[start])).T
                    whole.append(np.vstack([where, at[:-1], at[1:], slope]))
            rows = np.hstack([rows[:, cut], *whole])
        stage, node = rows[:2].astype(np.int64)
        return _Segments(step, base, stage, node, *rows[2:])

    def prices(self, lengths: Floats) -> Floats:
        """Return for each node the state per work at which it is no longer too busy."""
        n = len(self.step.nodes)
        stays = self.work - self._leaving(lengths)
        excess = np.bincount(self.node, stays, n) - self.step.slots * self.step.most_busy
        order = np.lexsort((self.ratio, self.node))
        node, sums = self.node[order], np.cumsum(stays[order])
        first = np.flatnonzero(np.diff(node, prepend=-1))
        sums -= np.repeat(sums[first] - stays[order][first], np.diff(first, append=len(node)))
        prices = np.zeros(n)
        enough = (sums >= excess[node]) & (excess[node] > 0)
        where, index = np.unique(node[enough], return_index=True)
        prices[where] = self.ratio[order][enough][index]
        return prices


def open_sets(step: StagedStep, start: Flags, most: int) -> list[Flags]:
    """Return the choices of nodes for which least is shed, of those that exchanges lead to."""
    parts = _Parts.of(step)
    segments = parts.segments(np.zeros(len(start)))
    seen: dict[bytes, tuple[float, Flags]] = {}

    def shed_by(is_open: Flags) -> float:
        key = is_open.tobytes()
        if key not in seen:
            least = segments.split(is_open.astype(np.float64))[1]
            seen[key] = (least + float(parts.whole[~is_open].sum()), is_open)
        return seen[key][0]

    best, least = start, shed_by(start)
    while True:
        kept = parts.whole - segments.costs(segments.split(best.astype(np.float64))[0])
        leaving = [i for i in np.argsort(kept, kind="stable").tolist() if best[i]][:_EXCHANGED]
        coming = [i for i in np.argsort(-kept, kind="stable").tolist() if not best[i]][:_EXCHANGED]
        swaps = []
        for pair in product(leaving, coming):
            swapped = best.copy()
            swapped[list(pair)] = False, True
            swaps.append(swapped)
        better = min(swaps, key=shed_by, default=best)
        if shed_by(better) >= least:
            break
        best, least = better, shed_by(better)
    return [is_open for _, is_open in sorted(seen.values(), key=lambda each: each[0])[:most]]


def _before(group: Ints, amount: Floats) -> Floats:
    """Return for each entry the sum of earlier ones of its group; groups stand together."""
    sums = np.cumsum(amount) - amount
    first = np.flatnonzero(np.diff(group, prepend=-1))
    return np.asarray(sums - np.repeat(sums[first], np.diff(first, append=len(group))))


def _hull(work: Floats, value: Floats, least: float, most: float) -> tuple[Floats, Floats] | None:
    """Return the lower hull of the value that leaves so that the rest takes a given length.

    It is given by its corners. ``None`` where too many sets of tasks would have to be looked at.
    """
    weight, kept = np.zeros(1), np.zeros(1)
    for task in np.argsort(-work).tolist():
        weight = np.concatenate([weight, weight + work[task]])
        kept = np.concatenate([kept, kept + value[task]])
        order = np.lexsort((-kept, weight))
        weight, kept = weight[order], kept[order]
        best = np.maximum.accumulate(kept)
        new = (weight <= most * (1 + _ROUNDING)) & (np.diff(best, prepend=-1.0) > 0)
        weight, kept = weight[new], kept[new]
        if len(weight) > _SETS:
            return None
    first = int(np.searchsorted(weight, least * (1 + _ROUNDING), side="right")) - 1
    at = np.clip(np.append(weight[first:], most), least, most)
    cost = float(value.sum()) - np.append(kept[first:], kept[-1])
    corners = [0]
    for point in range(1, len(at)):
        if at[point] <= at[corners[-1]] * (1 + _ROUNDING):
            cost[corners[-1]] = min(cost[corners[-1]], cost[point])
            continue
        while len(corners) > 1:
            a, b = corners[-2:]
            ahead = (cost[point] - cost[a]) * (at[b] - at[a])
            if (cost[b] - cost[a]) * (at[point] - at[a]) < ahead:
                break
            corners.pop()
        corners.append(point)
    return at[corners], cost[corners]


def kept_tasks(step: StagedStep, lengths: Floats, is_open: Flags) -> Ints:
    """Return the node of the tasks that stay, -1 for others.

    Whole tasks leave, those with the least state per work first.
    """
    place = np.where((step.home >= 0) & is_open[step.home], step.home, -1)
    copied = np.zeros(len(place), dtype=np.bool_)
    copied[list(step.copies)] = True
    state = np.where(copied, 0, step.state)
    ratio = state / np.maximum(step.work, _LIGHT)
    n = len(step.nodes)
    for amount, group, most, key in (
        (step.work, step.stage * n, np.outer(lengths, step.slots).ravel(), ratio),
        (step.work, 0 * step.stage, step.slots * step.most_busy, ratio),
        (step.size, 0 * step.stage, step.memory, -step.size * ~copied),
        (step.seat, 0 * step.stage, step.seats, state),
    ):
        tasks = np.flatnonzero(place >= 0)
        pile = group[tasks] + place[tasks]
        order = np.lexsort((key[tasks], pile))
        tasks, pile = tasks[order], pile[order]
        held = np.bincount(pile, amount[tasks], len(most))
        before = np.cumsum(amount[tasks]) - amount[tasks]
        first = np.flatnonzero(np.diff(pile, prepend=-1))
        before -= np.repeat(before[first], np.diff(first, append=len(tasks)))
        leaves = (before < (held - most)[pile]) & (amount[tasks] > 0)
        place[tasks[leaves]] = -1
    return place
