"""From loads to odds: node counts, the migrations between them, and the migration chain.

Papers 000 and 001, section 6: the nodes that an interval needs are proportional to its tuples,
normalised into a range; the transition matrix is the normalised count of migrations from n to n'.
Two departures. *Smoothing*: each row is mixed with a kernel that halves with every node of
difference, and a size that was never left has the kernel alone. *Direction*: states may be pairs of
a size and how it was reached; rows that were never left fall back on those of the size alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from elastream.foresight.mtm.problem import Direction, MigrationChain, discount
from elastream.foresight.ssm.interval_gain import Floats
from elastream.model.checks import Number, count, non_negative, non_negatives
from elastream.model.errors import ProblemError

_KERNEL_RATIO = 0.5
"""Odds of one more node of difference in the kernel, relative to one less."""
_MOST_SIZES = 2000
"""A chain has a row and a column for each."""


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """How a chain is estimated; validated when created."""

    gamma: float = 0.8
    """Discount factor; the papers' default."""
    smoothing: float = 0.1
    """Weight of the kernel in each row, from 0 to 1."""
    directed: bool = False
    """Whether the last direction is part of the state."""

    def __post_init__(self) -> None:
        discount("gamma", self.gamma)
        if non_negative("smoothing", self.smoothing) > 1:
            raise ProblemError("smoothing", f"{self.smoothing:g} is above 1")


def node_counts(
    totals: Sequence[Number],
    least: int,
    most: int,
    *,
    low: Number | None = None,
    high: Number | None = None,
) -> tuple[int, ...]:
    """Return the number of nodes each interval needs: ``least`` at ``low``, ``most`` at ``high``.

    In between the number rises with the total, rounded to the nearest. ``low`` and ``high`` are the
    least and the greatest total unless given, for instance to make months comparable.
    """
    count("least", least, least=1)
    count("most", most, least=least)
    checked = np.array(non_negatives("totals", totals), dtype=np.float64)
    if len(checked) == 0:
        raise ProblemError("totals", "is empty; give at least one interval")
    floor = float(checked.min() if low is None else non_negative("low", low))
    ceiling = float(checked.max() if high is None else non_negative("high", high))
    if ceiling < floor:
        raise ProblemError("high", f"{ceiling:g} is below the low of {floor:g}")
    share = (checked - floor) / (ceiling - floor) if ceiling > floor else np.zeros(len(checked))
    nodes = least + np.floor(share.clip(0, 1) * (most - least) + 0.5)
    return tuple(int(n) for n in nodes)


def migrations(counts: Sequence[int]) -> tuple[int, ...]:
    """Return the consecutive node counts: equal neighbours are not a migration."""
    return (*counts[:1], *(after for before, after in pairwise(counts) if before != after))


def migration_chain(
    counts: Sequence[int], settings: ChainSettings, *, sizes: Sequence[int] | None = None
) -> MigrationChain:
    """Return the chain estimated from the migrations of ``counts``, over all sizes between them.

    ``sizes`` adds sizes that are states although they were never observed.
    """
    path = migrations(counts)
    if len(path) < 2:
        raise ProblemError("nodes", "never change; a chain needs at least one migration")
    least = min(*path, *sizes[:1]) if sizes else min(path)
    most = max(*path, *sizes[-1:]) if sizes else max(path)
    if most - least >= _MOST_SIZES:
        why = f"range from {least} to {most}; a chain has at most {_MOST_SIZES} sizes"
        raise ProblemError("nodes", why)
    seen = sorted({*path, *(sizes or ())})
    every = list(range(seen[0], seen[-1] + 1)) if sizes is None else seen
    if not settings.directed:
        matrix = _smoothed(_tallied(path, every), _kernel(every), settings.smoothing)
        return MigrationChain.of(every, list(matrix), settings.gamma)
    return _directed(path, every, settings)


def _directed(path: tuple[int, ...], sizes: list[int], settings: ChainSettings) -> MigrationChain:
    states = [(n, way) for n in sizes for way in _ways(n, sizes)]
    place = {state: z for z, state in enumerate(states)}
    by_size = _smoothed(_tallied(path, sizes), _kernel(sizes), settings.smoothing)
    tally = np.zeros((len(states), len(states)))
    for before, here, after in zip(path, path[1:], path[2:], strict=False):
        tally[place[here, _way(before, here)], place[after, _way(here, after)]] += 1
    fallback = np.zeros_like(tally)
    for z, (n, _) in enumerate(states):
        for after, odds in zip(sizes, by_size[sizes.index(n)], strict=True):
            if after != n:
                fallback[z, place[after, _way(n, after)]] = odds
    matrix = _smoothed(tally, fallback, settings.smoothing)
    return MigrationChain.of(
        [n for n, _ in states], list(matrix), settings.gamma, [way for _, way in states]
    )


def _ways(n: int, sizes: list[int]) -> tuple[Direction, ...]:
    """Return how a size can be reached: the smallest only from above, the largest from below."""
    ways: tuple[Direction, ...] = ("up", "down")
    return ways[n == sizes[0] : 1 if n == sizes[-1] else 2]


def _way(before: int, after: int) -> Direction:
    return "up" if after > before else "down"


def _tallied(path: tuple[int, ...], sizes: list[int]) -> Floats:
    tally = np.zeros((len(sizes), len(sizes)))
    for before, after in pairwise(path):
        tally[sizes.index(before), sizes.index(after)] += 1
    return tally


def _kernel(sizes: list[int]) -> Floats:
    nodes = np.array(sizes, dtype=np.float64)
    kernel = _KERNEL_RATIO ** np.abs(nodes[:, None] - nodes)
    np.fill_diagonal(kernel, 0)
    scaled: Floats = kernel / kernel.sum(axis=1, keepdims=True)
    return scaled


def _smoothed(tally: Floats, kernel: Floats, weight: float) -> Floats:
    """Return rows that sum to 1: the tally mixed with the kernel, or the kernel alone."""
    seen = tally.sum(axis=1, keepdims=True)
    rows = np.divide(tally, seen, out=np.zeros_like(tally), where=seen > 0)
    return np.where(seen > 0, (1 - weight) * rows + weight * kernel, kernel)
