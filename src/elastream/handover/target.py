"""The target's side of a handover, as a pure machine (paper 002, algorithm 1).

::

    Joining ─ accept ─> Connecting ─ rows ─> Waiting ─ offer ─> Preparing ─ kept ─> Prepared
       │                    │                   │                   │                │  │ commit
       └─ no answer, refused, aborted: Left ────┴───────────────────┘    abort: Left ┘  v
                                                                                     Owning

The target puts out nothing before ``Commit``. Until it has written the boundary down it may give up
whenever it likes. From then on it is bound: only the origin's word frees it, so it asks, by
repeating ``Ready``, for as long as it takes. If the origin never answers again, the origin's record
says who owns the windows from the boundary on, and the target's log says that this is so. It puts
windows out, and says that it has taken them, when its own record says that it owns them: else it
could not go on after a crash, with the origin gone. While it owns its windows it says so again now
and then: an origin that starts again cannot call it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.handover.events import (
    Activate,
    BoundaryRefused,
    Clock,
    Connect,
    Disconnect,
    Event,
    Expect,
    FirstSeen,
    Instruction,
    Keep,
    KeepFailed,
    Kept,
    LogNote,
    Look,
    Received,
    Send,
    Timing,
)
from elastream.handover.ledger import Note, Owner, Record
from elastream.handover.messages import (
    Abort,
    Accept,
    Commit,
    Join,
    Leave,
    Message,
    Offer,
    Ready,
    Refuse,
    Seen,
    Taken,
)
from elastream.handover.model import Boundary, QueryShape
from elastream.handover.phases import (
    Connecting,
    Joining,
    Left,
    Owning,
    Prepared,
    Preparing,
    TargetPhase,
    Waiting,
)
from elastream.model.errors import ProblemError

Step = tuple["TargetMachine", tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class TargetMachine:
    """State of the target's machine."""

    shape: QueryShape
    handover: str
    """Different for every attempt."""
    timing: Timing
    phase: TargetPhase
    now_ms: int = 0


def target_after(
    shape: QueryShape, handover: str, record: Record | None, timing: Timing | None = None
) -> Step:
    """Return the machine at its start, or after a crash, with its first instructions.

    ``handover`` is used for a new attempt; a record that binds the target has a name already.
    """
    timing = timing or Timing()
    if record is not None and record.query != shape.name:
        why = f"is of the query {record.query!r}, and this is {shape.name!r}; give another file"
        raise ProblemError("record", why)
    if record is None or record.state == "left":
        target = TargetMachine(shape, handover, timing, Joining(0, 0))
        return target, (Send(Join(handover, shape)),)
    if record.state not in ("prepared", "owns") or record.boundary is None:
        raise ProblemError("record", f"is an origin's ({record.state}); the target needs its own")
    if record.state == "owns":
        owning = TargetMachine(shape, record.handover, timing, Owning(record.boundary, 0, 0))
        reason = "started again; " + _owned(record.boundary)
        note = _note(owning, "restart", "split", reason, record.boundary)
        return owning, (Activate(record.boundary), note, Send(Taken(record.handover)))
    term = record.term or ""
    phase = Prepared(term, record.boundary, 0, 0)
    bound = TargetMachine(shape, record.handover, timing, phase)
    reason = "started again before the decision was known; asks the origin"
    note = _note(bound, "restart", "undecided", reason, record.boundary)
    return bound, (note, Send(Ready(record.handover, term, record.boundary)))


def target_step(target: TargetMachine, event: Event) -> Step:
    """Return the machine after the event, and the instructions for its driver."""
    if isinstance(event, Clock):
        return _clock(replace(target, now_ms=event.now_ms))
    if isinstance(event, Received):
        if event.message.handover != target.handover:
            return target, ()
        return _on_message(target, event.message)
    phase = target.phase
    if isinstance(phase, Connecting) and isinstance(event, FirstSeen):
        now = target.now_ms
        waiting = Waiting(phase.term, event.whole_from, now, now)
        seen = Seen(target.handover, phase.term, event.whole_from)
        return replace(target, phase=waiting), (Send(seen),)
    if isinstance(phase, Preparing):
        if isinstance(event, BoundaryRefused):
            return _left(target, event.why)
        if isinstance(event, Kept):
            return _prepared(target, phase)
        if isinstance(event, KeepFailed):
            return _left(target, f"the boundary could not be written: {event.why}")
    if isinstance(phase, Prepared):
        if isinstance(event, Kept) and event.record.state == "owns":
            return _owning(target, phase)
        if isinstance(event, KeepFailed):
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
        return target, (Look(),)
    if now - phase.sent_ms < timing.repeat_ms:
        return target, ()
    again: Message
    if isinstance(phase, Joining):
        again = Join(target.handover, target.shape)
    else:
        again = Seen(target.handover, phase.term, phase.whole_from)
    return replace(target, phase=replace(phase, sent_ms=now)), (Send(again),)


