"""Partitions in bulk: their bounds as rows of one array, and what follows from them.

How many partitions serve a size is counted by paths over the bounds, so that it is known before
anything is listed: partitions of 64 tasks for 16 nodes run from 10⁴ at tau 0.2 to 10¹³ at 1.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from elastream.foresight.mtm.ground import Flags, Ground
from elastream.foresight.ssm.cuts import Cut
from elastream.foresight.ssm.interval_gain import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """Several partitions of the same tasks, no two alike."""

    bounds: Ints
    """A row each: the bounds, then the number of tasks again and again."""
    counts: Ints
    """How many intervals each has."""

    @classmethod
    def of_rows(cls, bounds: Ints, tasks: int) -> Partitions:
        """Return the partitions of the rows, equal ones once, sorted by their bounds."""
        unique = np.unique(bounds, axis=0)
        return cls(unique, (unique[:, 1:] < tasks).sum(axis=1) + 1)

    @classmethod
    def of_cuts(cls, cuts: Iterable[Sequence[int]], ground: Ground) -> Partitions:
        """Return the partitions with these bounds."""
        listed = list(dict.fromkeys(tuple(cut) for cut in cuts))
        width = max([ground.width, *map(len, listed)])
        bounds = np.full((len(listed), width), ground.tasks, dtype=np.int64)
        for row, cut in zip(bounds, listed, strict=True):
            row[: len(cut)] = cut
        return cls.of_rows(bounds, ground.tasks)

    def __len__(self) -> int:
        return len(self.counts)

    def cut(self, index: int) -> Cut:
        """Return the bounds of one."""
        return tuple(self.bounds[index, : self.counts[index] + 1].tolist())

    def taken(self, index: Ints | Flags) -> Partitions:
        """Return those at the given places, in that order."""
        return Partitions(self.bounds[index], self.counts[index])

    def followed_by(self, other: Partitions) -> Partitions:
        """Return these and then the others, which must be different ones."""
        width = max(self.bounds.shape[1], other.bounds.shape[1])
        rows = [_widened(part.bounds, width) for part in (self, other)]
        return Partitions(np.concatenate(rows), np.concatenate([self.counts, other.counts]))

    def joined(self, other: Partitions) -> Partitions:
        """Return all of them, equal ones once, sorted by their bounds."""
        both = self.followed_by(other)
        return both if len(both) == 0 else Partitions.of_rows(both.bounds, int(both.bounds[0, -1]))

    def places(self, cuts: Partitions) -> Ints:
        """Return where in these each of ``cuts`` is, -1 where it is not."""
        width = max(self.bounds.shape[1], cuts.bounds.shape[1])
        known = {row.tobytes(): i for i, row in enumerate(_widened(self.bounds, width))}
        wanted = (row.tobytes() for row in _widened(cuts.bounds, width))
        return np.array([known.get(row, -1) for row in wanted], dtype=np.int64)

    def state_sums(self, ground: Ground) -> Ints:
        """Return the state before each bound, as :func:`pair_costs` reads it."""
        return ground.state[self.bounds]

    def max_loads(self, ground: Ground) -> Floats:
        """Return the work of the heaviest interval of each."""
        loads: Floats = np.diff(ground.work[self.bounds], axis=1).max(axis=1)
        return loads

    def serves(self, ground: Ground) -> Flags:
        """Return for each size, a row, which of these serve it."""
        few = self.counts <= ground.sizes[:, None]
        light = self.max_loads(ground) <= ground.limits[:, None]
        return few & light


def count_partitions(ground: Ground) -> int:
    """Return how many partitions serve a size.

    A partition is counted at the largest size it serves: those of at most n intervals within the
    limit of n, less those within the limit of the next larger size.
    """
    total = 0
    for i, size in enumerate(ground.sizes.tolist()):
        total += _paths(ground.work, float(ground.limits[i]), size)
        if i + 1 < len(ground.sizes):
            total -= _paths(ground.work, float(ground.limits[i + 1]), size)
    return total


def all_partitions(ground: Ground) -> Partitions:
    """Return every partition that serves a size. Count them first."""
    cuts: dict[Cut, None] = {}
    for limit, size in zip(ground.limits.tolist(), ground.sizes.tolist(), strict=True):
        needed = _needed(ground.work, limit)
        cuts |= dict.fromkeys(_within(ground.work.tolist(), needed, limit, size, (0,)))
    return Partitions.of_cuts(cuts, ground)


def _widened(bounds: Ints, width: int) -> Ints:
    """Return the rows with their last bound, the number of tasks, repeated."""
    missing = width - bounds.shape[1]
    return np.pad(bounds, ((0, 0), (0, missing)), mode="edge") if missing else bounds


def _paths(work: Floats, limit: float, most: int) -> int:
    """Return how many cuts have at most ``most`` intervals, none over the limit."""
    m = len(work) - 1
    first = [int(np.argmax(work[x] - work[: x + 1] <= limit)) for x in range(m + 1)]
    ways = [1] + [0] * m
    total = 0
    for _ in range(min(most, m)):
        sums = [0]
        for way in ways:
            sums.append(sums[-1] + way)
        ways = [sums[x] - sums[first[x]] for x in range(m + 1)]
        total += ways[m]
    return total


def _needed(work: Floats, limit: float) -> list[int]:
    """Return how many intervals at least hold the tasks from each bound on."""
    m = len(work) - 1
    needed = [0] * (m + 1)
    for x in range(m - 1, -1, -1):
        stop = int(np.searchsorted(work - work[x], limit, side="right")) - 1
        needed[x] = m + 1 if stop == x else 1 + needed[stop]
    return needed


def _within(
    work: list[float], needed: list[int], limit: float, left: int, cut: Cut
) -> Iterator[Cut]:
    """Yield every way to finish the cut with ``left`` more intervals, none over the limit."""
    a, m = cut[-1], len(work) - 1
    if a == m:
        yield cut
        return
    for x in range(a + 1, m + 1):
        if work[x] - work[a] > limit:
            return
        if needed[x] < left:
            yield from _within(work, needed, limit, left - 1, (*cut, x))
