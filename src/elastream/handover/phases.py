"""The phases of a handover: what a side knows at each point of it, and no more.

The machines of :mod:`~elastream.handover.origin` and :mod:`~elastream.handover.target` go from one
to the next. All times are by the side's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.handover.model import Boundary, Timestamps

__all__ = [
    "Accepted",
    "Bounding",
    "Committed",
    "Committing",
    "Connecting",
    "Joining",
    "Left",
    "Offered",
    "OriginPhase",
    "Owning",
    "Prepared",
    "Preparing",
    "Serving",
    "TargetPhase",
    "Waiting",
    "Yielded",
    "Yielding",
]


@dataclass(frozen=True, slots=True)
class Serving:
    """No handover is under way."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A target connects to its inputs."""

    handover: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Bounding:
    """The boundary is looked for; row windows wait for a row that the target sees."""

    handover: str
    since_ms: int
    heard_ms: int
    """When the target last spoke; it repeats itself until it has an offer."""
    whole_from: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offered:
    """The boundary is offered, and nothing beyond it is put out."""

    handover: str
    since_ms: int
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Committing:
    """The decision is on its way to the disk."""

    handover: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Committed:
    """Decided: the origin completes its last window and is done."""

    handover: str
    boundary: Boundary
    since_ms: int
    sent_ms: int
    confirmed: bool = False
    """The target knows."""
    silent: bool = False
    """It was said in the log that the target does not confirm."""
    finished_ms: int | None = None
    """When the last window was put out."""
    ended: bool = False
    """Nobody confirms, and the origin waits no longer."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """The query halts, and that it has is on its way to the disk."""

    handover: str


@dataclass(frozen=True, slots=True)
class Yielded:
    """The checkpoint is whoever asked for it; this side is done."""

    handover: str


OriginPhase = Serving | Accepted | Bounding | Offered | Committing | Committed | Yielding | Yielded


@dataclass(frozen=True, slots=True)
class Joining:
    """The origin is asked."""

    since_ms: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Connecting:
    """The inputs are read until each has given a row."""

    term: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The origin looks for the boundary."""

    term: str
    whole_from: Timestamps
    since_ms: int
    """When the origin last spoke."""
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Preparing:
    """The boundary is on its way to the disk."""

    term: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Prepared:
    """Bound by its word: the origin decides."""

    term: str
    boundary: Boundary
    since_ms: int
    sent_ms: int
    in_doubt: bool = False
    """It was said in the log that the origin does not answer."""
    unwritten: bool = False
    """It was said in the log that the commit cannot be written down."""


@dataclass(frozen=True, slots=True)
class Owning:
    """The windows from the boundary on are the target's."""

    boundary: Boundary
    since_ms: int
    sent_ms: int
    """When it last said so."""


@dataclass(frozen=True, slots=True)
class Left:
    """No handover; the target puts out nothing."""

    why: str


TargetPhase = Joining | Connecting | Waiting | Preparing | Prepared | Owning | Left
