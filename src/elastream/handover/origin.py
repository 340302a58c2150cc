"""The origin's side of a handover, as a pure machine (paper 002, algorithm 2).

::

    Serving ─ join ─> Accepted ─ seen ─> Bounding ─ boundary ─> Offered ─ ready ─> Committing
       ^                 │                  │                      │                   │ kept
       └─ abort: the target is silent or leaves, the query ────────┘                   v
          cannot be cut, the record cannot be written                              Committed

    Serving ─ yield ─> Yielding ─ halted, kept ─> Yielded

The handover is committed once the record ``committed`` is on the origin's disk. Before that every
failure ends in an abort and all windows are the origin's; afterwards none does. From the offer to
the decision output beyond the boundary is held back, so an abort loses nothing and a commit doubles
nothing. The origin answers every repeated message of the target, and repeats ``Commit`` until it is
confirmed. A ``Ready`` for anything but the present offer or the committed handover is answered with
``Abort``.

A coordinator may also ask for the checkpoint (``Yield``), with the same token as a target. Then the
query halts between two batches and the record says ``yielded``. From then on this folder runs no
query: two queries on copies of one checkpoint would write every output twice. If either step fails
the query continues. The only answer is a refusal; success is read from the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from elastream.handover import events, messages
from elastream.handover.ledger import Note, Owner, Record
from elastream.handover.model import Boundary, QueryShape
from elastream.model.errors import ProblemError


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
    last_message_ms: int
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

Step = tuple["OriginMachine", tuple[events.Instruction, ...]]


@dataclass(frozen=True, slots=True)
class OriginMachine:
    """State of the origin's machine."""

    shape: QueryShape
    term: str
    """Identifies this run of the driver; a restart has another."""
    timing: events.Timing
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
    shape: QueryShape, term: str, record: Record | None, timing: events.Timing
) -> Step:
    """Return the machine at its start, or after a crash, with its first instructions."""
    origin = OriginMachine(shape, term, timing)
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
    finished_ms = 0 if record.finished else None
    phase = Committed(
        record.handover, record.boundary, 0, 0, record.confirmed, finished_ms=finished_ms
    )
    origin = replace(origin, phase=phase)
    reason = "started again after the handover was committed: the origin completes what is its own"
    note = _note("restart", record.handover, "split", reason, record.boundary)
    return origin, (events.StopAfter(record.boundary), note)


def expect_unyielded(record: Record | None) -> None:
    """Refuse to run a query whose checkpoint was given away."""
    if record is not None and record.state == "yielded":
        why = "says that the checkpoint was left to a coordinator, and may go on elsewhere"
        raise ProblemError("record", f"{why}; remove the record to take it back")


def origin_step(origin: OriginMachine, event: events.Event) -> Step:
    """Return the machine after the event, and the instructions for its driver."""
    if isinstance(event, events.Clock):
        return _clock(replace(origin, now_ms=event.now_ms))
    if isinstance(event, events.Received):
        return _on_message(origin, event.message)
    phase = origin.phase
    if isinstance(phase, Bounding):
        if isinstance(event, events.BoundaryFound):
            return _offered(origin, phase, event.boundary)
        if isinstance(event, events.BoundaryRefused):
            return _aborted(origin, phase.handover, event.why)
    if isinstance(phase, Committing):
        if isinstance(event, events.Kept):
            return _committed(origin, phase)
        if isinstance(event, events.KeepFailed):
            why = f"the decision could not be written: {event.why}"
            return _aborted(origin, phase.handover, why)
    if isinstance(phase, Yielding):
        return _yielding(origin, phase, event)
    if isinstance(phase, Committed):
        if isinstance(event, events.LastWindowProduced):
            return _finished(origin, phase)
        if isinstance(event, events.Kept) and event.record.confirmed and not phase.confirmed:
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
            return origin, (events.FindBoundary(phase.whole_from),)
    if not isinstance(phase, Committed) or phase.confirmed:
        return origin, ()
    done: list[events.Instruction] = []
    if now - phase.sent_ms >= timing.repeat_ms:
        phase = replace(phase, sent_ms=now)
        done.append(events.Send(messages.Commit(phase.handover, phase.boundary)))
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


