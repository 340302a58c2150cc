"""Events and instructions of the two state machines, both as data.

As in the core, events go in and instructions come out, and neither machine calls anything. A driver
carries out the instructions of a step in their order, before it processes the next event. It
answers :class:`FindBoundary`, :class:`Halt`, :class:`Keep` and :class:`Look` with the matching
event.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.handover.ledger import Note, Record
from elastream.handover.messages import Message
from elastream.handover.model import Boundary, Timestamps
from elastream.model.errors import ProblemError


@dataclass(frozen=True, slots=True)
class Timing:
    """Timeouts of a side, measured by its own clock; the clock's origin does not matter."""

    repeat_ms: int = 500
    """An unanswered message is repeated after this time."""
    patience_ms: int = 30_000
    """A side that may give up does so after the other was silent for this time."""
    remind_ms: int = 5_000
    """A running target repeats at this interval that it has taken its windows; after ``reach_ms``
    less often, ten times while an origin lingers."""
    reach_ms: int = 600_000
    """How long the origin's streams may take to reach the target's first rows; row windows are not
    counted before."""
    linger_ms: int = 3_600_000
    """How long an origin that has written its last window waits for a confirmation before it ends;
    its record still shows who owns the windows."""

    def __post_init__(self) -> None:
        if not 0 < self.repeat_ms <= self.patience_ms:
            raise ProblemError("repeat_ms", "must be positive and at most patience_ms")
        if self.reach_ms < self.patience_ms:
            raise ProblemError("reach_ms", "must be at least patience_ms")


@dataclass(frozen=True, slots=True)
class Clock:
    """Time has passed."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message from the other side, or from another holder of its token."""

    message: Message


@dataclass(frozen=True, slots=True)
class BoundaryFound:
    """Answer to :class:`FindBoundary`: no output beyond it is written from now on."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class BoundaryRefused:
    """Answer to :class:`FindBoundary` or :class:`Expect`: the query cannot be split there."""

    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Answer to :class:`Keep`: the record is on disk."""

    record: Record


@dataclass(frozen=True, slots=True)
class KeepFailed:
    """Answer to :class:`Keep`: the record is not on disk."""

    why: str


@dataclass(frozen=True, slots=True)
class LastWindowProduced:
    """Origin: all output below the boundary is written."""


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """Target: every input has delivered a row."""

    whole_from: Timestamps


@dataclass(frozen=True, slots=True)
class Halted:
    """Answer to :class:`Halt`: the query has ended between two batches."""


@dataclass(frozen=True, slots=True)
class HaltFailed:
    """Answer to :class:`Halt`: the query could not be ended between two batches."""

    why: str


Event = (
    Clock
    | Received
    | BoundaryFound
    | BoundaryRefused
    | Kept
    | KeepFailed
    | LastWindowProduced
    | FirstSeen
    | Halted
    | HaltFailed
)


@dataclass(frozen=True, slots=True)
class Send:
    """Send this message to the other side; it may be lost."""

    message: Message


@dataclass(frozen=True, slots=True)
class Keep:
    """Write the record to disk, completely or not at all."""

    record: Record


@dataclass(frozen=True, slots=True)
class LogNote:
    """Append a line to the ownership log."""

    note: Note


@dataclass(frozen=True, slots=True)
class FindBoundary:
    """Origin: if the boundary can be determined, block output beyond it and answer with it."""

    whole_from: Timestamps


@dataclass(frozen=True, slots=True)
class ReleaseBarrier:
    """Origin: write the output that was held back, and continue."""


@dataclass(frozen=True, slots=True)
class StopAfter:
    """Origin: drop all output at or beyond the boundary, now and for good."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Halt:
    """Origin: end the query between two batches, and answer."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Origin: restart the query on its checkpoint; it is not taken over after all."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Target: start reading the inputs; write no output."""


@dataclass(frozen=True, slots=True)
class Look:
    """Target: answer with the first rows, if every input has delivered one."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Target: answer if the query cannot start at the boundary."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Activate:
    """Target: write the output at or beyond the boundary."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Target: stop reading, and never write any output."""


Instruction = (
    Send
    | Keep
    | LogNote
    | FindBoundary
    | ReleaseBarrier
    | StopAfter
    | Halt
    | GoOn
    | Connect
    | Look
    | Expect
    | Activate
    | Disconnect
)
