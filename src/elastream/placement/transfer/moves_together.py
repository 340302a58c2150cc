"""Moves that fit into a step only together, such as those of two full nodes that exchange tasks.

A search with backtracking: make a move although its target is then over, and while a node is over,
make a move off it: the lightest that suffices, else the heaviest. The first moves are tried in
turn, so that a later search does not fail where an earlier one has. It tries :data:`_TRIES` moves
per step and :data:`_TRIES_IN_ALL` in total.
"""

from __future__ import annotations

from collections.abc import Iterator

from elastream.placement.transfer.growing_batch import GrowingBatch
from elastream.placement.transfer.move_order import MoveOrder

_TRIES, _TRIES_IN_ALL = 2000, 30_000


class MovesTogether:
    """The search, and the number of tries left."""

    def __init__(self, order: MoveOrder, batch: GrowingBatch) -> None:
        self._order, self._batch = order, batch
        self._turns = sorted(batch.left, key=lambda move: (-order.work[move], move))
        self._turn = 0
        self._leaving: dict[int, list[int]] = {}
        for move in self._turns:
            self._leaving.setdefault(order.source[move], []).append(move)
        self._tries, self._tries_in_all = 0, _TRIES_IN_ALL

    def begin(self) -> None:
        """Start a step."""
        self._tries = min(_TRIES, self._tries_in_all)

    def add(self) -> list[int]:
        """Add some moves to the step that together leave no node over its ceiling; return them."""
        if len(self._turns) > 2 * len(self._batch.left):
            self._turns = [move for move in self._turns if move in self._batch.left]
        for _ in range(len(self._turns)):
            if self._tries <= 0:
                break
            self._turn = (self._turn + 1) % len(self._turns)
            move = self._turns[self._turn]
            if self._may_join(move):
                added = self._completed(move)
                if added:
                    return added
        return []

    def _completed(self, first: int) -> list[int]:
        """Add the move and others that undo the overload it causes, or change nothing."""
        batch = self._batch
        self._make(first)
        added, untried = [first], []
        while (over := self._first_over(added)) is not None:
            untried.append(self._candidates(over))
            while untried:
                move = next(untried[-1], None) if self._tries > 0 else None
                if move is not None:
                    self._make(move)
                    added.append(move)
                    break
                untried.pop()
                added.pop()
                batch.take_back()
            else:
                return []
        return added

    def _make(self, move: int) -> None:
        self._tries -= 1
        self._tries_in_all -= 1
        self._batch.make(move)

    def _may_join(self, move: int) -> bool:
        return move in self._batch.left and self._batch.admits(move)

    def _first_over(self, moves: list[int]) -> int | None:
        """Return the first target of the moves that is above its ceiling."""
        batch, targets = self._batch, (self._order.target[move] for move in moves)
        return next((node for node in targets if batch.loads[node] > batch.ceiling(node)), None)

    def _candidates(self, node: int) -> Iterator[int]:
        """Yield moves off the node: the lightest that suffice first, then the largest."""
        excess, work = self._batch.loads[node] - self._batch.ceiling(node), self._order.work
        leaving = [move for move in self._leaving.get(node, ()) if self._may_join(move)]
        yield from sorted((m for m in leaving if work[m] >= excess), key=lambda m: (work[m], m))
        yield from (m for m in leaving if work[m] < excess)
