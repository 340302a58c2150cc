"""The search for the best sequence of cuts: prices, a pool of cuts and proofs in turn.

Effort is counted in cells, values of the pair tables, and never timed, so that equal problems have
equal answers on any machine; an ordinary core computes 60 million compiled ones per second. First
the sweep is tried without prices: small problems need no more. Then rounds follow, each half as
long again as the previous one: the ascent lowers the bound, the pool turns its cuts into sequences,
and a sweep guided by the best prices tries to prove the rest, with a quarter of the effort of the
ascent.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from elastream.foresight.oms.chain import Chain
from elastream.foresight.oms.pool import CutPool
from elastream.foresight.oms.prices import Ascent, CutPrices, potential
from elastream.foresight.oms.sweep import sweep
from elastream.foresight.ssm.partition_cost import kept_state

_CELLS_PER_LABEL = 30
"""Time of a label of the sweep, in values."""
_CELLS_PER_PAIR = 20_000
"""Fixed overhead of a pair in each move of the prices, in values."""
_MOST_CELLS = 40_000_000
"""Larger tables are not built: they hold 8 bytes a value."""
_MOST_LABELS = 30_000_000
"""A sweep with more labels gives up: its history would take gigabytes."""
_FIRST_EFFORT = 300_000 * _CELLS_PER_LABEL
_FIRST_MOVES = 100
_GROWTH = 1.5
_PROOF_SHARE = 0.25
_POOL_SIZE = 40
_POOL_EVERY = 20


class BoundedSequence(NamedTuple):
    """A sequence and an upper bound on any sequence."""

    cuts: tuple[tuple[int, ...], ...]
    kept: int
    """State kept, weighed, in ticks."""
    bound: int
    """No sequence keeps more."""


def search(chain: Chain, cuts: Sequence[tuple[int, ...]], effort: float) -> BoundedSequence:
    """Return the best sequence found from ``cuts`` on, with this effort in cells."""
    found = _Search(chain, cuts)
    if found.cells <= _MOST_CELLS:
        found.spend(effort)
    return BoundedSequence(found.cuts, found.kept, found.bound)


class _Search:
    """The best sequence so far and the least bound so far."""

    def __init__(self, chain: Chain, cuts: Sequence[tuple[int, ...]]) -> None:
        self.chain = chain
        self.cells = chain.cells
        self.cuts = tuple(cuts)
        pairs = zip(chain.states, pairwise(map(list, (chain.current, *cuts))), strict=True)
        self.kept = sum(int(kept_state(state[old], state[new])) for state, (old, new) in pairs)
        self.bound = chain.total

    @property
    def proven(self) -> bool:
        return self.bound < self.kept + self.chain.unit

    def spend(self, effort: float) -> None:
        """Improve the sequence and the bound until they meet or the effort, in cells, is spent."""
        per_move = self.cells + _CELLS_PER_PAIR * len(self.cuts)
        effort -= self.prove(CutPrices.zero(self.chain), min(_FIRST_EFFORT, effort))
        if self.proven:
            return
        ascent, pool = Ascent(self.chain), CutPool(self.chain, _POOL_SIZE)
        for step, cut in enumerate(self.cuts, start=1):
            pool.add(step, cut)
        moves = _FIRST_MOVES
        while not (self.proven or ascent.spent) and effort >= 2 * per_move:
            share = min(moves * per_move, effort / (1 + _PROOF_SHARE))
            effort -= per_move * self.ascend(ascent, pool, int(share // per_move))
            effort -= self.prove(ascent.best, _PROOF_SHARE * share)
            moves = int(moves * _GROWTH)
        self.prove(ascent.best, effort)

    def ascend(self, ascent: Ascent, pool: CutPool, moves: int) -> int:
        """Let the prices make at most ``moves`` moves; return their number."""
        for move in range(1, moves + 1):
            pool.add_copies(ascent.move(self.kept))
            self.bound = min(self.bound, ascent.least)
            if move % _POOL_EVERY == 0 or move == moves:
                self.offer(*pool.best())
            if self.proven:
                return move
        return moves

    def prove(self, prices: CutPrices, effort: float) -> float:
        """Try to prove the sequence best or to find the best; return the effort it took."""
        labels = int(min(effort / _CELLS_PER_LABEL, _MOST_LABELS))
        if self.proven or labels == 0 or effort < self.cells:
            return 0
        guide = potential(self.chain, prices)
        self.bound = min(self.bound, guide.bound)
        outcome = sweep(self.chain, guide, self.kept, labels)
        if outcome.kept is not None:
            self.offer(outcome.kept, outcome.cuts)
        if outcome.complete:
            self.bound = self.kept
        return self.cells + _CELLS_PER_LABEL * outcome.labels

    def offer(self, kept: int, cuts: Sequence[tuple[int, ...]]) -> None:
        if kept > self.kept:
            self.kept, self.cuts = kept, tuple(cuts)
