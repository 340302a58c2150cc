"""The order of moves: the problem behind mini-migrations, in whole numbers.

An order is a sequence of batches that contains every move once. Only the loads after each batch
count; a load is over if it exceeds the limit. Orders are compared by :class:`Strain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Batch = list[int]
"""Indices of the moves that one step makes."""

Scope = Literal["node", "batch"]
"""What a cap applies to: the moves into one node in a step, or all moves of a step."""


class Strain(NamedTuple):
    """How far an order drives nodes over the limit; lower is better, first field first."""

    raised: int
    """Work by which steps raise nodes above the limit, or above their load if already over it."""
    over: int
    """Work above the limit after a step, summed over nodes and steps."""
    steps: int


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of one step."""

    tasks: int | None
    """Maximum number of tasks, at least 1; ``None`` for any number."""
    size: int | None
    """Maximum state, in units; a task that exceeds it moves alone."""
    per: Scope

    def admit(self, tasks: int, size: int) -> bool:
        """Return whether ``tasks`` tasks with ``size`` state may share a step (into one node)."""
        if self.tasks is not None and tasks > self.tasks:
            return False
        return self.size is None or tasks <= 1 or size <= self.size

    def fewest_steps(self, sizes: Sequence[int]) -> int:
        """Return the minimum number of steps for tasks of these sizes (into one node)."""
        steps = 1 if self.tasks is None else -(-len(sizes) // self.tasks)
        if self.size:
            alone = [size for size in sizes if size > self.size]
            steps = max(steps, len(alone) - (sum(alone) - sum(sizes)) // self.size)
        return steps


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """Moves to be ordered. Work and sizes are in whole units."""

    source: tuple[int, ...]
    """The node that each move leaves."""
    target: tuple[int, ...]
    """The node that each move reaches."""
    work: tuple[int, ...]
    """Work of each moved task."""
    size: tuple[int, ...]
    """State of each moved task."""
    loads: tuple[int, ...]
    """Work of each node before the first step."""
    limit: int
    """The maximum work of a node that is not over."""
    caps: Caps

    def group(self, move: int) -> int:
        """Return the cap that applies to the move: its target's, or the only one."""
        return self.target[move] if self.caps.per == "node" else 0

    def over(self, loads: Iterable[int]) -> int:
        """Return the work above the limit, summed over nodes."""
        return sum(max(0, load - self.limit) for load in loads)


class LoadChange(NamedTuple):
    """The load of a node before and after a step."""

    node: int
    before: int
    after: int

    def raised(self, limit: int) -> int:
        """Return by how much the step raises the node above the limit or its previous load."""
        return max(0, self.after - max(limit, self.before))

    def more_over(self, limit: int) -> int:
        """Return the change of the node's work above the limit by the step; may be negative."""
        return max(0, self.after - limit) - max(0, self.before - limit)


def changes(order: MoveOrder, batches: Iterable[Batch]) -> Iterator[list[LoadChange]]:
    """Yield for each batch the nodes it changes, in node order: O(moves) in total."""
    loads = list(order.loads)
    for batch in batches:
        before: dict[int, int] = {}
        for move in batch:
            source, target, work = order.source[move], order.target[move], order.work[move]
            before.setdefault(source, loads[source])
            before.setdefault(target, loads[target])
            loads[source] -= work
            loads[target] += work
        yield [LoadChange(node, before[node], loads[node]) for node in sorted(before)]


def strain_of(order: MoveOrder, batches: Sequence[Batch]) -> Strain:
    """Return the strain of making the batches one after the other."""
    raised = summed = 0
    over = order.over(order.loads)
    for changed in changes(order, batches):
        raised += sum(change.raised(order.limit) for change in changed)
        over += sum(change.more_over(order.limit) for change in changed)
        summed += over
    return Strain(raised, summed, len(batches))


def least_strain(order: MoveOrder) -> Strain:
    """Return a lower bound on the strain of any order: that of all moves at once, ignoring caps."""
    return strain_of(order, [list(range(len(order.source)))])


def fewest_steps(order: MoveOrder, moves: Iterable[int]) -> int:
    """Return a lower bound on the number of steps of any order of the moves, from the caps."""
    groups: dict[int, list[int]] = {}
    for move in moves:
        groups.setdefault(order.group(move), []).append(order.size[move])
    return max(map(order.caps.fewest_steps, groups.values()), default=0)
