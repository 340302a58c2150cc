"""The phases of a handover: what a side knows at each point.

The machines of :mod:`~elastream.handover.origin` and :mod:`~elastream.handover.target` move from
one to the next. All times are by the side's own clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.handover.model import Boundary, Timestamps


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
    """The boundary is being determined; row windows wait for a row that the target sees."""

    handover: str
    since_ms: int
    heard_ms: int
    """Time of the target's last message; it repeats them until it has an offer."""
    whole_from: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Offered:
    """The boundary is offered, and no output beyond it is written."""

    handover: str
    since_ms: int
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Committing:
    """The decision is being written to disk."""

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
    """The target has confirmed."""
    silent: bool = False
    """The missing confirmation has been logged."""
    finished_ms: int | None = None
    """Time at which the last window was written."""
    ended: bool = False
    """There is no confirmation, and the origin has stopped waiting."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """The query halts, and its record is being written to disk."""

    handover: str


@dataclass(frozen=True, slots=True)
class Yielded:
    """The checkpoint belongs to its requester; this side is done."""

    handover: str


OriginPhase = Serving | Accepted | Bounding | Offered | Committing | Committed | Yielding | Yielded


@dataclass(frozen=True, slots=True)
class Joining:
    """Waiting for the origin's answer to the join."""

    since_ms: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Connecting:
    """The inputs are read until each has delivered a row."""

    term: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The origin determines the boundary."""

    term: str
    whole_from: Timestamps
    since_ms: int
    """Time of the origin's last message."""
    sent_ms: int


@dataclass(frozen=True, slots=True)
class Preparing:
    """The boundary is being written to disk."""

    term: str
    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Prepared:
    """Committed to the boundary: the origin decides."""

    term: str
    boundary: Boundary
    since_ms: int
    sent_ms: int
    in_doubt: bool = False
    """The missing answer of the origin has been logged."""
    unwritten: bool = False
    """It has been logged that the commit cannot be written."""


@dataclass(frozen=True, slots=True)
class Owning:
    """The windows from the boundary on are the target's."""

    boundary: Boundary
    since_ms: int
    sent_ms: int
    """Time of its last confirmation."""


@dataclass(frozen=True, slots=True)
class Left:
    """No handover; the target writes no output."""

    why: str


TargetPhase = Joining | Connecting | Waiting | Preparing | Prepared | Owning | Left
