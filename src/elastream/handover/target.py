"""The target's side of a handover, as a pure machine (paper 002, algorithm 1).

::

    Joining ─ accept ─> Connecting ─ rows ─> Waiting ─ offer ─> Preparing ─ kept ─> Prepared
       │                    │                   │                   │                │  │ commit
       └─ no answer, refused, aborted: Left ────┴───────────────────┘    abort: Left ┘  v
                                                                                     Owning

The target writes nothing before ``Commit``. Until the boundary is on its disk it may give up at any
time. From then on only the origin can free it, so it asks, by repeating ``Ready``, for as long as
it takes; if the origin never answers again, the origin's record says who owns the windows. The
target starts to write, and confirms, once its own record says that it owns the windows: otherwise
it could not continue after a crash. It repeats the confirmation now and then, because a restarted
origin cannot call it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.handover import events, messages
from elastream.handover.ledger import Note, Owner, Record
from elastream.handover.model import Boundary, QueryShape, Timestamps
from elastream.model.errors import ProblemError


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

Step = tuple["TargetMachine", tuple[events.Instruction, ...]]


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """State of the target's machine."""

    shape: QueryShape
    handover: str
    """Different for every attempt."""
    timing: events.Timing
    phase: TargetPhase
    now_ms: int = 0


def target_after(
    shape: QueryShape, handover: str, record: Record | None, timing: events.Timing
) -> Step:
    """Return the machine at its start, or after a crash, with its first instructions.

    ``handover`` is used for a new attempt; a record that binds the target has a name already.
    """
    if record is not None and record.query != shape.name:
        why = f"is of the query {record.query!r}, and this is {shape.name!r}; give another file"
        raise ProblemError("record", why)
    if record is None or record.state == "left":
        target = TargetMachine(shape, handover, timing, Joining(0, 0))
        return target, (events.Send(messages.Join(handover, shape)),)
    if record.state not in ("prepared", "owns") or record.boundary is None:
        raise ProblemError("record", f"is an origin's ({record.state}); the target needs its own")
    if record.state == "owns":
        owning = TargetMachine(shape, record.handover, timing, Owning(record.boundary, 0, 0))
        reason = "started again; " + _owned(record.boundary)
        note = _note(owning, "restart", "split", reason, record.boundary)
        return owning, (
            events.Activate(record.boundary),
            note,
            events.Send(messages.Taken(record.handover)),
        )
    term = record.term or ""
    phase = Prepared(term, record.boundary, 0, 0)
    bound = TargetMachine(shape, record.handover, timing, phase)
    reason = "started again before the decision was known; asks the origin"
    note = _note(bound, "restart", "undecided", reason, record.boundary)
    return bound, (note, events.Send(messages.Ready(record.handover, term, record.boundary)))


def target_step(target: TargetMachine, event: events.Event) -> Step:
    """Return the machine after the event, and the instructions for its driver."""
    if isinstance(event, events.Clock):
        return _clock(replace(target, now_ms=event.now_ms))
    if isinstance(event, events.Received):
        if event.message.handover != target.handover:
            return target, ()
        return _on_message(target, event.message)
    phase = target.phase
    if isinstance(phase, Connecting) and isinstance(event, events.FirstSeen):
        now = target.now_ms
        waiting = Waiting(phase.term, event.whole_from, now, now)
        seen = messages.Seen(target.handover, phase.term, event.whole_from)
        return replace(target, phase=waiting), (events.Send(seen),)
    if isinstance(phase, Preparing):
        if isinstance(event, events.BoundaryRefused):
            return _left(target, event.why)
        if isinstance(event, events.Kept):
            return _prepared(target, phase)
        if isinstance(event, events.KeepFailed):
            return _left(target, f"the boundary could not be written: {event.why}")
    if isinstance(phase, Prepared):
        if isinstance(event, events.Kept) and event.record.state == "owns":
            return _owning(target, phase)
        if isinstance(event, events.KeepFailed):
            return _unwritten(target, phase, event.why)
    return target, ()


def _clock(target: TargetMachine) -> Step:
    phase, now, timing = target.phase, target.now_ms, target.timing
    if isinstance(phase, Prepared):
        return _asked(target, phase)
    if isinstance(phase, Owning):
        return _reminded(target, phase)
    if not isinstance(phase, Joining | Connecting | Waiting):
        return target, ()
    if now - phase.since_ms >= timing.patience_ms:
        return _left(target, _impatience(phase, timing))
    if isinstance(phase, Connecting):
        return target, (events.Look(),)
    if now - phase.sent_ms < timing.repeat_ms:
        return target, ()
    again: messages.Message
    if isinstance(phase, Joining):
        again = messages.Join(target.handover, target.shape)
    else:
        again = messages.Seen(target.handover, phase.term, phase.whole_from)
    return replace(target, phase=replace(phase, sent_ms=now)), (events.Send(again),)


def _asked(target: TargetMachine, phase: Prepared) -> Step:
    done: list[events.Instruction] = []
    now, timing = target.now_ms, target.timing
    if now - phase.sent_ms >= timing.repeat_ms:
        phase = replace(phase, sent_ms=now)
        done.append(events.Send(messages.Ready(target.handover, phase.term, phase.boundary)))
    if now - phase.since_ms >= timing.patience_ms and not phase.in_doubt:
        phase = replace(phase, in_doubt=True)
        reason = (
            "the origin does not answer: its record says whether the windows that start at "
            f"{phase.boundary.activation} or later are the target's; nothing is put out until then"
        )
        done.append(_note(target, "doubt", "undecided", reason, phase.boundary))
    return replace(target, phase=phase), tuple(done)


