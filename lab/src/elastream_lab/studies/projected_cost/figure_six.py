"""The projected cost of figure 6 of paper 000 (figure 9 of 001), line for line.

Line 7 *adds* over all target partitions P', each with the factor ``M[P, P']``. The matrix of the
papers has odds of sizes, not of partitions. Read literally, every partition of n' intervals has the
odds of n'. Then the factors of a row sum to the number of partitions, not to 1, and the iteration
of line 2 converges only if ``gamma`` times that number is below 1: for hardly any problem. Read so
that the factors of a row sum to 1, the odds of a size are spread evenly over its partitions, and
the sum is the cost of a system that goes to a random one. Neither is what the text defines
(:mod:`~elastream_lab.studies.projected_cost.hindsight`) nor what can be reached
(:mod:`~elastream.foresight.mtm.solving`).

Both are linear in the weighted sums of C over the partitions that serve each state: solving Z
equations replaces the iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.pricing import pair_costs
from elastream.foresight.ssm.interval_gain import Floats


@dataclass(frozen=True, slots=True)
class FigureSix:
    """The literal sum for one partition."""

    summed: float | None
    """With the odds of its size for every target, in bytes; ``None`` if it grows without bound."""
    growth: float
    """Growth factor of a sweep of the literal iteration; below 1 it converges."""
    drawn: float
    """With targets drawn evenly among those of a size, in bytes."""


def figure_six(ground: Ground, members: Partitions, place: int, state: int) -> FigureSix:
    """Return both readings for the member at ``place`` in ``state``; members are all there are."""
    costs = all_pair_costs(ground, members)
    serves = members.serves(ground)[ground.size_of_state].astype(np.float64)
    partitions = serves.sum(axis=1)
    growth = ground.gamma * float(
        np.abs(np.linalg.eigvals(partitions[:, None] * ground.odds)).max()
    )
    even = serves / partitions[:, None]
    summed = _valued(ground, costs, serves) if growth < 1 else None
    drawn = _valued(ground, costs, even)
    scale = ground.tick_bytes
    return FigureSix(
        summed=None if summed is None else float(summed[state, place]) * scale,
        growth=growth,
        drawn=float(drawn[state, place]) * scale,
    )


def all_pair_costs(ground: Ground, members: Partitions) -> Floats:
    """Return the cost of going from each partition to each, in ticks."""
    sums = members.state_sums(ground)
    costs = np.empty((len(members), len(members)))
    run = pair_costs.for_operations(5.0 * costs.size * sums.shape[1])
    run(sums, members.counts, sums, members.counts, costs)
    return costs


def _valued(ground: Ground, costs: Floats, weights: Floats) -> Floats:
    """Return C for every state and member, where target q of state y has ``weights[y, q]``."""
    now = ground.odds @ (weights @ costs.T)
    start = (weights * now).sum(axis=1)
    spread = weights.sum(axis=1)[:, None] * ground.odds
    totals = np.linalg.solve(np.eye(len(start)) - ground.gamma * spread, start)
    values: Floats = now + ground.gamma * (ground.odds @ totals)[:, None]
    return values
