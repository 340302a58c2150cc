"""A good order of many moves, one batch at a time.

A batch takes every move whose target stays within the limit (or no further over it than it was),
moves off the fullest overloaded nodes first, then by decreasing work; each move makes room at its
source, so the list is gone through until nothing more fits. Moves that fit only together, such as
those of two full nodes that exchange tasks, are found by a search: make one, and while a node is
over, make a move that leaves it, going back where that leads nowhere. Where not a single move can
be made so, the one that raises its target least is made all the same.

The search tries at most :data:`_TRIES` moves a batch; the rest takes O(r) for each time that the
list of r moves is gone through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from elastream.planners.transfer.move_order import Batch, MoveOrder

__all__ = ["greedy_batch"]

_TRIES = 2000


def greedy_batch(order: MoveOrder, loads: Sequence[int], moves: Sequence[int]) -> Batch:
    """Return the moves of the next step, at least one of ``moves``."""
    if order.admits(moves):
        return list(moves)
    batch = _GrowingBatch(order, loads, moves)
    batch.fill()
    if not batch.moves:
        batch.force()
        batch.fill()
    return sorted(batch.moves)


class _GrowingBatch:
    """The moves taken so far, and the loads they lead to."""

    def __init__(self, order: MoveOrder, loads: Sequence[int], moves: Sequence[int]) -> None:
        self.moves: set[int] = set()
        self._order = order
        self._load = list(loads)
        self._ceiling = [max(order.limit, load) for load in loads]
        self._ranked = sorted(
            moves, key=lambda m: (-self._ceiling[order.source[m]], -order.work[m], m)
        )
        self._leaving: dict[int, list[int]] = {}
        for move in self._ranked:
            self._leaving.setdefault(order.source[move], []).append(move)
        self._tasks: Counter[int] = Counter()
        self._size: Counter[int] = Counter()
        self._tries = _TRIES

    def fill(self) -> None:
        """Add moves that raise no node above its ceiling, alone or together, until none is left."""
        grown = True
        while grown:
            grown = False
            for move in self._ranked:
                if self._has_room(move) and self._excess_with(move) <= 0:
                    self._add(move)
                    grown = True
            grown = grown or any(map(self._add_together, self._ranked))

    def force(self) -> None:
        """Add the move that raises its target least, and let the target be that high."""
        move = min(self._ranked, key=self._excess_with)
        self._add(move)
        target = self._order.target[move]
        self._ceiling[target] = max(self._ceiling[target], self._load[target])

    def _has_room(self, move: int) -> bool:
        group = self._order.group(move)
        size = self._size[group] + self._order.size[move]
        return move not in self.moves and self._order.caps.admit(self._tasks[group] + 1, size)

    def _excess_with(self, move: int) -> int:
        target = self._order.target[move]
        return self._load[target] + self._order.work[move] - self._ceiling[target]

    def _add(self, move: int) -> None:
        self.moves.add(move)
        self._shift(move, 1)

    def _remove(self, move: int) -> None:
        self.moves.remove(move)
        self._shift(move, -1)

    def _shift(self, move: int, sign: int) -> None:
        order, group = self._order, self._order.group(move)
        self._load[order.source[move]] -= sign * order.work[move]
        self._load[order.target[move]] += sign * order.work[move]
        self._tasks[group] += sign
        self._size[group] += sign * order.size[move]

    def _add_together(self, move: int) -> bool:
        """Add the move and others that undo the overload it causes, or change nothing."""
        if self._tries <= 0 or not self._has_room(move):
            return False
        self._add(move)
        added, untried = [move], []
        while (over := self._first_over(added)) is not None:
            untried.append(self._candidates(over))
            while untried:
                self._tries -= 1
                other = next(untried[-1], None) if self._tries > 0 else None
                if other is not None:
                    self._add(other)
                    added.append(other)
                    break
                untried.pop()
                self._remove(added.pop())
            else:
                return False
        return True

    def _first_over(self, moves: Sequence[int]) -> int | None:
        """Return the first target of ``moves`` that is above its ceiling."""
        targets = (self._order.target[move] for move in moves)
        return next((node for node in targets if self._load[node] > self._ceiling[node]), None)

    def _candidates(self, node: int) -> Iterator[int]:
        """Yield moves off the node: the least that are enough first, then the largest."""
        excess, work = self._load[node] - self._ceiling[node], self._order.work
        leaving = [move for move in self._leaving.get(node, ()) if self._has_room(move)]
        yield from sorted((m for m in leaving if work[m] >= excess), key=lambda m: (work[m], m))
        yield from (m for m in leaving if work[m] < excess)
