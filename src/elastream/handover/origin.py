"""The origin's side of a handover, as a pure machine (paper 002, algorithm 2).

::

    Serving ─ join ─> Accepted ─ seen ─> Bounding ─ boundary ─> Offered ─ ready ─> Committing
       ^                 │                  │                      │                   │ kept
       └─ abort: the target is silent or leaves, the query ────────┘                   v
          cannot be cut, the record cannot be written                              Committed

    Serving ─ yield ─> Yielding ─ halted, kept ─> Yielded (:mod:`~elastream.handover.yielding`)

The commit point is the moment the record ``committed`` is on the origin's disk. Before it every
failure ends in an abort, and all windows are the origin's; after it none does. From the offer to
the decision the runtime holds back what lies beyond the boundary, so an abort loses nothing and a
commit doubles nothing. Only the target repeats its messages; the origin answers each of them again,
and repeats ``Commit`` until it is confirmed. A ``Ready`` for anything but the present offer or the
committed handover is answered with ``Abort``: what is not on the disk did not happen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from elastream.handover.events import (
    BoundaryFound,
    BoundaryRefused,
    Clock,
    Event,
    FindBoundary,
    Instruction,
    Keep,
    KeepFailed,
    Kept,
    LastWindowProduced,
    LogNote,
    Received,
    ReleaseBarrier,
    Send,
    StopAfter,
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
    Yield,
)
from elastream.handover.model import Boundary, QueryShape
from elastream.handover.phases import (
    Accepted,
    Bounding,
    Committed,
    Committing,
    Offered,
    OriginPhase,
    Serving,
    Yielded,
    Yielding,
)
from elastream.handover.yielding import asked_to_yield, expect_unyielded, yielding
from elastream.model.errors import ProblemError

Step = tuple["OriginMachine", tuple[Instruction, ...]]


@dataclass(frozen=True, slots=True)
class OriginMachine:
    """State of the origin's machine."""

    shape: QueryShape
    term: str
    """Identifies this run of the driver; a restart has another."""
    timing: Timing
    phase: OriginPhase = field(default_factory=Serving)
    now_ms: int = 0
    ended: frozenset[str] = frozenset()
    """Handovers that were aborted; they cannot start again."""

    @property
    def is_done(self) -> bool:
        """Return whether the query may stop: handed over with the last window written, or yielded.

        For a handover the target has confirmed, or had so long to confirm that the origin stops
        waiting.
        """
        phase = self.phase
        if isinstance(phase, Yielded):
            return True
        if not isinstance(phase, Committed) or phase.finished_ms is None:
            return False
        return phase.confirmed or phase.ended


def origin_after(
    shape: QueryShape, term: str, record: Record | None, timing: Timing | None = None
) -> Step:
    """Return the machine at its start, or after a crash, with its first instructions."""
    origin = OriginMachine(shape, term, timing or Timing())
    if record is None:
        return origin, ()
    if record.query != shape.name:
        why = f"is of the query {record.query!r}, and this is {shape.name!r}; give another file"
        raise ProblemError("record", why)
    if record.state == "aborted":
        return replace(origin, ended=frozenset([record.handover])), ()
    expect_unyielded(record)
    if record.state != "committed" or record.boundary is None:
        raise ProblemError("record", f"is a target's ({record.state}); the origin needs its own")
    phase = Committed(record.handover, record.boundary, 0, 0, confirmed=record.confirmed)
    origin = replace(origin, phase=phase)
    reason = "started again after the handover was committed: the origin completes what is its own"
    note = _note("restart", record.handover, "split", reason, record.boundary)
    return origin, (StopAfter(record.boundary), note)


def origin_step(origin: OriginMachine, event: Event) -> Step:
    """Return the machine after the event, and the instructions for its driver."""
    if isinstance(event, Clock):
        return _clock(replace(origin, now_ms=event.now_ms))
    if isinstance(event, Received):
        return _on_message(origin, event.message)
    phase = origin.phase
    if isinstance(phase, Bounding):
        if isinstance(event, BoundaryFound):
            return _offered(origin, phase, event.boundary)
        if isinstance(event, BoundaryRefused):
            return _aborted(origin, phase.handover, event.why)
    if isinstance(phase, Committing):
        if isinstance(event, Kept):
            return _committed(origin, phase)
        if isinstance(event, KeepFailed):
            why = f"the decision could not be written: {event.why}"
            return _aborted(origin, phase.handover, why)
    if isinstance(phase, Yielding):
        after, done = yielding(origin.shape.name, origin.term, phase, event)
        return replace(origin, phase=after), done
    if isinstance(phase, Committed):
        if isinstance(event, LastWindowProduced):
            return _finished(origin, phase)
        if isinstance(event, Kept) and event.record.confirmed:
            reason = "the target has confirmed"
            note = _note("confirm", phase.handover, "split", reason, phase.boundary)
            return replace(origin, phase=replace(phase, confirmed=True)), (note,)
    return origin, ()


