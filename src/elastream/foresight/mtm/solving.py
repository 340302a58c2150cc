"""Values of a pool of partitions, exactly: policy iteration.

Papers 000 (figure 6, PMC) and 001. Model: C of partition P in state z of the chain is the
discounted state that the migrations to come are expected to move, where each chooses the successor
that is cheapest, now and later::

    U(y, P) = min over Q that serves y of  c(P, Q) + gamma C(y, Q)
    C(z, P) = sum over y of  odds(z, y) U(y, P)

This is the value of a policy that learns each size when it comes. The papers' definition 4.1 knows
the sequence beforehand, their figure 6 adds over all targets; the lab has both for comparison.

*Staying put.* c is a metric, so where P serves y, staying is optimal and no minimum is taken.

*Policy iteration.* Finding the minima is the expensive part
(:mod:`~elastream.foresight.mtm.successor_tree`). So each policy found is valued to the end, O(K) a
sweep; a sweep's change bounds the error from both sides (MacQueen). Exact to 1e-10 of all state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.runner import Runner
from elastream.foresight.mtm.successor_tree import SuccessorTree
from elastream.foresight.ssm.interval_gain import Floats, Ints

_PRECISION = 1e-10
"""Values are exact to this share of all state."""
_ROUNDING = 1e-15
"""Changes below this share of the values are rounding."""
_MOST_ROUNDS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The values of a pool and the choices that earn them; an entry for each state and member."""

    values: Floats
    """C, in ticks: what all migrations to come are expected to move, discounted."""
    successor: Ints
    """Where the next migration leads, should it be to this state."""
    onward: Floats
    """U, in ticks: what that costs, now and later."""


def solve(ground: Ground, pool: Partitions, runner: Runner) -> Solution:
    """Return the values of the pool's members; every size must be served by one of them."""
    tree = SuccessorTree(ground, pool, runner)
    serves = pool.serves(ground)[ground.size_of_state]
    infinite = np.where(serves, 0.0, np.inf)
    values = np.zeros(serves.shape)
    scale = _PRECISION * max(ground.total_state, 1)
    for _ in range(_MOST_ROUNDS):
        successor, cost = tree.cheapest(ground.gamma * values + infinite, serves)
        onward = cost + ground.gamma * np.take_along_axis(values, successor, axis=1)
        change = np.abs(ground.odds @ onward - values).max()
        if change <= scale * (1 - ground.gamma):
            break
        values = _valued(ground, cost, successor, values, scale)
    return Solution(ground.odds @ onward, successor, onward)


def _valued(ground: Ground, cost: Floats, successor: Ints, values: Floats, scale: float) -> Floats:
    """Return the values of one policy, from a guess."""
    gamma = ground.gamma
    ahead = gamma / (1 - gamma)
    while True:
        swept = ground.odds @ (cost + gamma * np.take_along_axis(values, successor, axis=1))
        change = swept - values
        least, most = float(change.min()), float(change.max())
        values = swept
        rounding = _ROUNDING * float(values.max())
        if (most - least) * ahead <= max(scale * (1 - gamma) / 8, ahead * rounding):
            shifted: Floats = values + ahead * (least + most) / 2
            return shifted