def _asked(target: TargetMachine, phase: Prepared) -> Step:
    done: list[Instruction] = []
    now, timing = target.now_ms, target.timing
    if now - phase.sent_ms >= timing.repeat_ms:
        phase = replace(phase, sent_ms=now)
        done.append(Send(Ready(target.handover, phase.term, phase.boundary)))
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
    return replace(target, phase=replace(phase, sent_ms=now)), (Send(Taken(target.handover)),)


def _impatience(phase: Joining | Connecting | Waiting, timing: Timing) -> str:
    waited = f"within {timing.patience_ms / 1000:g} s"
    if isinstance(phase, Joining):
        return f"the origin did not answer {waited}"
    if isinstance(phase, Connecting):
        return f"not every input gave a row {waited}"
    return f"the origin was not heard again {waited}"


def _on_message(target: TargetMachine, message: Message) -> Step:
    phase, now = target.phase, target.now_ms
    if isinstance(phase, Joining):
        if isinstance(message, Accept):
            connecting = Connecting(message.term, now)
            return replace(target, phase=connecting), (Connect(), Look())
        if isinstance(message, Refuse | Abort):
            return _left(target, message.why)
        return target, ()
    if isinstance(phase, Left):
        return target, ()
    if isinstance(phase, Owning):
        if isinstance(message, Commit):
            return target, (Send(Taken(target.handover)),)
        return target, ()
    if isinstance(message, Abort) and message.term == phase.term:
        return _left(target, message.why)
    if isinstance(phase, Waiting) and isinstance(message, Offer) and message.term == phase.term:
        return _considered(target, phase, message.boundary)
    if isinstance(phase, Waiting) and isinstance(message, Accept):
        heard = replace(phase, since_ms=now) if message.term == phase.term else phase
        return replace(target, phase=heard), ()
    if isinstance(phase, Prepared) and isinstance(message, Commit):
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
    return replace(target, phase=preparing), (Expect(boundary), Keep(record))


def _prepared(target: TargetMachine, phase: Preparing) -> Step:
    now, boundary = target.now_ms, phase.boundary
    reason = f"ready for the windows that start at {boundary.activation} or later; asks the origin"
    done = (
        _note(target, "ready", "undecided", reason, boundary),
        Send(Ready(target.handover, phase.term, boundary)),
    )
    return replace(target, phase=Prepared(phase.term, boundary, now, now)), done


def _decided(target: TargetMachine, phase: Prepared, boundary: Boundary) -> Step:
    if boundary != phase.boundary:
        return target, ()
    record = Record(target.handover, target.shape.name, "owns", boundary, term=phase.term)
    return target, (Keep(record),)


def _owning(target: TargetMachine, phase: Prepared) -> Step:
    boundary, now = phase.boundary, target.now_ms
    done: tuple[Instruction, ...] = (
        Activate(boundary),
        _note(target, "own", "split", _owned(boundary), boundary),
        Send(Taken(target.handover)),
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
    done: tuple[Instruction, ...] = (
        Keep(record),
        Disconnect(),
        _note(target, "leave", "origin", f"no window is this target's: {why}"),
        Send(Leave(target.handover, why)),
    )
    return replace(target, phase=Left(why)), done


def _owned(boundary: Boundary) -> str:
    return (
        f"the target owns the windows that start at {boundary.activation} or later, "
        "the origin those before"
    )


def _note(
    target: TargetMachine, kind: str, owner: Owner, reason: str, boundary: Boundary | None = None
) -> LogNote:
    return LogNote(Note("target", kind, target.handover, owner, reason, boundary))
