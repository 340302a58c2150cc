"""What past changes teach: the sizes that followed one another, and a planner made of them.

Papers 000 (section 4.2) and 001 (section 5.2) learn a chain of sizes from past load and value every
partition by what later migrations are expected to move. Here the loop keeps each change of size,
with its time. Once enough are known, a *lesson* is worked out in the background: the chain of the
sizes, the values for the tasks as they are now, and whether it pays. The sizes of the past are gone
through once more by both planners, and the one that looks ahead is taken only where it moves no
more. Until then, and where tasks have come or gone since, changes are planned as single steps, and
the log has the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from elastream.core.goal import MadePlanner
from elastream.core.ticket import Ticket
from elastream.model.observation import TaskId

LEAST_CHANGES: Final = 4
"""Fewer changes of size than this teach nothing."""
_MOST_SIZES: Final = 2000
_NEW_CHANGES: Final = 8
"""A lesson is learnt again after this many changes since the last, or twice as many as it knew."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number of executors, and since when."""

    at_ms: int
    executors: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """All that values are made of."""

    tasks: tuple[TaskId, ...]
    work: tuple[float, ...]
    state: tuple[int, ...]
    tau: float
    sizes: tuple[int, ...]
    """Numbers of executors that followed one another, the latest last."""
    contiguous: bool = True
    """Whether tasks are to be consecutive."""
    planner: str = "transition"
    """Name of the planner that learns."""
    realtime: frozenset[str] = frozenset()
    """The queries whose operators all run at once."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a lesson came to."""

    planner: MadePlanner | None
    """``None`` where looking ahead does not pay."""
    reason: str
    """What was found, in a sentence."""
    ahead_percent: float | None = None
    """State moved a change in percent of all state, had the past been planned by the lesson."""
    single_percent: float | None = None
    """The same, had it been planned as single steps, or free ones."""


class LearningPlanner(ABC):
    """A planner that plans once it has learnt from past changes; until then another one does."""

    name: str
    """What the policy and the log call it."""
    contiguous: bool
    """Whether it needs and gives consecutive tasks on every executor."""
    until_learnt: str
    """Name of the planner that plans until then."""

    @abstractmethod
    def learn(self, lesson: Lesson, folder: Path | None, *, ticket: Ticket) -> Learnt:
        """Return what a lesson comes to; called in a thread of its own.

        ``folder`` keeps what shall outlast the application; ``None`` where nothing shall.
        """

    def for_sizes(self, sizes: Sequence[int], tau: float, gamma: float) -> MadePlanner | None:  # noqa: ARG002
        """Return a planner that knows which sizes follow; ``None`` where there is no such."""
        return None


@dataclass(frozen=True, slots=True)
class Learning:
    """What the loop has learnt so far."""

    sizes: tuple[Size, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    """The tasks of the last lesson."""
    changes: int = 0
    """How many changes of size it was made of."""
    asked: int | None = None
    """Ticket of the lesson under way."""
    learnt: Learnt | None = None

    def resized(self, at_ms: int, executors: int) -> Learning:
        """Return what is known after a change of size; the oldest is forgotten."""
        if executors == 0 or (self.sizes and self.sizes[-1].executors == executors):
            return self
        return replace(self, sizes=(*self.sizes, Size(at_ms, executors))[-_MOST_SIZES:])

    def due(self, tasks: tuple[TaskId, ...]) -> bool:
        """Whether there is something new to learn for these tasks."""
        known = len(self.sizes) - 1
        if self.asked is not None or known < LEAST_CHANGES or not tasks:
            return False
        fresh = known - self.changes
        return tasks != self.tasks or fresh >= min(_NEW_CHANGES, self.changes)


def chosen_planner(
    learning: Learning, tasks: tuple[TaskId, ...], name: str, until_then: str
) -> tuple[MadePlanner | None, str | None]:
    """Return the planner that looks ahead, or ``None`` and why it cannot be used.

    ``name`` is what the policy calls it, ``until_then`` who plans in its place.
    """
    learnt, known = learning.learnt, max(0, len(learning.sizes) - 1)
    if known < LEAST_CHANGES:
        few = f"{known} of {LEAST_CHANGES} changes of size seen"
        return None, f"{name} knows too little, {few}: {until_then}"
    if learnt is None:
        return None, f"{name} has not worked out its values yet: {until_then}"
    if learnt.planner is None:
        return None, f"{name} does not pay, {learnt.reason}: {until_then}"
    if learning.tasks != tasks:
        return None, f"{name} has values for other tasks than these: {until_then}"
    return learnt.planner, None
