"""Plans of resilient placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from elastream.model.observation import TaskId

__all__ = ["FeasibleSet", "ResilientPlan"]


class FeasibleSet(NamedTuple):
    """How large the set of rates is that no node is overloaded by."""

    ratio: float
    """Its volume over that of the ideal set, both above the lower bound; between 0 and 1."""
    standard_error: float
    """Of ``ratio``, which is an estimate."""
    plane_distance: float
    """From the lower bound to the nearest node hyperplane, in the normalised space (r).

    Negative where a node is overloaded at the lower bound itself.
    """


@dataclass(frozen=True, slots=True)
class ResilientPlan:
    """Where each operator runs, and what that bears."""

    status: Literal["feasible", "unbalanced"]
    """``unbalanced``: a node is overloaded at the lower bound already."""
    allocation: tuple[int, ...]
    """The node of each operator."""
    feasible: FeasibleSet
    """Without what streams between nodes cost."""
    weights: tuple[tuple[float, ...], ...]
    """A row for each node (W): its share of each stream's load over its share of the capacity.

    0 for a stream that costs nothing and for a node that holds nothing.
    """
    with_transfer: FeasibleSet | None = None
    """With what streams between nodes cost; ``None`` where the problem says nothing of it."""

    tasks: tuple[TaskId, ...] = ()
    """The task that each operator is, where the problem names them."""
    executors: tuple[str, ...] = ()
    """The id of the executor that each node is, where the problem names them."""

    @property
    def placement(self) -> dict[TaskId, str]:
        """The executor of each task, by name; empty where the problem does not name both."""
        if not (self.tasks and self.executors):
            return {}
        nodes = zip(self.tasks, self.allocation, strict=True)
        return {task: self.executors[node] for task, node in nodes}

    @property
    def borne(self) -> FeasibleSet:
        """What the nodes bear, all that the problem tells about costs counted."""
        return self.feasible if self.with_transfer is None else self.with_transfer
