"""The volume of a feasible set over that of the ideal one, by scrambled Sobol points.

The paper counts points of the ideal simplex. Here the set is measured along rays: in direction u, a
point of the face ``sum(u) = 1``, it ends at ``1 / max_i V_i u`` of the way to the ideal hyperplane,
so the ratio of the volumes is

  E[ (max_i V_i u)^-d ]    over u uniform on the face.

This has one dimension less and no jumps, which suits low-discrepancy points. They are mapped to the
face by breaking a stick. Independent scramblings give the standard error. O(points * n * d).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from elastream.resilience.planner.normalised import Floats
from elastream.resilience.planner.sobol_points import sobol_points

_SCRAMBLINGS = 8
_FIRST_LOG2, _LAST_LOG2 = 9, 16
"""Log2 of the points per scrambling: doubled until the error is small enough."""
_RELATIVE_ERROR = 1.5e-4
"""Target standard error, relative to the ratio."""
_BLOCK = 1 << 14


class VolumeRatio(NamedTuple):
    """An estimate."""

    value: float
    standard_error: float


def directions(streams: int, log2_points: int, *, seed: int) -> Floats:
    """Return ``2 ** log2_points`` points spread evenly over the face ``sum(u) = 1``, as rows."""
    if streams == 1:
        return np.ones((1, 1))
    return _broken_sticks(sobol_points(streams - 1, log2_points, seed=seed))


def ray_values(rows: Floats, points: Floats) -> Floats:
    """Return ``(max_i V_i u)^-d`` for each point u; ``rows`` is V."""
    reach = np.concatenate(
        [
            (rows @ points[begin : begin + _BLOCK].T).max(axis=0)
            for begin in range(0, len(points), _BLOCK)
        ]
    )
    values: Floats = reach ** -float(points.shape[1])
    return values


def volume_ratio(rows: Floats | None, *, seed: int = 0) -> VolumeRatio:
    """Return the ratio for node hyperplanes ``V_i y = 1``; ``None`` represents the empty set.

    The columns of V, weighted by the nodes' shares of the capacity, sum to at least 1.
    """
    if rows is None:
        return VolumeRatio(0.0, 0.0)
    streams = rows.shape[1]
    highest = rows.max(axis=0)
    if (rows == highest).all(axis=1).any():  # one node limits all rates: a simplex
        return VolumeRatio(min(float(np.prod(1.0 / highest)), 1.0), 0.0)
    for log2_points in range(_FIRST_LOG2, _LAST_LOG2 + 1):
        scramblings = range(_SCRAMBLINGS * seed, _SCRAMBLINGS * (seed + 1))
        points = (directions(streams, log2_points, seed=number) for number in scramblings)
        means = np.array([ray_values(rows, faces).mean() for faces in points])
        value = float(means.mean())
        error = float(means.std(ddof=1)) / _SCRAMBLINGS**0.5
        if error <= _RELATIVE_ERROR * value:
            break
    return VolumeRatio(min(value, 1.0), error)


def _broken_sticks(cube: Floats) -> Floats:
    """Map points of the cube in d - 1 dimensions to points uniform on the face in d."""
    parts = cube.shape[1]
    points = np.empty((len(cube), parts + 1))
    remaining = np.ones(len(cube))
    for k in range(parts):
        broken = (1.0 - cube[:, k]) ** (1.0 / (parts - k))
        points[:, k] = remaining * (1.0 - broken)
        remaining = remaining * broken
    points[:, parts] = remaining
    return points