def _clock(origin: OriginMachine) -> Step:
    phase, now, timing = origin.phase, origin.now_ms, origin.timing
    if isinstance(phase, Accepted | Bounding | Offered):
        why = _impatience(phase, now, timing)
        if why is not None:
            return _aborted(origin, phase.handover, why)
        if isinstance(phase, Bounding):
            return origin, (FindBoundary(phase.whole_from),)
    if not isinstance(phase, Committed) or phase.confirmed:
        return origin, ()
    done: list[Instruction] = []
    if now - phase.sent_ms >= timing.repeat_ms:
        phase = replace(phase, sent_ms=now)
        done.append(Send(Commit(phase.handover, phase.boundary)))
    if now - phase.since_ms >= timing.patience_ms and not phase.silent:
        phase = replace(phase, silent=True)
        reason = "the target does not confirm; it owns its windows and takes them when it asks"
        done.append(_note("silent", phase.handover, "split", reason, phase.boundary))
    finished_ms = phase.finished_ms
    if finished_ms is not None and now - finished_ms >= timing.linger_ms and not phase.ended:
        phase = replace(phase, ended=True)
        reason = "the target has not confirmed; if it asks, start the origin again on its record"
        done.append(_note("end", phase.handover, "split", reason, phase.boundary))
    return replace(origin, phase=phase), tuple(done)


def _impatience(phase: Accepted | Bounding | Offered, now: int, timing: Timing) -> str | None:
    """Return why the origin stops waiting; ``None`` while it waits."""
    if isinstance(phase, Bounding) and now - phase.since_ms >= timing.reach_ms:
        reached = "the origin's streams did not reach the target's first rows"
        return f"{reached} within {timing.reach_ms / 1000:g} s; do the clocks disagree?"
    heard_ms = phase.heard_ms if isinstance(phase, Bounding) else phase.since_ms
    if now - heard_ms < timing.patience_ms:
        return None
    waited = f"within {timing.patience_ms / 1000:g} s"
    if isinstance(phase, Accepted):
        return f"the target did not tell its first rows {waited}"
    if isinstance(phase, Bounding):
        return f"the target was not heard again {waited}"
    return f"the target was not ready {waited}"


def _on_message(origin: OriginMachine, message: Message) -> Step:
    phase = origin.phase
    known = None if isinstance(phase, Serving) else phase.handover
    if isinstance(message, Join):
        return _joined(origin, message, known)
    if isinstance(message, Yield):
        after, done = asked_to_yield(origin.shape.name, phase, message)
        return replace(origin, phase=after), done
    if isinstance(phase, Committed):
        return _on_message_when_committed(origin, phase, message)
    if isinstance(message, Seen | Ready):
        if message.handover != known or message.term != origin.term:
            why = "the origin knows of no such handover"
            return origin, (Send(Abort(message.handover, message.term, why)),)
        return _on_target_message(origin, message)
    if isinstance(message, Leave) and message.handover == known:
        return _aborted(origin, known, f"the target left: {message.why}")
    return origin, ()


def _joined(origin: OriginMachine, message: Join, known: str | None) -> Step:
    requested = message.handover
    if requested == known:
        if isinstance(origin.phase, Committed):
            return origin, (Send(Commit(requested, origin.phase.boundary)),)
        return origin, (Send(Accept(requested, origin.term)),)
    why = origin.shape.mismatch(message.shape)
    if why is None and isinstance(origin.phase, Committed):
        why = "the query was handed over already"
    if why is None and known is not None:
        why = "another handover is under way"
    if why is None and requested in origin.ended:
        why = "this handover was aborted; begin another"
    if why is not None:
        owner: Owner = "split" if isinstance(origin.phase, Committed) else "origin"
        boundary = origin.phase.boundary if isinstance(origin.phase, Committed) else None
        note = _note("refuse", requested, owner, f"a target was refused: {why}", boundary)
        return origin, (Send(Refuse(requested, why)), note)
    note = _note("accept", requested, "origin", "a target joined and reads its inputs")
    origin = replace(origin, phase=Accepted(requested, origin.now_ms))
    return origin, (Send(Accept(requested, origin.term)), note)


