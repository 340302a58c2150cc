"""Resilient placement, problem and plan: operators whose load is linear in the streams' rates.

Sections 2 and 6.1 of paper 003.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from elastream.model.checks import Number, Numbers, abbreviate, as_list, non_negatives
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId


class Arc(NamedTuple):
    """A stream from one operator to another."""

    source: int
    target: int
    transfer: tuple[float, ...]
    """CPU cycles, per unit of each variable, that it costs at both ends if they are on different
    nodes."""


@dataclass(frozen=True, slots=True)
class ResilientProblem:
    """Operators to place on nodes so that as many rates as possible are feasible."""

    load: tuple[tuple[Number, ...], ...]
    """A row for each operator: CPU cycles per unit of each variable (L^o).

    A variable is the rate of an input stream, or one that makes a load linear (section 6.2).
    """
    capacity: tuple[Number, ...]
    """CPU cycles of each node (C); a node with 0 holds nothing."""
    lower_bound: tuple[Number, ...]
    """Lowest value of each variable (B)."""
    arcs: tuple[Arc, ...] = ()
    """The streams between operators, if known."""
    fixed: tuple[Number, ...] = ()
    """CPU cycles of each operator at any rates, even at none; empty: none."""
    unplaced: tuple[tuple[Number, ...], ...] = ()
    """A row for each node: CPU cycles per unit of each variable that it needs wherever operators
    are; empty: none."""
    tasks: tuple[TaskId, ...] = ()
    """The task of each operator; empty if the operators do not belong to a running application."""
    executors: tuple[str, ...] = ()
    """The executor id of each node; empty in the same case."""

    @classmethod
    def of(
        cls,
        load: Sequence[Numbers],
        capacity: Numbers,
        lower_bound: Numbers | None = None,
        arcs: Sequence[Arc] = (),
        *,
        fixed: Numbers | None = None,
        unplaced: Sequence[Numbers] | None = None,
        tasks: Sequence[TaskId] = (),
        executors: Sequence[str] = (),
    ) -> ResilientProblem:
        """Return the validated problem; without a lower bound every rate may be 0."""
        rows = _rows(load)
        streams = len(rows[0])
        nodes = non_negatives("capacity", capacity)
        if not nodes:
            raise ProblemError("capacity", "is empty; give at least one node")
        if lower_bound is None:
            lower_bound = (0,) * streams
        least = non_negatives("lower_bound", lower_bound, length=streams)
        for i, arc in enumerate(arcs):
            if not (0 <= arc.source < len(rows) and 0 <= arc.target < len(rows)):
                raise ProblemError(
                    f"arcs[{i}]", f"{abbreviate(arc[:2])} does not name two operators"
                )
            non_negatives(f"arcs[{i}].transfer", arc.transfer, length=streams)
        always = () if fixed is None else non_negatives("fixed", fixed, length=len(rows))
        apart = () if unplaced is None else _unplaced(unplaced, len(nodes), streams)
        _check_names("tasks", tasks, len(rows), "operators")
        _check_names("executors", executors, len(nodes), "nodes")
        named = tuple(tasks), tuple(executors)
        return cls(rows, nodes, least, tuple(arcs), always, apart, *named)


class FeasibleSet(NamedTuple):
    """Size of the set of rates at which no node is overloaded."""

    ratio: float
    """Its volume over that of the ideal set, both above the lower bound; between 0 and 1."""
    standard_error: float
    """Standard error of ``ratio``, which is an estimate."""
    plane_distance: float
    """Distance from the lower bound to the nearest node hyperplane, in normalised space (r).

    Negative if a node is overloaded at the lower bound itself.
    """


@dataclass(frozen=True, slots=True)
class ResilientPlan:
    """The node of each operator, and the rates that this placement tolerates."""

    status: Literal["feasible", "unbalanced"]
    """``unbalanced``: a node is already overloaded at the lower bound."""
    allocation: tuple[int, ...]
    """The node of each operator."""
    feasible: FeasibleSet
    """Without the cost of streams between nodes."""
    weights: tuple[tuple[float, ...], ...]
    """A row for each node (W): its share of each stream's load over its share of the capacity.

    0 for a stream without cost and for a node that holds nothing.
    """
    with_transfer: FeasibleSet | None = None
    """With the cost of streams between nodes; ``None`` if the problem does not include it."""

    tasks: tuple[TaskId, ...] = ()
    """The task of each operator, if the problem names them."""
    executors: tuple[str, ...] = ()
    """The executor id of each node, if the problem names them."""

    @property
    def placement(self) -> dict[TaskId, str]:
        """The executor of each task; empty unless the problem names both."""
        if not (self.tasks and self.executors):
            return {}
        nodes = zip(self.tasks, self.allocation, strict=True)
        return {task: self.executors[node] for task, node in nodes}

    @property
    def borne(self) -> FeasibleSet:
        """The feasible set with all costs that the problem includes."""
        return self.feasible if self.with_transfer is None else self.with_transfer


def _check_names(field: str, names: Sequence[TaskId | str], expected: int, what: str) -> None:
    if names and len(names) != expected:
        raise ProblemError(field, f"has {len(names)} entries; there are {expected} {what}")
    seen: set[TaskId | str] = set()
    for i, name in enumerate(names):
        if name in seen:
            raise ProblemError(f"{field}[{i}]", f"{abbreviate(str(name))} is given twice")
        seen.add(name)


def _unplaced(unplaced: object, nodes: int, streams: int) -> tuple[tuple[Number, ...], ...]:
    rows = as_list("unplaced", unplaced)
    if len(rows) != nodes:
        raise ProblemError("unplaced", f"has {len(rows)} rows; there are {nodes} nodes")
    return tuple(non_negatives(f"unplaced[{i}]", row, length=streams) for i, row in enumerate(rows))


def _rows(load: object) -> tuple[tuple[Number, ...], ...]:
    given = as_list("load", load)
    if not given:
        raise ProblemError("load", "is empty; give at least one operator")
    first = non_negatives("load[0]", given[0])
    if not first:
        raise ProblemError("load[0]", "is empty; give at least one stream")
    rest = (
        non_negatives(f"load[{j}]", row, length=len(first)) for j, row in enumerate(given[1:], 1)
    )
    rows = (first, *rest)
    if not any(map(any, rows)):
        raise ProblemError("load", "is 0 everywhere; any placement tolerates any rates")
    return rows
