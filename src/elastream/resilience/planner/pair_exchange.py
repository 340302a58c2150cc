"""Local search for the feasible set: move or swap operators between two nodes.

The value of a placement is the mean of ``(max_i V_i u)^-d`` over a fixed set of points u (see
``feasible_set``). An exchange between nodes a and b changes only two rows of V, also if streams
between nodes have a cost. So for each pair of nodes the reach of all others, ``rest(u)``, is
computed once. All exchanges of the pair are measured together, on few points first: one whose sum
plus the most that the other points can give (``rest^-d``) falls short of the best is dropped, which
never changes the outcome. The best move or swap of the pair is applied until none is left. The
search ends when no pair has one, or the budget is spent.

If nodes are overloaded at the lower bound itself, the value is minus the sum of the overloads, so
the search removes overload first.

Cost of a pass over all pairs: at most O(n^2 (s^2 + n) d) per point, s the operators of a node.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from elastream.resilience.planner.normalised import FULL, Floats, Ints, Space

_GAIN = 1e-9
"""An exchange must gain at least this much, relative to the value."""
_TIE = 1e-12
"""Among exchanges closer than this, relative to the value, the first is taken."""
_WORTH = 8
"""Setting up an exchange takes the time of this many point visits."""
_STAGES = (0, 64, 256)
"""Points after which exchanges that fall short are dropped."""
_AT_ONCE = 4096
"""Exchanges measured together: their points take some ten megabytes."""


def improve(space: Space, points: Floats, place: Ints, budget: float) -> tuple[Ints, float, float]:
    """Return a placement that no exchange improves, its value, and the point visits used.

    ``points`` are rows on the face ``sum(u) = 1``. The search ends early once it has used
    ``budget`` visits.
    """
    search = _Search(space, points, place)
    nodes = len(space.capacity)
    pairs = [(a, b) for a in range(nodes) for b in range(a + 1, nodes)]
    clean = number = 0
    while clean < len(pairs) and search.visits < budget:
        clean = 0 if search.improve_pair(*pairs[number % len(pairs)], budget) else clean + 1
        number += 1
    value = search.reached / len(points) if search.reached > 0 else search.reached
    return search.place, value, search.visits


class _Search:
    """A placement, its loads, and the visits so far.

    The load of operators at any rates is one more stream with the constant rate 1: loads, bound
    and transfers have a column for it, points do not.
    """

    def __init__(self, space: Space, points: Floats, place: Ints) -> None:
        self.place = place.copy()
        self.visits = 0.0
        self._points = points
        self._shares = space.sizes
        self._capacity = space.capacity
        self._bound = np.append(space.bound, 1.0)
        self._room = space.room
        self._ends = space.ends if space.transfer_costs else space.ends[:0]
        transfers = space.transfers[: len(self._ends)]
        self._transfers = np.column_stack((transfers, np.zeros(len(transfers))))
        loads = np.column_stack((space.weights(place), space.taken(place)))
        self._loads = loads * space.capacity[:, None]
        rows, over = self._scaled(self._loads, self._capacity)
        reach = np.maximum((rows @ points.T).max(axis=0), 1.0)
        self.reached = -float(over.sum()) if over.any() else float(self._given(reach).sum())
        """The sum over the points, or minus the overload."""

    def improve_pair(self, a: int, b: int, budget: float) -> bool:
        """Apply the best exchange of two nodes until none gains; return whether one did."""
        others = np.setdiff1d(np.arange(len(self._capacity)), (a, b))
        rows, over = self._scaled(self._loads[others], self._capacity[others])
        rest = np.maximum((rows @ self._points.T).max(axis=0, initial=1.0), 1.0)
        self.visits += len(rest) * len(self._capacity) / 4
        improved = False
        while self.visits < budget and self._exchange(a, b, float(over.sum()), rest):
            improved = True
        return improved

    def _exchange(self, a: int, b: int, over_rest: float, rest: Floats) -> bool:
        """Apply the best exchange, if one gains; the first of all is to exchange nothing."""
        on_a, on_b = np.flatnonzero(self.place == a), np.flatnonzero(self.place == b)
        (out_a, into_b), (out_b, into_a) = self._changes(on_a, a, b), self._changes(on_b, b, a)
        together = self._between(on_a, on_b)
        loads_a = self._loads[a] + out_a[:, None] + into_a[None, :] + together
        loads_b = self._loads[b] + into_b[:, None] + out_b[None, :] + together
        shape = loads_a.shape[:2]
        loads_a, loads_b = (loads.reshape(-1, loads.shape[2]) for loads in (loads_a, loads_b))
        rows_a, over_a = self._scaled(loads_a, self._capacity[a])
        rows_b, over_b = self._scaled(loads_b, self._capacity[b])
        reached = -(over_rest + over_a + over_b)
        self.visits += _WORTH * len(reached)
        fitting = np.flatnonzero(reached == 0)
        least = self.reached + _GAIN * abs(self.reached)
        for begin in range(0, len(fitting), _AT_ONCE):
            some = fitting[begin : begin + _AT_ONCE]
            reached[some] = self._sums(rows_a[some], rows_b[some], rest, least)
            least = max(least, float(reached[some].max()))
        most = float(reached.max())
        best = int(np.flatnonzero(reached >= most - _TIE * abs(most))[0])
        if most < least or best == 0:
            return False
        self.reached = float(reached[best])
        from_a, from_b = np.unravel_index(best, shape)
        self.place[on_a[from_a - 1 : from_a]] = b
        self.place[on_b[from_b - 1 : from_b]] = a
        self._loads[a], self._loads[b] = loads_a[best], loads_b[best]
        return True

    def _sums(self, rows_a: Floats, rows_b: Floats, rest: Floats, least: float) -> Floats:
        """Return the sum over the points of each exchange; less if it does not exceed ``least``."""
        given = self._given(rest)
        found, left = np.zeros(len(rows_a)), np.arange(len(rows_a))
        stops = [stop for stop in _STAGES if stop < len(rest)] + [len(rest)]
        for begin, end in pairwise(stops):
            points = self._points[begin:end].T
            reach = np.maximum(rows_a[left] @ points, rows_b[left] @ points)
            found[left] += self._given(np.maximum(reach, rest[begin:end])).sum(axis=1)
            self.visits += reach.size
            bound = found[left] + given[end:].sum()
            goal = max(least, float(found[left].max(initial=0.0)))
            left = left[bound >= goal]
        return found

    def _changes(self, operators: Ints, source: int, target: int) -> tuple[Floats, Floats]:
        """Return what moving each operator, and first none, changes at the source and the target.

        Its own load, and its end of the arcs that cross.
        """
        number = np.full(len(self._shares), -1)
        number[operators] = np.arange(len(operators))
        at_source, at_target = -self._shares[operators], self._shares[operators]
        for mine, other in (self._ends.T, self._ends.T[::-1]) if len(self._ends) else ():
            moved = np.flatnonzero(number[mine] >= 0)
            place, transfers = self.place[other[moved]][:, None], self._transfers[moved]
            crossing = np.where(place == source, transfers, -transfers)
            np.add.at(at_source, number[mine[moved]], crossing)
            np.add.at(
                at_target, number[mine[moved]], np.where(place == target, -transfers, transfers)
            )
        none = np.zeros((1, self._shares.shape[1]))
        return np.concatenate([none, at_source]), np.concatenate([none, at_target])

    def _between(self, on_a: Ints, on_b: Ints) -> Floats:
        """Return what swapping two operators adds to both moves: an arc between them stays."""
        if not len(self._ends):
            return np.zeros((1, 1, 1))
        added = np.zeros((len(on_a) + 1, len(on_b) + 1, self._shares.shape[1]))
        first, second = np.zeros((2, len(self._shares)), dtype=np.int64)
        first[on_a], second[on_b] = np.arange(len(on_a)) + 1, np.arange(len(on_b)) + 1
        for one, other in (self._ends.T, self._ends.T[::-1]):
            joined = np.flatnonzero((first[one] > 0) & (second[other] > 0))
            np.add.at(
                added, (first[one[joined]], second[other[joined]]), 2 * self._transfers[joined]
            )
        return added

    def _scaled(self, loads: Floats, capacity: Floats) -> tuple[Floats, Floats]:
        """Return V of nodes with these loads, and their overload at the bound."""
        slack = capacity - loads @ self._bound
        full = slack <= FULL * capacity
        rows = loads[:, :-1] * (self._room / np.where(full, np.inf, slack))[:, None]
        return rows, np.where(full, FULL - slack, 0.0)

    def _given(self, reach: Floats) -> Floats:
        """Return what points with this reach add to the value."""
        inverse = 1.0 / reach
        found = inverse.copy()
        for _ in range(self._points.shape[1] - 1):
            found *= inverse
        return found