def _impatience(
    phase: Accepted | Bounding | Offered, now: int, timing: events.Timing
) -> str | None:
    """Return why the origin stops waiting; ``None`` while it waits."""
    if isinstance(phase, Bounding) and now - phase.since_ms >= timing.reach_ms:
        reached = "the origin's streams did not reach the target's first rows"
        return f"{reached} within {timing.reach_ms / 1000:g} s; do the clocks disagree?"
    last_message_ms = phase.last_message_ms if isinstance(phase, Bounding) else phase.since_ms
    if now - last_message_ms < timing.patience_ms:
        return None
    waited = f"within {timing.patience_ms / 1000:g} s"
    if isinstance(phase, Accepted):
        return f"the target did not report its first rows {waited}"
    if isinstance(phase, Bounding):
        return f"no further message came from the target {waited}"
    return f"the target was not ready {waited}"


def _on_message(origin: OriginMachine, message: messages.Message) -> Step:
    phase = origin.phase
    known = None if isinstance(phase, Serving) else phase.handover
    if isinstance(message, messages.Join):
        return _joined(origin, message, known)
    if isinstance(message, messages.Yield):
        return _asked_to_yield(origin, message)
    if isinstance(phase, Committed):
        return _on_message_when_committed(origin, phase, message)
    if isinstance(message, messages.Seen | messages.Ready):
        if message.handover != known or message.term != origin.term:
            why = "the origin knows no such handover"
            return origin, (events.Send(messages.Abort(message.handover, message.term, why)),)
        return _on_target_message(origin, message)
    if isinstance(message, messages.Leave) and message.handover == known:
        return _aborted(origin, known, f"the target left: {message.why}")
    return origin, ()


def _joined(origin: OriginMachine, message: messages.Join, known: str | None) -> Step:
    requested = message.handover
    if requested == known:
        if isinstance(origin.phase, Committed):
            return origin, (events.Send(messages.Commit(requested, origin.phase.boundary)),)
        return origin, (events.Send(messages.Accept(requested, origin.term)),)
    committed = origin.phase if isinstance(origin.phase, Committed) else None
    why = origin.shape.mismatch(message.shape)
    if why is None and committed is not None:
        why = "the query was handed over already"
    if why is None and known is not None:
        why = "another handover is under way"
    if why is None and requested in origin.ended:
        why = "this handover was aborted; begin another"
    if why is not None:
        owner: Owner = "origin" if committed is None else "split"
        boundary = None if committed is None else committed.boundary
        note = _note("refuse", requested, owner, f"a target was refused: {why}", boundary)
        return origin, (events.Send(messages.Refuse(requested, why)), note)
    note = _note("accept", requested, "origin", "a target joined and reads its inputs")
    origin = replace(origin, phase=Accepted(requested, origin.now_ms))
    return origin, (events.Send(messages.Accept(requested, origin.term)), note)


def _on_target_message(origin: OriginMachine, message: messages.Seen | messages.Ready) -> Step:
    """Process a message of the target of the current handover."""
    phase = origin.phase
    if isinstance(message, messages.Seen):
        if isinstance(phase, Offered):
            return origin, (
                events.Send(messages.Offer(phase.handover, origin.term, phase.boundary)),
            )
        if isinstance(phase, Bounding):
            phase = replace(phase, last_message_ms=origin.now_ms)
            return replace(origin, phase=phase), (
                events.Send(messages.Accept(phase.handover, origin.term)),
            )
        if not isinstance(phase, Accepted):
            return origin, ()
        if len(message.whole_from) != origin.shape.inputs:
            why = f"the target reads {len(message.whole_from)} inputs of {origin.shape.inputs}"
            return _aborted(origin, phase.handover, why)
        bounding = Bounding(phase.handover, origin.now_ms, origin.now_ms, message.whole_from)
        return replace(origin, phase=bounding), (events.FindBoundary(message.whole_from),)
    if not isinstance(phase, Offered) or message.boundary != phase.boundary:
        return origin, ()
    keep = events.Keep(_committed_record(origin, phase))
    return replace(origin, phase=Committing(phase.handover, phase.boundary)), (keep,)


