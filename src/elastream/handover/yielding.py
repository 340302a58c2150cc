"""An origin that leaves its checkpoint to a coordinator, when moving state is sooner.

The coordinator uses the same token as a joining target, so it gets no additional rights: a client
that can take the query over can also have it stopped. The query halts between two batches, so no
batch is interrupted. The record is ``yielded`` then, and from there on this folder runs no query:
the checkpoint continues elsewhere, and two queries on copies of one would write every output twice.
If either step fails the query continues as if nothing had been requested. The only answer is a
refusal: a record cannot be lost on its way, and the mover of a checkpoint can read the file next to
it.
"""

from __future__ import annotations

from elastream.handover.events import (
    Event,
    GoOn,
    Halt,
    Halted,
    HaltFailed,
    Instruction,
    Keep,
    KeepFailed,
    Kept,
    LogNote,
    Send,
)
from elastream.handover.ledger import Note, Record
from elastream.handover.messages import Refuse, Yield
from elastream.handover.phases import Committed, OriginPhase, Serving, Yielded, Yielding
from elastream.model.errors import ProblemError

Turn = tuple[OriginPhase, tuple[Instruction, ...]]


def expect_unyielded(record: Record | None) -> None:
    """Refuse to run a query whose checkpoint was given away."""
    if record is not None and record.state == "yielded":
        why = "says that the checkpoint was left to a coordinator, and may go on elsewhere"
        raise ProblemError("record", f"{why}; remove the record to take it back")


def asked_to_yield(query: str, phase: OriginPhase, message: Yield) -> Turn:
    """Return the reaction to a request for the checkpoint."""
    why = None
    if message.query != query:
        why = f"this is the query {query!r}, not {message.query!r}"
    elif isinstance(phase, Committed):
        why = "the query was handed over already"
    elif not isinstance(phase, Serving):
        why = "a handover is under way"
    if why is not None:
        return phase, _refused(message.handover, why)
    return Yielding(message.handover), (Halt(),)


def yielding(query: str, term: str, phase: Yielding, event: Event) -> Turn:
    """Return the reaction to an event while the query halts."""
    if isinstance(event, Halted):
        return phase, (Keep(Record(phase.handover, query, "yielded", term=term)),)
    if isinstance(event, Kept):
        reason = "halted between two batches; the checkpoint is left to a coordinator"
        note = Note("origin", "yield", phase.handover, "origin", reason)
        return Yielded(phase.handover), (LogNote(note),)
    if isinstance(event, HaltFailed | KeepFailed):
        return Serving(), (GoOn(), *_refused(phase.handover, event.why))
    return phase, ()


def _refused(handover: str, why: str) -> tuple[Instruction, ...]:
    reason = f"a coordinator asked for the checkpoint and was refused: {why}"
    note = Note("origin", "refuse", handover, "origin", reason)
    return Send(Refuse(handover, why)), LogNote(note)
