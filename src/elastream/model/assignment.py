"""Which node holds which task.

The papers give each node one interval of consecutive tasks; Spark lets a node hold any tasks.
:class:`Assignment` is the general form, and knows its intervals where it has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from elastream.model.checks import Number, abbreviate, count
from elastream.model.errors import ProblemError

MOST_NODES = 1_000_000
"""More nodes than this are a typing error, not a cluster."""


class Interval(NamedTuple):
    """The tasks ``lb .. ub - 1``; empty where both ends are equal."""

    lb: int
    ub: int


_EMPTY = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A node for every task. Tasks and nodes are numbered from 0; a node may be idle."""

    nodes_of_tasks: tuple[int, ...]
    """The node of each task, in ``range(nodes)``."""
    nodes: int
    """How many nodes there are, the idle ones counted."""

    @classmethod
    def from_intervals(cls, intervals: Sequence[Sequence[int]], *, tasks: int) -> Assignment:
        """Return the assignment that gives node i ``intervals[i]``.

        The intervals must tile ``range(tasks)``, in any node order.
        """
        bounds = [_interval(f"current[{i}]", pair, tasks) for i, pair in enumerate(intervals)]
        if not bounds:
            raise ProblemError("current", "has no node; give at least one interval")
        nodes_of_tasks = [0] * tasks
        covered = 0
        for lb, ub, node in sorted((lb, ub, i) for i, (lb, ub) in enumerate(bounds) if lb < ub):
            if lb > covered:
                raise ProblemError(f"current[{node}]", f"no node holds tasks [{covered}, {lb})")
            if lb < covered:
                raise ProblemError(
                    f"current[{node}]", f"[{lb}, {ub}] holds task {lb}, which another node holds"
                )
            nodes_of_tasks[lb:ub] = [node] * (ub - lb)
            covered = ub
        if covered < tasks:
            raise ProblemError("current", f"no node holds tasks [{covered}, {tasks})")
        return cls(tuple(nodes_of_tasks), len(bounds))

    @classmethod
    def from_nodes(cls, nodes_of_tasks: Sequence[int], *, nodes: int | None = None) -> Assignment:
        """Return the assignment that puts task j on ``nodes_of_tasks[j]``.

        ``nodes`` counts the idle nodes too; left out, the highest node named is the last.
        """
        most = (MOST_NODES if nodes is None else nodes) - 1
        checked = tuple(
            count(f"current[{j}]", node, most=most) for j, node in enumerate(nodes_of_tasks)
        )
        return cls(checked, max(checked, default=-1) + 1 if nodes is None else nodes)

    @property
    def intervals(self) -> tuple[Interval, ...] | None:
        """The interval of each node; ``None`` where a node's tasks are not consecutive.

        An idle node has the empty interval ``[0, 0]``.
        """
        found = [_EMPTY] * self.nodes
        lb = 0
        for node, run in groupby(self.nodes_of_tasks):
            if found[node] is not _EMPTY:
                return None
            ub = lb + len(list(run))
            found[node] = Interval(lb, ub)
            lb = ub
        return tuple(found)

    def loads(self, work: Sequence[Number]) -> list[Number]:
        """Return the sum of ``work`` over each node's tasks."""
        loads: list[Number] = [0] * self.nodes
        for node, amount in zip(self.nodes_of_tasks, work, strict=True):
            loads[node] += amount
        return loads

    def widened(self, nodes: int) -> Assignment:
        """Return the same assignment with idle nodes added until there are ``nodes``."""
        return self if nodes <= self.nodes else Assignment(self.nodes_of_tasks, nodes)


def _interval(field: str, pair: object, tasks: int) -> Interval:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise ProblemError(field, f"{abbreviate(pair)} is not an interval [lb, ub]")
    lb = count(f"{field}[0]", pair[0], most=tasks)
    ub = count(f"{field}[1]", pair[1], most=tasks)
    if lb > ub:
        raise ProblemError(field, f"[{lb}, {ub}] ends before it begins")
    return Interval(lb, ub)
