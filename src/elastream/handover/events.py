"""What the two machines hear and what they tell their drivers to do, both as data.

As in the control loop: events go in, instructions come out, and neither machine calls anybody. A
driver carries out the instructions of a step in their order, before it hears the next event, and
answers :class:`FindBoundary`, :class:`Halt`, :class:`Keep` and :class:`Look` with the event that
fits.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.handover.ledger import Note, Record
from elastream.handover.messages import Message
from elastream.handover.model import Boundary, Timestamps
from elastream.model.errors import ProblemError

__all__ = [
    "Activate",
    "BoundaryFound",
    "BoundaryRefused",
    "Clock",
    "Connect",
    "Disconnect",
    "Event",
    "Expect",
    "FindBoundary",
    "FirstSeen",
    "GoOn",
    "Halt",
    "HaltFailed",
    "Halted",
    "Instruction",
    "Keep",
    "KeepFailed",
    "Kept",
    "LastWindowProduced",
    "LogNote",
    "Look",
    "Received",
    "ReleaseBarrier",
    "Send",
    "StopAfter",
    "Timing",
]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a side waits; each by its own clock, whose zero is of no matter."""

    repeat_ms: int = 500
    """A message that is not answered is repeated after so long."""
    patience_ms: int = 30_000
    """A side that may give up does so after so long a silence of the other."""
    remind_ms: int = 5_000
    """A target says again that it has taken its windows after so long, for as long as it runs;
    after ``reach_ms`` more rarely, ten times while an origin lingers."""
    reach_ms: int = 600_000
    """How long the origin's streams may take to reach the target's first rows; row windows are
    not counted before."""
    linger_ms: int = 3_600_000
    """An origin that has put out its last window waits so long for a target that does not confirm,
    and ends then; its record goes on to say whose the windows are."""

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
    """The other side, or somebody with its token, says something."""

    message: Message


@dataclass(frozen=True, slots=True)
class BoundaryFound:
    """Answer to :class:`FindBoundary`: nothing beyond it is put out from now on."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class BoundaryRefused:
    """Answer to :class:`FindBoundary` or :class:`Expect`: the query cannot be cut there."""

    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Answer to :class:`Keep`: the record is on the disk."""

    record: Record


@dataclass(frozen=True, slots=True)
class KeepFailed:
    """Answer to :class:`Keep`: the record is not on the disk."""

    why: str


@dataclass(frozen=True, slots=True)
class LastWindowProduced:
    """Origin: everything below the boundary is put out."""


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """Target: every input has given a row."""

    whole_from: Timestamps


@dataclass(frozen=True, slots=True)
class Halted:
    """Answer to :class:`Halt`: the query has ended, and no batch of it was cut."""


@dataclass(frozen=True, slots=True)
class HaltFailed:
    """Answer to :class:`Halt`: the query could not be ended so."""

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
    """Say this to the other side; it may be lost."""

    message: Message


@dataclass(frozen=True, slots=True)
class Keep:
    """Write the record to the disk, whole or not at all."""

    record: Record


@dataclass(frozen=True, slots=True)
class LogNote:
    """Append a line to the ownership log."""

    note: Note


@dataclass(frozen=True, slots=True)
class FindBoundary:
    """Origin: if the boundary can be known now, bar what lies beyond it and answer with it."""

    whole_from: Timestamps


@dataclass(frozen=True, slots=True)
class ReleaseBarrier:
    """Origin: put out what was held, and go on."""


@dataclass(frozen=True, slots=True)
class StopAfter:
    """Origin: drop what lies at the boundary or beyond, now and for good."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Halt:
    """Origin: end the query between two batches, and answer."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Origin: start the query again on its checkpoint; it is not taken after all."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Target: start to read the inputs; put out nothing."""


@dataclass(frozen=True, slots=True)
class Look:
    """Target: answer with the first rows, if every input has given one."""


@dataclass(frozen=True, slots=True)
class Expect:
    """Target: answer if you cannot start at the boundary."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Activate:
    """Target: put out what lies at the boundary or beyond."""

    boundary: Boundary


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Target: read no more, and never put out anything."""


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
