"""What the replication loop hears and what it tells its driver to do, both as data.

As in the loop that scales (:mod:`elastream.control.events`): an instruction that takes its time
carries a ticket, and so does the event that answers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastream.control.events import Log
from elastream.control.observation import BatchObservation, Executor, TaskId
from elastream.control.replication.solving import ReplicationOrder, Solved
from elastream.control.smoothing import SmoothedLoad

__all__ = [
    "Answer",
    "CarryOut",
    "CarryOutFinished",
    "DelaysMeasured",
    "Event",
    "Failed",
    "Instruction",
    "Looked",
    "PlanMade",
    "Probe",
    "Solve",
]


@dataclass(frozen=True, slots=True)
class Looked:
    """A batch has committed."""

    batch: BatchObservation
    load: SmoothedLoad
    """The load with this batch taken in."""
    executors: tuple[Executor, ...]
    """Those alive now, oldest first."""
    moving: bool
    """Whether tasks are being moved."""
    utilisation: float | None = None


@dataclass(frozen=True, slots=True)
class DelaysMeasured:
    """The answer to :class:`Probe`."""

    ticket: int
    probes: Mapping[tuple[str, str], float]
    """The round trip of every pair that answered, in milliseconds."""
    round_trips_ms: Mapping[tuple[str, str], float]
    """Between any two of the hosts."""


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The answer to :class:`Solve`."""

    ticket: int
    solved: Solved


@dataclass(frozen=True, slots=True)
class CarryOutFinished:
    """The answer to :class:`CarryOut`: it was asked for; batches show what comes of it."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Failed:
    """What a ticket asked for could not be done."""

    ticket: int
    why: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Measure the round trips of some pairs of hosts."""

    ticket: int
    hosts: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    known: Mapping[tuple[str, str], float]
    """Round trips measured before."""


@dataclass(frozen=True, slots=True)
class Solve:
    """Find the best deployment. Work for a solver: it may take seconds."""

    ticket: int
    order: ReplicationOrder


@dataclass(frozen=True, slots=True)
class CarryOut:
    """Warm the executors that have had no state, then move these tasks."""

    ticket: int
    goal: Mapping[TaskId, str]
    cold: tuple[str, ...]


Answer = DelaysMeasured | PlanMade | CarryOutFinished | Failed
Event = Looked | Answer
Instruction = Probe | Solve | CarryOut | Log
