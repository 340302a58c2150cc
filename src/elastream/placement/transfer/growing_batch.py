"""A step under construction: its moves so far, the resulting loads, and what the caps still allow.

A node may hold the limit, or its load before the step if that is more: its *ceiling*. Every
operation here takes constant time per move.
"""

from __future__ import annotations

from collections import Counter

from elastream.placement.transfer.move_order import Batch, MoveOrder


class GrowingBatch:
    """One step after the other; moves of finished steps are removed from ``left``."""

    def __init__(self, order: MoveOrder) -> None:
        self.left = set(range(len(order.source)))
        self.loads = list(order.loads)
        self.made: Batch = []
        self._order = order
        self._before: dict[int, int] = {}  # loads before the step, of nodes that it changes
        self._inside, self._outside = _Tally(order), _Tally(order)
        for move in self.left:
            self._outside.add(move)

    def begin(self) -> None:
        """Finish the step and begin the next."""
        self.made = []
        self._before.clear()
        self._inside = _Tally(self._order)

    @property
    def last(self) -> bool:
        """Whether one step may make all remaining moves, before it has made any."""
        return self._outside.admitted

    @property
    def full(self) -> bool:
        """Whether the step has its maximum number of tasks, whatever nodes they go to."""
        caps = self._order.caps
        return caps.per == "batch" and caps.tasks is not None and len(self.made) >= caps.tasks

    def admits(self, move: int) -> bool:
        """Return whether the caps allow the move in the step."""
        return self._inside.admits(move)

    def ceiling(self, node: int) -> int:
        """Return the most that the node may hold after the step."""
        return max(self._order.limit, self._before.get(node, self.loads[node]))

    def excess(self, move: int) -> int:
        """Return by how much the move would put its target over the ceiling; 0 or less: it fits."""
        target = self._order.target[move]
        return self.loads[target] + self._order.work[move] - self.ceiling(target)

    def make(self, move: int) -> None:
        """Add the move to the step."""
        self.left.remove(move)
        self.made.append(move)
        self._shift(move, 1)

    def take_back(self) -> None:
        """Undo the last move of the step."""
        move = self.made.pop()
        self.left.add(move)
        self._shift(move, -1)

    def lift(self, node: int) -> None:
        """Raise the ceiling of the node to its current load."""
        self._before[node] = self.loads[node]

    def _shift(self, move: int, sign: int) -> None:
        source, target = self._order.source[move], self._order.target[move]
        for node in (source, target):
            self._before.setdefault(node, self.loads[node])
        self.loads[source] -= sign * self._order.work[move]
        self.loads[target] += sign * self._order.work[move]
        self._inside.add(move, sign)
        self._outside.add(move, -sign)


class _Tally:
    """How many tasks and how much state some moves have, under each cap."""

    def __init__(self, order: MoveOrder) -> None:
        self._order = order
        self._tasks: Counter[int] = Counter()
        self._size: Counter[int] = Counter()

    def add(self, move: int, sign: int = 1) -> None:
        group = self._order.group(move)
        self._tasks[group] += sign
        self._size[group] += sign * self._order.size[move]
        if not self._tasks[group]:
            del self._tasks[group], self._size[group]

    def admits(self, move: int) -> bool:
        """Return whether the caps let one step make the move together with these."""
        group = self._order.group(move)
        size = self._size[group] + self._order.size[move]
        return self._order.caps.admit(self._tasks[group] + 1, size)

    @property
    def admitted(self) -> bool:
        """Whether the caps let one step make all of them."""
        admit = self._order.caps.admit
        return all(admit(tasks, self._size[group]) for group, tasks in self._tasks.items())
