"""What nodes must shed, if tasks could be cut: a lower bound, and the best limit of each stage.

Every plan has for each stage s a length L_s, the most work on a slot of any node, and the lengths
of a query's stages sum to its limit at most. On an open node i with given lengths, tasks leave, the
cheapest per work first, until no stage has more than ``slots[i] * L_s`` there. Summed over nodes
this is convex and piecewise linear in each L_s, so the cheapest lengths are found by taking the
segments of all stages of a query in the order of their slopes: O(m log m).

Three relaxations make it a bound on any plan. *Busy*: a price on the work of a node replaces the
limit on all its work. *Open nodes*: with ``most_i`` the most node i could keep and ``pi`` any
price, node i keeps at most ``pi`` if it is open, and besides the part ``1 - pi / most_i`` of what
it keeps
at these lengths. *Memory*: from a node leave at least the bytes that are too many. A task that has
a copy leaves for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from elastream.placement.staged.step import Flags, Floats, Ints, StagedStep

_ROUNDING = 1e-9
"""Share of all state that is taken off a bound for rounding errors."""


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
    widest = parts.costs(step.most, np.zeros(n))
    choice = step.allowed < n
    most = np.maximum(0.0, parts.whole - widest)
    pis = [0.0]
    if choice:
        falling = -np.sort(-most)
        pis += [float(falling[r]) for r in sorted({step.allowed - 1, step.allowed, 0})]
        pis.append(float(falling[step.allowed - 1 : step.allowed + 1].mean()))
    best = None
    for pi in pis:
        part = np.maximum(0.0, 1 - pi / np.maximum(most, 1e-300)) if pi else np.ones(n)
        fixed = parts.lost + float(((1 - part) * parts.whole).sum()) - step.allowed * pi
        prices = np.zeros(n)
        by_size = np.zeros(n, dtype=np.bool_)
        for _ in range(2):
            lengths, least = parts.split(part * ~by_size, prices)
            bound = fixed + least + float((part * parts.excess)[by_size].sum())
            costs = np.maximum(parts.costs(lengths, prices), parts.excess)
            if best is None or bound > best[0]:
                best = (bound, lengths, parts.whole - costs)
            by_size = parts.excess > parts.costs(lengths, prices)
            prices = parts.prices(lengths)
    assert best is not None  # noqa: S101 - there is a price
    error = _ROUNDING * float(parts.lost + parts.whole.sum())
    return Shares(Fraction(max(0.0, best[0] - error)), best[1], best[2])


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
        tasks = np.flatnonzero(here & (step.work > 0))
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

    def costs(self, lengths: Floats, prices: Floats) -> Floats:
        """Return what each node sheds at least, with a price on its work."""
        gains = np.minimum(0.0, self.ratio - prices[self.node]) * self.work
        shed = np.maximum(0.0, self.ratio - prices[self.node]) * self._leaving(lengths)
        n = len(prices)
        total = np.bincount(self.node, self.work, n)
        room = np.where(prices > 0, self.step.slots * self.step.most_busy, 0.0)
        return np.bincount(self.node, gains + shed, n) + prices * (total - room)

    def split(self, part: Floats, prices: Floats) -> tuple[Floats, float]:
        """Return the best lengths, and what all nodes shed there, each counted by its ``part``."""
        step = self.step
        base = float((part * self.costs(step.least, prices)).sum())
        slope = np.maximum(0.0, self.ratio - prices[self.node]) * step.slots[self.node]
        slope *= part[self.node]
        high = (self.load - self.before) / step.slots[self.node]
        low = high - self.work / step.slots[self.node]
        low, high = (
            np.clip(end, step.least[self.stage], step.most[self.stage]) for end in (low, high)
        )
        at, change = np.concatenate([low, high]), np.concatenate([slope, -slope])
        stage = np.concatenate([self.stage, self.stage])
        order = np.lexsort((at, stage))
        at, stage, slope = at[order], stage[order], np.cumsum(change[order])[:-1]
        width = np.where(np.diff(stage) == 0, np.diff(at), 0.0)
        stage = stage[:-1]
        order = np.lexsort((-slope, step.query[stage]))
        stage, slope, width = stage[order], slope[order], width[order]
        query = step.query[stage]
        count = len(step.most_batch)
        left = np.maximum(0.0, step.most_batch - np.bincount(step.query, step.least, count))
        until = np.cumsum(width) - width
        first = np.flatnonzero(np.diff(query, prepend=-1))
        until -= np.repeat(until[first], np.diff(first, append=len(query)))
        taken = np.clip(left[query] - until, 0.0, width)
        lengths = step.least + np.bincount(stage, taken, len(step.query))
        spare = np.maximum(0.0, left - np.bincount(step.query, lengths - step.least, count))
        weight = (
            step.least / np.maximum(np.bincount(step.query, step.least, count), 1e-300)[step.query]
        )
        lengths = np.minimum(step.most, lengths + weight * spare[step.query])
        return lengths, base - float((slope * taken).sum())

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


def kept_tasks(step: StagedStep, lengths: Floats, is_open: Flags) -> Ints:
    """Return the node of the tasks that stay, -1 for others.

    Whole tasks leave, those with the least state per work first.
    """
    place = np.where((step.home >= 0) & is_open[step.home], step.home, -1)
    copied = np.zeros(len(place), dtype=np.bool_)
    copied[list(step.copies)] = True
    state = np.where(copied, 0, step.state)
    ratio = state / np.maximum(step.work, 1e-300)
    n = len(step.nodes)
    for amount, group, most, key in (
        (step.work, step.stage * n, np.outer(lengths, step.slots).ravel(), ratio),
        (step.work, 0 * step.stage, step.slots * step.most_busy, ratio),
        (step.size, 0 * step.stage, step.memory, -step.size * ~copied),
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
