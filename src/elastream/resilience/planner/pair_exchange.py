"""Local search for the feasible set: move or swap operators between two nodes.

The value of a placement is the mean of ``(max_i V_i u)^-d`` over a fixed set of points u (see
``feasible_set``). An exchange between nodes a and b changes only two rows of V, also if streams
between nodes have a cost: an arc to a third node is paid at its other end as before. So for each
pair of nodes the reach of all others is computed once, ``rest(u) = max_i V_i u`` over i other than
a and b, and an exchange costs 2 d multiplications per point. Its evaluation stops as soon as the
points seen, plus the most the others could give (``rest^-d``), fall short of the best exchange so
far; that never changes the outcome. The best move or swap of the pair is applied until none is
left. The search ends when no pair has one, or the budget is spent.

If nodes are overloaded at the lower bound itself, the value is minus the sum of the overloads, so
the search removes overload first.

Cost of a pass over all pairs: at most O(n^2 (s^2 + n) d) per point, s the operators of a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elastream.placement.kernel import kernel
from elastream.resilience.planner.normalised import FULL, Floats, Ints, Space

_GAIN = 1e-9
"""An exchange must gain at least this much, relative to the value."""
_TIE = 1e-12
"""Among exchanges closer than this, relative to the value, the first is taken."""
_WORTH = 8
"""Setting up an exchange takes the time of this many point visits."""
_LOOKS = 300
"""Approximate number of evaluations of every exchange over the searches from all starts."""


class _Fixed(NamedTuple):
    """The part of the problem that is constant during a search, as arrays for compiled code.

    The load of operators at any rates is one more stream with the constant rate 1: shares, bound
    and transfers have a column for it, points do not.
    """

    shares: Floats
    capacity: Floats
    bound: Floats
    room: float
    points: Floats
    transfers: Floats
    ends: Ints
    arcs_of: Ints
    """The arcs of operator j are in ``arcs`` from ``arcs_of[j]`` to ``arcs_of[j + 1] - 1``."""
    arcs: Ints


@dataclass(frozen=True, slots=True, eq=False)
class PairExchange:
    """The search on one problem and one set of points."""

    space: Space
    fixed: _Fixed

    @classmethod
    def on(cls, space: Space, points: Floats) -> PairExchange:
        """Return the search; ``points`` are rows on the face ``sum(u) = 1``."""
        ends = space.ends if space.transfer_costs else space.ends[:0]
        operators = ends.T.ravel()
        arcs = np.argsort(operators, kind="stable") % max(len(ends), 1)
        degrees = np.bincount(operators, minlength=len(space.shares))
        arcs_of = np.concatenate(([0], np.cumsum(degrees))).astype(np.int64)
        fixed = _Fixed(
            np.ascontiguousarray(space.sizes),
            np.ascontiguousarray(space.capacity),
            np.append(space.bound, 1.0),
            space.room,
            points,
            np.column_stack((space.transfers, np.zeros(len(space.transfers)))),
            ends,
            arcs_of,
            arcs,
        )
        return cls(space, fixed)

    def improve(self, place: Ints, budget: float) -> tuple[Ints, float, float]:
        """Return a placement that no exchange improves, its value, and the point visits used.

        The search ends early once it has used ``budget`` visits.
        """
        improved = place.copy()
        shares = np.column_stack((self.space.weights(place), self.space.taken(place)))
        loads = shares * self.space.capacity[:, None]
        visits = _LOOKS * len(place) ** 2 * self.fixed.points.size
        value, used = _improve.for_operations(visits)(self.fixed, improved, loads, budget)
        return improved, value, used


@kernel
def _scale(fixed: _Fixed, load: Floats, node: int, row: Floats) -> float:
    """Write V of the node with this load to ``row``; return its overload at the bound."""
    at_bound = 0.0
    for k in range(len(load)):
        at_bound += load[k] * fixed.bound[k]
    slack = float(fixed.capacity[node]) - at_bound
    if slack <= FULL * fixed.capacity[node]:
        return FULL - slack
    for k in range(len(row)):
        row[k] = load[k] * fixed.room / slack
    return 0.0


@kernel
def _measure_rest(fixed: _Fixed, rows: Floats, a: int, b: int, rest: Floats, most: Floats) -> None:
    """Write the reach of the nodes other than a and b, and the most that points p.. can give."""
    points = fixed.points
    streams = points.shape[1]
    most[len(points)] = 0.0
    for p in range(len(points) - 1, -1, -1):
        reach = 1.0
        for i in range(len(rows)):
            if i != a and i != b:
                y = 0.0
                for k in range(streams):
                    y += rows[i, k] * points[p, k]
                reach = max(reach, y)
        rest[p] = reach
        most[p] = most[p + 1] + (1.0 / reach) ** streams


@kernel
def _value(
    points: Floats, row_a: Floats, row_b: Floats, rest: Floats, most: Floats, least: float
) -> tuple[float, int]:
    """Return the sum over the points, minus infinity if it cannot exceed ``least``; visits."""
    streams = points.shape[1]
    total = 0.0
    for p in range(len(points)):
        if p % 16 == 0 and total + most[p] <= least:
            return -np.inf, p
        y, z = 0.0, 0.0
        for k in range(streams):
            y += row_a[k] * points[p, k]
            z += row_b[k] * points[p, k]
        inverse = 1.0 / max(rest[p], max(y, z))
        term = inverse
        for _ in range(streams - 1):
            term *= inverse
        total += term
    return total, len(points)


@kernel
def _shift(
    fixed: _Fixed, place: Ints, j: int, target: int, load_from: Floats, load_to: Floats
) -> None:
    """Move operator j to the target: its own load, and its end of the arcs that cross."""
    source = place[j]
    streams = len(load_from)
    for k in range(streams):
        load_from[k] -= fixed.shares[j, k]
        load_to[k] += fixed.shares[j, k]
    for position in range(fixed.arcs_of[j], fixed.arcs_of[j + 1]):
        arc = fixed.arcs[position]
        other = place[fixed.ends[arc, 0] + fixed.ends[arc, 1] - j]
        before = 1.0 if other == source else -1.0
        after = -1.0 if other == target else 1.0
        for k in range(streams):
            load_from[k] += before * fixed.transfers[arc, k]
            load_to[k] += after * fixed.transfers[arc, k]
    place[j] = target


@kernel
def _best_exchange(
    fixed: _Fixed,
    place: Ints,
    loads: Floats,
    a: int,
    b: int,
    overload_rest: float,
    value: float,
    rest: Floats,
    most: Floats,
    budget: float,
) -> tuple[float, int, int, float]:
    """Return the best value, its operators of a and of b (-1 for none), and the point visits."""
    load_a, load_b = np.empty_like(loads[a]), np.empty_like(loads[b])
    row_a, row_b = np.zeros(fixed.points.shape[1]), np.zeros(fixed.points.shape[1])
    on_a, on_b = np.flatnonzero(place == a), np.flatnonzero(place == b)
    best, best_a, best_b, visits = value + _GAIN * abs(value), -1, -1, 0.0
    for position_a in range(-1, len(on_a)):
        if visits > budget:
            break
        for position_b in range(-1, len(on_b)):
            load_a[:] = loads[a]
            load_b[:] = loads[b]
            j = on_a[position_a] if position_a >= 0 else -1
            other = on_b[position_b] if position_b >= 0 else -1
            if j >= 0:
                _shift(fixed, place, j, b, load_a, load_b)
            if other >= 0:
                _shift(fixed, place, other, a, load_b, load_a)
                place[other] = b
            if j >= 0:
                place[j] = a
            overload = overload_rest + _scale(fixed, load_a, a, row_a)
            overload += _scale(fixed, load_b, b, row_b)
            reached = -overload
            visits += _WORTH
            if overload == 0.0:
                reached, seen = _value(fixed.points, row_a, row_b, rest, most, best)
                visits += seen
            if reached > best + _TIE * abs(best):
                best, best_a, best_b = reached, j, other
    return best, best_a, best_b, visits


@kernel
def _improve(fixed: _Fixed, place: Ints, loads: Floats, budget: float) -> tuple[float, float]:
    """Improve ``place`` and ``loads`` in place; return the value and the point visits."""
    nodes = len(loads)
    points = len(fixed.points)
    rows, over = np.zeros((nodes, fixed.points.shape[1])), np.zeros(nodes)
    for i in range(nodes):
        over[i] = _scale(fixed, loads[i], i, rows[i])
    rest, most = np.empty(points), np.empty(points + 1)
    value, visits, clean, a, b = 0.0, 0.0, 0, 0, nodes - 1
    while clean < max(1, nodes * (nodes - 1) // 2):
        b += 1
        if b >= nodes:
            a = a + 1 if a + 2 < nodes else 0
            b = min(a + 1, nodes - 1)
        clean += 1
        _measure_rest(fixed, rows, a, b, rest, most)
        visits += points * nodes / 4
        overload = 0.0
        for i in range(nodes):
            overload += over[i]
        overload_rest = overload - over[a] - over[b]
        value = -overload
        if value == 0.0:
            value, _ = _value(fixed.points, rows[a], rows[b], rest, most, -1.0)
        while a != b and visits < budget:
            best, j, other, seen = _best_exchange(
                fixed, place, loads, a, b, overload_rest, value, rest, most, budget - visits
            )
            visits += seen
            if j < 0 and other < 0:
                break
            if j >= 0:
                _shift(fixed, place, j, b, loads[a], loads[b])
            if other >= 0:
                _shift(fixed, place, other, a, loads[b], loads[a])
            over[a] = _scale(fixed, loads[a], a, rows[a])
            over[b] = _scale(fixed, loads[b], b, rows[b])
            value, clean = best, 0
    return (value / points if value > 0 else value), visits
