"""What is next: the values by which a phase names what follows it.

A phase does not know the phases that follow; only :mod:`elastream.core.step` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from elastream.core.change import Change, Destination
from elastream.core.events import MoveRequested, ScaleRequested
from elastream.core.goal import Wanted


@dataclass(frozen=True, slots=True)
class Begin:
    """The change goes on with a phase that needs no more than the change."""

    phase: Literal["growing", "warming", "settling", "planning"]
    """Bring the executors that lack; warm those that are cold; let queries work off what their
    start held up; choose the tasks that move, from the truth of this moment."""
    change: Change


@dataclass(frozen=True, slots=True)
class BeginCopying:
    """Send state ahead of the tasks that move."""

    change: Change
    target: Destination


@dataclass(frozen=True, slots=True)
class BeginMoving:
    """Move tasks between batches, and verify each move by the next batch."""

    change: Change
    target: Destination


@dataclass(frozen=True, slots=True)
class BeginReleasing:
    """Give back executors that hold no state."""

    change: Change
    executors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reconsider:
    """Ask the goal although a change is under way; a new one ends it."""

    query: str
    """The query whose batch has just ended."""
    late: str
    """The queries that the change waits for, in words."""


@dataclass(frozen=True, slots=True)
class TakeOn:
    """Begin what the goal wants."""

    wanted: Wanted
    query: str | None
    """The query whose batch has just ended; ``None`` between batches."""


@dataclass(frozen=True, slots=True)
class TakeRequest:
    """Begin what a person asked for."""

    request: ScaleRequested | MoveRequested
    otherwise: TakeOn | None = None
    """What is next where the request is refused or has to wait."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is under way any more."""

    then: TakeRequest | TakeOn | None = None
    """What is begun at once."""


Next = (
    Begin | BeginCopying | BeginMoving | BeginReleasing | Reconsider | TakeOn | TakeRequest | Rest
)
