"""A good order of many moves, one step at a time.

A step makes every move whose target stays within the limit (or no further over it than it was),
moves off the fullest overloaded nodes first, then by decreasing work; then moves that fit only
together (:mod:`~elastream.placement.transfer.moves_together`). If no move is possible this way, the
one that raises its target least is made anyway.

Moves that may fit are in a heap, in that order; the others wait at their target, the lightest
first, until the target has room. So a move is examined when something has changed for it, not in
every step: O(r log r) for r moves if each step costs O(r) otherwise. To keep this bound, a step
with little room left examines :data:`_PASSED_OVER` moves for one that is small enough, and the room
of a node is offered to :data:`_RELEASED` moves at a time. A move that must raise a node is found in
O(n).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from elastream.placement.transfer.growing_batch import GrowingBatch
from elastream.placement.transfer.move_order import Batch, MoveOrder
from elastream.placement.transfer.moves_together import MovesTogether

_PASSED_OVER = 100
_RELEASED = 50

_Rank = tuple[int, int, int]
"""Minus the ceiling of the source, minus the work, and the move: the lowest goes first."""


class GreedyOrder:
    """Forms one step after the other."""

    def __init__(self, order: MoveOrder) -> None:
        self._order = order
        self._batch = GrowingBatch(order)
        self._lifted: set[int] = set()
        self._together = MovesTogether(order, self._batch)
        self._ready = [self._rank(move) for move in self._batch.left]
        heapify(self._ready)
        self._waiting: dict[int, list[tuple[int, int]]] = {}  # work and move, by target

    @property
    def left(self) -> set[int]:
        """The moves not made by any step yet."""
        return self._batch.left

    @property
    def loads(self) -> list[int]:
        """Loads of the nodes after the steps so far."""
        return self._batch.loads

    def next_batch(self) -> Batch:
        """Return the moves of the next step, at least one of the remaining."""
        batch = self._batch
        batch.begin()
        self._together.begin()
        if batch.last:
            for move in sorted(self.left):
                batch.make(move)
        else:
            self._fill()
            if not batch.made:
                self._force()
                self._fill()
        return sorted(batch.made)

    def _fill(self) -> None:
        """Add moves that raise no node above its ceiling, alone or together, until none is left."""
        while self._take_ready():
            added = self._together.add()
            if not added:
                break
            self._release(added)

    def _take_ready(self) -> bool:
        """Add all moves that fit alone; return whether the step may have room for others."""
        batch = self._batch
        passed: list[_Rank] = []
        most = _PASSED_OVER if self._order.caps.per == "batch" else len(batch.left)
        while self._ready and len(passed) <= most and not batch.full:
            rank = heappop(self._ready)
            move = rank[-1]
            if move not in batch.left:
                continue
            if rank != self._rank(move):
                heappush(self._ready, self._rank(move))
            elif not batch.admits(move):
                passed.append(rank)
            elif batch.excess(move) > 0:
                self._wait(move)
            else:
                batch.make(move)
                self._release([move])
        for rank in passed:
            heappush(self._ready, rank)
        return not batch.full and (self._order.caps.per == "node" or not passed)

    def _force(self) -> None:
        """Add the move that raises its target least, and raise the ceiling of its target."""
        waiting = [move for node in self._waiting if (move := self._lightest(node)) is not None]
        move = min(waiting, key=lambda move: (self._batch.excess(move), move))
        self._batch.make(move)
        self._batch.lift(self._order.target[move])
        self._lifted.add(self._order.target[move])
        self._release([move])

    def _wait(self, move: int) -> None:
        waiting = self._waiting.setdefault(self._order.target[move], [])
        heappush(waiting, (self._order.work[move], move))

    def _lightest(self, node: int) -> int | None:
        """Return the lightest move that waits for room on the node."""
        waiting = self._waiting.get(node, [])
        while waiting and waiting[0][1] not in self._batch.left:
            heappop(waiting)
        return waiting[0][1] if waiting else None

    def _release(self, moves: Batch) -> None:
        """Offer the freed room on the nodes of the moves to the lightest moves waiting for it."""
        ends = {node for m in moves for node in (self._order.source[m], self._order.target[m])}
        for node in sorted(ends):
            for _ in range(_RELEASED):
                move = self._lightest(node)
                if move is None or self._batch.excess(move) > 0:
                    break
                heappop(self._waiting[node])
                heappush(self._ready, self._rank(move))

    def _rank(self, move: int) -> _Rank:
        source = self._order.source[move]
        top = self._order.limit if source in self._lifted else self._batch.ceiling(source)
        return -top, -self._order.work[move], move
