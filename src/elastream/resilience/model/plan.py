"""Plans of resilient placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from elastream.model.observation import TaskId


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
