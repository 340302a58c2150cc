"""What the loop hears and what it tells the driver to do, both as data.

Events go in, instructions come out (the idea of dask's worker state machine): the loop itself
calls nobody, so every run can be replayed from its events. An instruction that takes its time
carries a ticket, and the event that answers it carries the same one; an answer to a ticket that
nobody waits for any more is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastream.control.decisions import Decision
from elastream.control.observation import BatchObservation, Executor, TaskId
from elastream.control.planning import PlanOrder, Route

__all__ = [
    "AbandonRequested",
    "Action",
    "ActionFailed",
    "Answer",
    "BatchObserved",
    "DetachRequested",
    "Event",
    "ExecutorsChanged",
    "Grow",
    "GrowFinished",
    "Instruction",
    "Log",
    "MoveRequested",
    "Place",
    "PlaceFailed",
    "Plan",
    "PlanMade",
    "Release",
    "ReleaseFinished",
    "ScaleRequested",
    "Warm",
    "WarmFinished",
]


@dataclass(frozen=True, slots=True)
class BatchObserved:
    """A batch has committed; the next may have begun."""

    batch: BatchObservation
    executors: tuple[Executor, ...]
    """Those alive now, oldest first."""


@dataclass(frozen=True, slots=True)
class ExecutorsChanged:
    """An executor came or was lost, heard before the next batch."""

    executors: tuple[Executor, ...]
    """Those alive now, oldest first."""


@dataclass(frozen=True, slots=True)
class GrowFinished:
    """The answer to :class:`Grow`: the executors came, or the time was up."""

    ticket: int
    executors: tuple[Executor, ...]
    """Those alive now, maybe fewer than asked for."""


@dataclass(frozen=True, slots=True)
class WarmFinished:
    """The answer to :class:`Warm`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The answer to :class:`Plan`."""

    ticket: int
    route: Route


@dataclass(frozen=True, slots=True)
class ReleaseFinished:
    """The answer to :class:`Release`."""

    ticket: int


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """The runtime could not, or would not, do what a ticket asked."""

    ticket: int
    why: str


@dataclass(frozen=True, slots=True)
class PlaceFailed:
    """The runtime could not take a :class:`Place`; the next batch will show what holds."""

    why: str


@dataclass(frozen=True, slots=True)
class ScaleRequested:
    """A person asks for a number of executors, without patience and cooldown."""

    executors: int


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """A person, or a planner of theirs, asks for a placement."""

    goal: Mapping[TaskId, str]
    """The executor each of these tasks should be on; other tasks stay."""


@dataclass(frozen=True, slots=True)
class AbandonRequested:
    """Give up what is under way: what moved stays moved, the rest stays put."""

    why: str


@dataclass(frozen=True, slots=True)
class DetachRequested:
    """Leave the query alone from now on."""

    reason: str = "detached; the query runs on as it is"


@dataclass(frozen=True, slots=True)
class Grow:
    """Ask for executors."""

    ticket: int
    total: int
    """How many there should be in all."""


@dataclass(frozen=True, slots=True)
class Warm:
    """Make executors ready for state."""

    ticket: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Choose the tasks to move. Work for a planner: it may take seconds."""

    ticket: int
    order: PlanOrder
    tasks: tuple[TaskId, ...]
    """The task ids, by the order's task numbers."""
    nodes: tuple[str, ...]
    """The executor ids, by the order's node numbers."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take away executors that hold no state."""

    ticket: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Prefer these executors for these tasks, at once: between two batches."""

    wanted: Mapping[TaskId, str]


@dataclass(frozen=True, slots=True)
class Log:
    """Write a decision down."""

    decision: Decision


Answer = GrowFinished | WarmFinished | PlanMade | ReleaseFinished | ActionFailed
"""An event that carries the ticket of the action it answers."""
Event = (
    BatchObserved
    | ExecutorsChanged
    | Answer
    | PlaceFailed
    | ScaleRequested
    | MoveRequested
    | AbandonRequested
    | DetachRequested
)
Action = Grow | Warm | Plan | Release
"""An instruction that takes its time and is answered by an event with its ticket."""
Instruction = Action | Place | Log