def _reminded(target: TargetMachine, phase: Owning) -> Step:
    """Confirm again that the windows are taken: a restarted origin needs the confirmation."""
    now, timing = target.now_ms, target.timing
    is_recent = now - phase.since_ms < timing.reach_ms
    pause_ms = timing.remind_ms if is_recent else max(timing.remind_ms, timing.linger_ms // 10)
    if now - phase.sent_ms < pause_ms:
        return target, ()
    return replace(target, phase=replace(phase, sent_ms=now)), (
        events.Send(messages.Taken(target.handover)),
    )


def _impatience(phase: Joining | Connecting | Waiting, timing: events.Timing) -> str:
    waited = f"within {timing.patience_ms / 1000:g} s"
    if isinstance(phase, Joining):
        return f"the origin did not answer {waited}"
    if isinstance(phase, Connecting):
        return f"not every input gave a row {waited}"
    return f"no further message came from the origin {waited}"


def _on_message(target: TargetMachine, message: messages.Message) -> Step:
    phase, now = target.phase, target.now_ms
    if isinstance(phase, Joining):
        if isinstance(message, messages.Accept):
            connecting = Connecting(message.term, now)
            return replace(target, phase=connecting), (events.Connect(), events.Look())
        if isinstance(message, messages.Refuse | messages.Abort):
            return _left(target, message.why)
        return target, ()
    if isinstance(phase, Left):
        return target, ()
    if isinstance(phase, Owning):
        if isinstance(message, messages.Commit):
            return target, (events.Send(messages.Taken(target.handover)),)
        return target, ()
    if isinstance(message, messages.Abort) and message.term == phase.term:
        return _left(target, message.why)
    if (
        isinstance(phase, Waiting)
        and isinstance(message, messages.Offer)
        and message.term == phase.term
    ):
        return _considered(target, phase, message.boundary)
    if isinstance(phase, Waiting) and isinstance(message, messages.Accept):
        if message.term == phase.term:
            phase = replace(phase, since_ms=now)
        return replace(target, phase=phase), ()
    if isinstance(phase, Prepared) and isinstance(message, messages.Commit):
        return _decided(target, phase, message.boundary)
    return target, ()


def _considered(target: TargetMachine, phase: Waiting, boundary: Boundary) -> Step:
    """Accept the offer if the target sees every row that it requires."""
    inputs = len(phase.whole_from)
    fits = len(boundary.from_timestamps) == len(boundary.discards) == inputs
    if not fits or min(boundary.discards) < 0:
        return _left(target, "the boundary offered does not fit the inputs")
    for i, (start, seen) in enumerate(zip(boundary.from_timestamps, phase.whole_from, strict=True)):
        if start < seen:
            why = f"the boundary asks for rows of input {i} from {start} on, seen from {seen} on"
            return _left(target, why)
    preparing = Preparing(phase.term, boundary)
    record = Record(target.handover, target.shape.name, "prepared", boundary, term=phase.term)
    return replace(target, phase=preparing), (events.Expect(boundary), events.Keep(record))


def _prepared(target: TargetMachine, phase: Preparing) -> Step:
    now, boundary = target.now_ms, phase.boundary
    reason = f"ready for the windows that start at {boundary.activation} or later; asks the origin"
    done = (
        _note(target, "ready", "undecided", reason, boundary),
        events.Send(messages.Ready(target.handover, phase.term, boundary)),
    )
    return replace(target, phase=Prepared(phase.term, boundary, now, now)), done


def _decided(target: TargetMachine, phase: Prepared, boundary: Boundary) -> Step:
    if boundary != phase.boundary:
        return target, ()
    record = Record(target.handover, target.shape.name, "owns", boundary, term=phase.term)
    return target, (events.Keep(record),)


def _owning(target: TargetMachine, phase: Prepared) -> Step:
    boundary, now = phase.boundary, target.now_ms
    done: tuple[events.Instruction, ...] = (
        events.Activate(boundary),
        _note(target, "own", "split", _owned(boundary), boundary),
        events.Send(messages.Taken(target.handover)),
    )
    return replace(target, phase=Owning(boundary, now, now)), done


def _unwritten(target: TargetMachine, phase: Prepared, why: str) -> Step:
    """Write no output; the origin is asked again, and each answer is another attempt."""
    if phase.unwritten:
        return target, ()
    reason = f"the windows are the target's, and that cannot be written: {why}; it tries again"
    note = _note(target, "unwritten", "split", reason, phase.boundary)
    return replace(target, phase=replace(phase, unwritten=True)), (note,)


def _left(target: TargetMachine, why: str) -> Step:
    record = Record(target.handover, target.shape.name, "left", why=why)
    done: tuple[events.Instruction, ...] = (
        events.Keep(record),
        events.Disconnect(),
        _note(target, "leave", "origin", f"no window is this target's: {why}"),
        events.Send(messages.Leave(target.handover, why)),
    )
    return replace(target, phase=Left(why)), done


def _owned(boundary: Boundary) -> str:
    return (
        f"the target owns the windows that start at {boundary.activation} or later, "
        "the origin those before"
    )


def _note(
    target: TargetMachine, kind: str, owner: Owner, reason: str, boundary: Boundary | None = None
) -> events.LogNote:
    return events.LogNote(Note("target", kind, target.handover, owner, reason, boundary))
