"""Candidates for the pool: likely good successors of a partition.

*Targets.* For each size as the largest that it serves, and each number l of intervals, the cheapest
partition: one run of :mod:`~elastream.foresight.ssm.interval_gain` yields all l at once, O(m n).
The cheapest target that serves n' is the optimum of single-step.

*Shifts.* A target is cheapest only for its parent. Moving one bound by a few tasks, or dropping it,
finds compromises between parents.
"""

from __future__ import annotations

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.ssm.interval_gain import (
    Floats,
    Held,
    Ints,
    Spans,
    forward,
    spans,
    trace,
)
from elastream.placement.kernel import kernel

_STRIDES = (1, 2, 3, 4, 8)
"""Numbers of tasks by which a bound is moved; the larger ones only if there are enough tasks."""
_TASKS_A_STRIDE = 20


_ANY_GAIN = -(1 << 60)
"""No gain is below this: the optimum of every number of intervals is wanted, not the best alone."""


@kernel
def fill_targets(work: Floats, held: Held, limits: Floats, most: Ints, bounds: Ints) -> int:
    """Fill in a row of bounds for each limit and number of intervals; return the number of rows.

    ``most[i]`` is the maximum number of intervals under ``limits[i]``.
    """
    m = len(work) - 1
    nothing = np.zeros(len(held.starts), np.int64)
    rows = 0
    for i in range(len(limits)):
        levels = most[i]
        span, cells = spans(work, limits[i], levels)
        if cells == 0:
            continue
        free, used = np.empty(cells, np.int64), np.empty(cells, np.int64)
        forward(held, span, free, used, nothing, _ANY_GAIN)
        cuts, match = np.empty(levels + 1, np.int64), np.empty(levels + 1, np.int64)
        for level in range(1, levels + 1):
            if span.high[level] < m or free[span.offset[level] + m] < 0:
                continue
            end = level + 1
            part = Spans(span.first, span.low[:end], span.high[:end], span.offset[:end])
            trace(held, part, free, used, free[span.offset[level] + m], cuts, match)
            bounds[rows, :] = m
            for bound in range(end):
                bounds[rows, bound] = cuts[level - bound]
            rows += 1
    return rows


def targets(ground: Ground, cut: Ints, *, size: int | None = None) -> Ints:
    """Return the bounds of the cheapest successors of ``cut``, a row each; some may be equal.

    With ``size``, a place in ``ground.sizes``, only those that serve that size.
    """
    m = ground.tasks
    limits = ground.limits[size:]
    most = np.minimum(ground.sizes if size is None else np.full_like(limits, ground.sizes[size]), m)
    most = most.astype(np.int64)
    starts = np.asarray(cut, dtype=np.int64)
    block = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    bounds = np.empty((int(most.sum()), ground.width), dtype=np.int64)
    run = fill_targets.for_operations(float(12 * m * most.sum()))
    rows = run(ground.work, Held(ground.state, starts, block), limits, most, bounds)
    return bounds[:rows]


def shifts(ground: Ground, cut: Ints) -> Ints:
    """Return the bounds of the partitions that differ from ``cut`` in one bound, a row each."""
    m = ground.tasks
    inner = np.arange(1, len(cut) - 1)
    if len(inner) == 0 or len(cut) > ground.width:
        return np.empty((0, ground.width), dtype=np.int64)
    strides = [stride for stride in _STRIDES if stride == 1 or m >= _TASKS_A_STRIDE * stride]
    steps = np.array([sign * stride for stride in strides for sign in (-1, 1)])
    moved = cut[inner][:, None] + steps
    inside = (moved > cut[inner - 1][:, None]) & (moved < cut[inner + 1][:, None])
    which, step = np.nonzero(inside)
    rows = np.full((len(which) + len(inner), ground.width), m, dtype=np.int64)
    rows[:, : len(cut)] = cut
    rows[np.arange(len(which)), inner[which]] = moved[which, step]
    for row, bound in zip(rows[len(which) :], inner, strict=True):
        row[: len(cut)] = np.append(np.delete(cut, bound), m)
    return rows


def neighbourhood(ground: Ground, partitions: Partitions) -> Partitions:
    """Return the targets and shifts of all the partitions that serve a size."""
    rows = [np.empty((0, ground.width), dtype=np.int64)]
    for index in range(len(partitions)):
        cut = partitions.bounds[index, : partitions.counts[index] + 1]
        rows += [targets(ground, cut), shifts(ground, cut)]
    found = Partitions.of_rows(np.concatenate(rows), ground.tasks)
    return found.taken(np.flatnonzero(found.serves(ground).any(axis=0)))
