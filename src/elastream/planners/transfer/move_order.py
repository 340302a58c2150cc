"""In which order moves are made: the question behind mini-migrations, in whole numbers.

An order is a sequence of batches that holds every move once. Only the state after each batch
counts; a load is over where it exceeds the limit. Orders are compared by :class:`Strain`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Batch", "Caps", "MoveOrder", "Scope", "Strain", "least_strain", "strain_of"]

Batch = list[int]
"""Indices of the moves that one step makes."""

Scope = Literal["node", "batch"]
"""What a cap applies to: the moves into one node in a step, or all moves of a step."""


class Strain(NamedTuple):
    """How far an order drives nodes over the limit; the lower the better, first field first."""

    raised: int
    """Work by which steps raise nodes above the limit, or above where they already were over it."""
    over: int
    """Work above the limit after a step, summed over nodes and steps."""
    steps: int


@dataclass(frozen=True, slots=True)
class Caps:
    """What one step may move."""

    tasks: int | None
    """Most tasks, at least 1; ``None`` for any number."""
    size: int | None
    """Most state, in units; a task that exceeds it alone may travel alone."""
    per: Scope

    def admit(self, tasks: int, size: int) -> bool:
        """Return whether so many tasks of so much state may share a step (into one node)."""
        if self.tasks is not None and tasks > self.tasks:
            return False
        return self.size is None or tasks <= 1 or size <= self.size


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """Moves to be put in order. Works and sizes are in whole units."""

    source: tuple[int, ...]
    """The node that each move leaves."""
    target: tuple[int, ...]
    """The node that each move reaches."""
    work: tuple[int, ...]
    """Work that each move takes along."""
    size: tuple[int, ...]
    """State that each move takes along."""
    loads: tuple[int, ...]
    """Work of each node before the first step."""
    limit: int
    """The most work of a node that is not over."""
    caps: Caps

    def group(self, move: int) -> int:
        """Return which cap the move falls under: its target's, or the only one."""
        return self.target[move] if self.caps.per == "node" else 0

    def admits(self, moves: Iterable[int]) -> bool:
        """Return whether the caps let one step make all these moves."""
        tasks: Counter[int] = Counter()
        size: Counter[int] = Counter()
        for move in moves:
            tasks[self.group(move)] += 1
            size[self.group(move)] += self.size[move]
        return all(self.caps.admit(tasks[group], size[group]) for group in tasks)

    def loads_after(self, loads: Sequence[int], moves: Iterable[int]) -> list[int]:
        """Return the loads once the moves are made."""
        after = list(loads)
        for move in moves:
            after[self.source[move]] -= self.work[move]
            after[self.target[move]] += self.work[move]
        return after

    def raised(self, before: Sequence[int], after: Sequence[int]) -> int:
        """Return by how much a step raises nodes above the limit or where they were over it."""
        return sum(
            max(0, new - max(self.limit, old)) for old, new in zip(before, after, strict=True)
        )

    def over(self, loads: Sequence[int]) -> int:
        """Return the work above the limit, summed over nodes."""
        return sum(max(0, load - self.limit) for load in loads)


def strain_of(order: MoveOrder, batches: Sequence[Batch]) -> Strain:
    """Return the strain of making the batches one after the other."""
    raised = over = 0
    loads: Sequence[int] = order.loads
    for batch in batches:
        after = order.loads_after(loads, batch)
        raised += order.raised(loads, after)
        over += order.over(after)
        loads = after
    return Strain(raised, over, len(batches))


def least_strain(order: MoveOrder) -> Strain:
    """Return a strain that no order can undercut: that of all moves at once, caps ignored."""
    return strain_of(order, [list(range(len(order.source)))])
