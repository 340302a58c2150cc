"""A pool of cuts, and the best sequence that can be composed of them.

The two copies of a step (:mod:`~elastream.foresight.oms.prices`) approach the cuts of an optimal
sequence, but seldom all at once. The pool keeps the latest cuts of each step. The best sequence
through the pools is a longest path: ``kept(i, Q) = max over P of kept(i - 1, P) + stays(P, Q)``. A
step may also use the cuts of its neighbours that it allows, and the current cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from elastream.foresight.oms.chain import Chain
from elastream.foresight.oms.prices import Copies
from elastream.foresight.ssm.cuts import Cut
from elastream.foresight.ssm.interval_gain import Ints
from elastream.foresight.ssm.partition_cost import kept_state
from elastream.placement.kernel import kernel


@kernel
def best_links(
    old_sums: Ints,
    old_lengths: Ints,
    old_kept: Ints,
    new_sums: Ints,
    new_lengths: Ints,
    kept: Ints,
    link: Ints,
) -> None:
    """Fill in for each new cut the most state kept up to it, and from which old cut.

    A row of ``old_sums`` and ``new_sums`` holds the prefix sums of the state at a cut's bounds.
    """
    for j in range(len(new_lengths)):
        new = new_sums[j, : new_lengths[j]]
        kept[j] = -1
        for i in range(len(old_lengths)):
            value = old_kept[i] + kept_state(old_sums[i, : old_lengths[i]], new)
            if value > kept[j]:
                kept[j] = value
                link[j] = i


class CutPool:
    """The latest cuts of every step, up to a number of each."""

    def __init__(self, chain: Chain, size: int) -> None:
        self._chain = chain
        self._size = size
        self._bounds = [graph.bounds for graph in chain.graphs]
        self._cuts: list[dict[Cut, None]] = [{} for _ in chain.graphs]
        self._cuts[0][chain.current] = None

    def add(self, step: int, cut: Cut) -> None:
        """Add a cut for a step, unless it has more intervals than the step allows."""
        if len(cut) - 1 > self._chain.graphs[step].most:
            return
        pool = self._cuts[step]
        pool.pop(cut, None)
        pool[cut] = None
        if len(pool) > self._size:
            del pool[next(iter(pool))]

    def add_copies(self, copies: Copies) -> None:
        """Add the cuts with which all pairs were solved."""
        for i, pair in enumerate(copies):
            for step, closed in zip((i, i + 1), pair, strict=True):
                if step:
                    self.add(step, (0, *self._bounds[step][closed].tolist()))

    def best(self) -> tuple[int, list[Cut]]:
        """Return the most state a sequence through the pools keeps, and its cuts."""
        layers = [self._candidates(step) for step in range(len(self._cuts))]
        kept = np.zeros(1, dtype=np.int64)
        links = []
        for state, (old, new) in zip(self._chain.states, pairwise(layers), strict=True):
            old_sums, old_lengths = _sums(state, old)
            new_sums, new_lengths = _sums(state, new)
            before, kept, link = kept, *np.empty((2, len(new)), dtype=np.int64)
            operations = 5.0 * len(old) * len(new) * (old_sums.shape[1] + new_sums.shape[1])
            run = best_links.for_operations(operations)
            run(old_sums, old_lengths, before, new_sums, new_lengths, kept, link)
            links.append(link)
        at = int(np.argmax(kept))
        most, cuts = int(kept[at]), []
        for layer, link in zip(reversed(layers), reversed(links), strict=False):
            cuts.append(layer[at])
            at = int(link[at])
        return most, cuts[::-1]

    def _candidates(self, step: int) -> list[Cut]:
        if step == 0:
            return [self._chain.current]
        graph = self._chain.graphs[step]
        found = dict(self._cuts[step])
        for pool in (self._cuts[0], *self._cuts[max(step - 1, 1) : step + 2]):
            found |= {cut: None for cut in pool if cut not in found and graph.allows(cut)}
        return list(found)


def _sums(state: Ints, cuts: Sequence[Cut]) -> tuple[Ints, Ints]:
    """Return the prefix sums at the bounds of each cut, a row each, and how many a row has."""
    lengths = np.array([len(cut) for cut in cuts])
    sums = np.zeros((len(cuts), int(lengths.max())), dtype=np.int64)
    for row, cut in zip(sums, cuts, strict=True):
        row[: len(cut)] = state[list(cut)]
    return sums, lengths