def _on_target_message(origin: OriginMachine, message: Seen | Ready) -> Step:
    """Process a message of the target of the current handover."""
    phase = origin.phase
    if isinstance(message, Seen):
        if isinstance(phase, Offered):
            return origin, (Send(Offer(phase.handover, origin.term, phase.boundary)),)
        if isinstance(phase, Bounding):
            heard = replace(phase, heard_ms=origin.now_ms)
            return replace(origin, phase=heard), (Send(Accept(phase.handover, origin.term)),)
        if not isinstance(phase, Accepted):
            return origin, ()
        if len(message.whole_from) != origin.shape.inputs:
            why = f"the target reads {len(message.whole_from)} inputs of {origin.shape.inputs}"
            return _aborted(origin, phase.handover, why)
        bounding = Bounding(phase.handover, origin.now_ms, origin.now_ms, message.whole_from)
        return replace(origin, phase=bounding), (FindBoundary(message.whole_from),)
    if not isinstance(phase, Offered) or message.boundary != phase.boundary:
        return origin, ()
    record = Record(
        phase.handover, origin.shape.name, "committed", phase.boundary, term=origin.term
    )
    return replace(origin, phase=Committing(phase.handover, phase.boundary)), (Keep(record),)


def _on_message_when_committed(origin: OriginMachine, phase: Committed, message: Message) -> Step:
    if message.handover != phase.handover:
        if isinstance(message, Seen | Ready):
            why = "the query was handed over to another target"
            return origin, (Send(Abort(message.handover, message.term, why)),)
        return origin, ()
    if isinstance(message, Ready):
        return origin, (Send(Commit(phase.handover, phase.boundary)),)
    if isinstance(message, Taken) and not phase.confirmed:
        record = Record(
            phase.handover,
            origin.shape.name,
            "committed",
            phase.boundary,
            origin.term,
            confirmed=True,
        )
        return origin, (Keep(record),)  # if that fails, the target repeats the message
    return origin, ()


def _offered(origin: OriginMachine, phase: Bounding, boundary: Boundary) -> Step:
    reason = f"offered the windows that start at {boundary.activation} or later; not yet decided"
    note = _note("offer", phase.handover, "origin", reason, boundary)
    offer = Send(Offer(phase.handover, origin.term, boundary))
    offered = Offered(phase.handover, origin.now_ms, boundary)
    return replace(origin, phase=offered), (note, offer)


def _committed(origin: OriginMachine, phase: Committing) -> Step:
    boundary = phase.boundary
    reason = (
        f"the origin owns the windows that start before {boundary.activation}, "
        "the target those that start then or later"
    )
    done = (
        StopAfter(boundary),
        _note("commit", phase.handover, "split", reason, boundary),
        Send(Commit(phase.handover, boundary)),
    )
    committed = Committed(phase.handover, boundary, origin.now_ms, origin.now_ms)
    return replace(origin, phase=committed), done


def _finished(origin: OriginMachine, phase: Committed) -> Step:
    if phase.finished_ms is not None:
        return origin, ()
    reason = "the origin has put out its last window"
    note = _note("finish", phase.handover, "split", reason, phase.boundary)
    return replace(origin, phase=replace(phase, finished_ms=origin.now_ms)), (note,)


def _aborted(origin: OriginMachine, handover: str, why: str) -> Step:
    """End the handover before its commit; the origin keeps every window."""
    record = Record(handover, origin.shape.name, "aborted", term=origin.term, why=why)
    reason = f"the origin keeps all windows: {why}"
    done: tuple[Instruction, ...] = (
        Keep(record),
        ReleaseBarrier(),
        _note("abort", handover, "origin", reason),
        Send(Abort(handover, origin.term, why)),
    )
    return replace(origin, phase=Serving(), ended=origin.ended | {handover}), done


def _note(
    kind: str,
    handover: str,
    owner: Owner,
    reason: str,
    boundary: Boundary | None = None,
) -> LogNote:
    return LogNote(Note("origin", kind, handover, owner, reason, boundary))