def _on_message_when_committed(
    origin: OriginMachine, phase: Committed, message: messages.Message
) -> Step:
    if message.handover != phase.handover:
        if isinstance(message, messages.Seen | messages.Ready):
            why = "the query was handed over to another target"
            return origin, (events.Send(messages.Abort(message.handover, message.term, why)),)
        return origin, ()
    if isinstance(message, messages.Ready):
        return origin, (events.Send(messages.Commit(phase.handover, phase.boundary)),)
    if isinstance(message, messages.Taken) and not phase.confirmed:
        finished = phase.finished_ms is not None
        record = replace(_committed_record(origin, phase), confirmed=True, finished=finished)
        return origin, (events.Keep(record),)  # if that fails, the target repeats the message
    return origin, ()


def _committed_record(origin: OriginMachine, phase: Offered | Committed) -> Record:
    return Record(phase.handover, origin.shape.name, "committed", phase.boundary, term=origin.term)


def _offered(origin: OriginMachine, phase: Bounding, boundary: Boundary) -> Step:
    reason = f"offered the windows that start at {boundary.activation} or later; not yet decided"
    note = _note("offer", phase.handover, "origin", reason, boundary)
    offer = events.Send(messages.Offer(phase.handover, origin.term, boundary))
    offered = Offered(phase.handover, origin.now_ms, boundary)
    return replace(origin, phase=offered), (note, offer)


def _committed(origin: OriginMachine, phase: Committing) -> Step:
    boundary = phase.boundary
    reason = (
        f"the origin owns the windows that start before {boundary.activation}, "
        "the target those that start then or later"
    )
    done = (
        events.StopAfter(boundary),
        _note("commit", phase.handover, "split", reason, boundary),
        events.Send(messages.Commit(phase.handover, boundary)),
    )
    committed = Committed(phase.handover, boundary, origin.now_ms, origin.now_ms)
    return replace(origin, phase=committed), done


def _finished(origin: OriginMachine, phase: Committed) -> Step:
    if phase.finished_ms is not None:
        return origin, ()
    reason = "the origin has put out its last window"
    note = _note("finish", phase.handover, "split", reason, phase.boundary)
    record = replace(_committed_record(origin, phase), confirmed=phase.confirmed, finished=True)
    finished = replace(origin, phase=replace(phase, finished_ms=origin.now_ms))
    return finished, (events.Keep(record), note)


def _aborted(origin: OriginMachine, handover: str, why: str) -> Step:
    """End the handover before its commit; the origin keeps every window."""
    record = Record(handover, origin.shape.name, "aborted", term=origin.term, why=why)
    reason = f"the origin keeps all windows: {why}"
    done: tuple[events.Instruction, ...] = (
        events.Keep(record),
        events.ReleaseBarrier(),
        _note("abort", handover, "origin", reason),
        events.Send(messages.Abort(handover, origin.term, why)),
    )
    return replace(origin, phase=Serving(), ended=origin.ended | {handover}), done


def _asked_to_yield(origin: OriginMachine, message: messages.Yield) -> Step:
    name, phase, why = origin.shape.name, origin.phase, None
    if message.query != name:
        why = f"this is the query {name!r}, not {message.query!r}"
    elif isinstance(phase, Committed):
        why = "the query was handed over already"
    elif not isinstance(phase, Serving):
        why = "a handover is under way"
    if why is not None:
        return origin, _refused_to_yield(message.handover, why)
    return replace(origin, phase=Yielding(message.handover)), (events.Halt(),)


def _yielding(origin: OriginMachine, phase: Yielding, event: events.Event) -> Step:
    handover = phase.handover
    if isinstance(event, events.Halted):
        record = Record(handover, origin.shape.name, "yielded", term=origin.term)
        return origin, (events.Keep(record),)
    if isinstance(event, events.Kept):
        reason = "halted between two batches; the checkpoint is left to a coordinator"
        note = _note("yield", handover, "origin", reason)
        return replace(origin, phase=Yielded(handover)), (note,)
    if isinstance(event, events.HaltFailed | events.KeepFailed):
        refused = _refused_to_yield(handover, event.why)
        return replace(origin, phase=Serving()), (events.GoOn(), *refused)
    return origin, ()


def _refused_to_yield(handover: str, why: str) -> tuple[events.Instruction, ...]:
    reason = f"a coordinator asked for the checkpoint and was refused: {why}"
    return events.Send(messages.Refuse(handover, why)), _note("refuse", handover, "origin", reason)


def _note(
    kind: str, handover: str, owner: Owner, reason: str, boundary: Boundary | None = None
) -> events.LogNote:
    return events.LogNote(Note("origin", kind, handover, owner, reason, boundary))
