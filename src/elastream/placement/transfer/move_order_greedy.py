"""A good order of many moves, one step at a time.

A step makes every move whose target stays within the limit (or no further over it than it was),
moves off the fullest overloaded nodes first, then by decreasing work; then moves that fit only
together, found by a search. If no move is possible this way, the
one that raises its target least is made anyway.

Moves that may fit are in a heap, in that order; the others wait at their target, the lightest
first, until the target has room. So a move is examined when something has changed for it, not in
every step: O(r log r) for r moves if each step costs O(r) otherwise. To keep this bound, a step
with little room left examines :data:`_PASSED_OVER` moves for one that is small enough, and the room
of a node is offered to :data:`_RELEASED` moves at a time. A move that must raise a node is found in
O(n).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from elastream.placement.transfer.move_order import Batch, MoveOrder

_PASSED_OVER = 100
_RELEASED = 50
_TRIES, _TRIES_IN_ALL = 2000, 30_000
"""Moves that the search for moves together tries, in a step and in all."""

_Rank = tuple[int, int, int]
"""Minus the ceiling of the source, minus the work, and the move: the lowest goes first."""


class GreedyOrder:
    """Forms one step after the other."""

    def __init__(self, order: MoveOrder) -> None:
        self._order = order
        self._batch = _GrowingBatch(order)
        self._lifted: set[int] = set()
        self._together = _MovesTogether(order, self._batch)
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


class _GrowingBatch:
    """A step under construction; moves of finished steps are removed from ``left``.

    A node may hold the limit, or its load before the step if that is more: its *ceiling*. Every
    operation takes constant time per move.
    """

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


class _MovesTogether:
    """Moves that fit into a step only together, such as those of full nodes that exchange tasks.

    A search with backtracking: make a move although its target is then over, and while a node is
    over, make a move off it: the lightest that suffices, else the heaviest. The first moves are
    tried in turn, so that a later search does not fail where an earlier one has.
    """

    def __init__(self, order: MoveOrder, batch: _GrowingBatch) -> None:
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
