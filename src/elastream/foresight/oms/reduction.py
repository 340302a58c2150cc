"""The migrations of a sequence that matter, and how the others follow from them.

Model. Migration ``i`` allows the cuts ``A_i`` and counts ``w_i``, and ``w_1 >= w_2 >= ... >= 0``.
``d`` is the metric of :mod:`~elastream.foresight.ssm.partition_cost`.

*Staying is best.* Where ``P_{i-1}`` is in ``A_i``, putting it in place of ``P_i`` saves
``w_i d(P_{i-1}, P_i)`` and adds at most ``w_{i+1}`` times the same to the next migration. So a
migration can be left out if it allows all that the last one kept before it allows.

*Going early is best only among equal weights.* Where ``A_i`` includes ``A_{i+1}``, putting
``P_{i+1}`` in place of ``P_i`` saves ``w_{i+1} d(P_i, P_{i+1})`` and adds up to ``w_i`` times that.
"""

from __future__ import annotations

from collections.abc import Sequence

from elastream.foresight.oms.intervals import IntervalGraph
from elastream.foresight.ssm.cuts import Cut


def needed_steps(graphs: Sequence[IntervalGraph], current: Cut, *, falling: bool) -> list[int]:
    """Return the migrations that matter; ``falling``: each has less weight than the previous one.

    The others can stay put or, if all weights are equal, do the same as the next one that matters.
    """
    needed: list[int] = []
    for step, graph in enumerate(graphs):
        if graph.includes(graphs[needed[-1]]) if needed else graph.allows(current):
            continue
        while needed and not falling and graphs[needed[-1]].includes(graph):
            needed.pop()
        needed.append(step)
    return needed


def stretch(
    graphs: Sequence[IntervalGraph], current: Cut, needed: Sequence[int], cuts: Sequence[Cut]
) -> list[Cut]:
    """Return a cut for every migration: stay put if that is allowed, else go to the next one.

    This costs no more than ``cuts`` alone. If weights fall, the migrations left out are those that
    can stay, so no move is made earlier than in ``cuts``.
    """
    every: list[Cut] = []
    upcoming = iter(zip(needed, cuts, strict=True))
    goal_step, goal = -1, current
    for step, graph in enumerate(graphs):
        while goal_step < step and (after := next(upcoming, None)) is not None:
            goal_step, goal = after
        current = current if graph.allows(current) else goal
        every.append(current)
    return every
