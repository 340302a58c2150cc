"""The sphere bound of paper 003, section 4.2, on the volume of a feasible set, and its exact area.

For hyperplanes ``V_i y = 1`` (without a lower bound V is W) the part of a ball of radius
``r = min_i 1 / |V_i|`` with no negative coordinate lies below all of them, so the set has at least
``d! (r / 2)^d`` times the volume of the unit ball, as a part of the ideal volume.

In two dimensions the set is a polygon, so its area can be reported exactly. That is done here by
cutting the triangle ``y >= 0, sum(y) <= 1`` with one hyperplane after the other (Sutherland and
Hodgman), which shares nothing with the way volumes are estimated.
"""

from __future__ import annotations

import math

from elastream.resilience.planner.normalised import Floats


def sphere_ratio(radius: float, streams: int) -> float:
    """Return the volume of the part of a ball with no negative coordinate over the ideal one."""
    log_ball = streams / 2 * math.log(math.pi) - math.lgamma(streams / 2 + 1)
    return math.exp(log_ball + math.lgamma(streams + 1) + streams * math.log(radius / 2))


def exact_area_ratio(rows: Floats) -> float:
    """Return the exact ratio for two streams; ``rows`` (V) has two columns."""
    polygon = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    for x, y in rows.tolist():
        polygon = _cut(polygon, x, y)
    edges = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    # the sum is twice the area, and so is 1 that of the triangle
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in edges)


def _cut(polygon: list[tuple[float, float]], x: float, y: float) -> list[tuple[float, float]]:
    """Return the part of the polygon where ``x * p + y * q <= 1``."""
    kept: list[tuple[float, float]] = []
    for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        above_a, above_b = x * a[0] + y * a[1] - 1, x * b[0] + y * b[1] - 1
        if above_a <= 0:
            kept.append(a)
        if (above_a < 0 < above_b) or (above_b < 0 < above_a):
            t = above_a / (above_a - above_b)
            kept.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])))
    return kept
