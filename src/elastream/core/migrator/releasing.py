"""Releasing: executors that hold nothing are given back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from elastream.core.change import Change
from elastream.core.events import Answered, BatchObserved, Event, Release, Status, Tick
from elastream.core.goal import Failure
from elastream.core.migrator.ending import (
    abandon_change,
    complete_change,
    note_waiting,
    plan_again,
)
from elastream.core.spares import keep_spares, with_alive
from elastream.core.state import LoopState, Phase, Turn, note
from elastream.model.words import join_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Releasing(Phase):
    """Executors are being released."""

    moves_state: ClassVar[bool] = True

    change: Change
    ticket: int
    executors: tuple[str, ...]

    @property
    def leaving(self) -> frozenset[str]:
        """Those that are being released."""
        return frozenset(self.executors)

    def on(self, state: LoopState, event: Event) -> Turn:
        """End when they are gone; plan anew where they are refused."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return plan_again(state, self.change, f"not released: {why}")
            case Answered(ticket=self.ticket):
                left = tuple(each for each in state.all_executors if each.id not in self.leaving)
                return complete_change(with_alive(state, left), self.change)
            case BatchObserved(batch=batch):
                return note_waiting(state, "the release", batch.query)
            case Tick() | Status() if self.is_overdue(state):
                why = f"no answer about the release in {self.waited_s(state):.0f} s"
                return abandon_change(state, self.change, why, ticket=self.ticket)
            case _:
                return state, (), None


def begin_releasing(state: LoopState, change: Change, ids: tuple[str, ...]) -> Turn:
    """Give back executors that have been seen without state, but those kept as spares."""
    state, ids, kept = keep_spares(state, ids, change.executors)
    if not ids:
        state, instructions, following = complete_change(state, change)
        return state, (*kept, *instructions), following
    state, ticket = state.ticketed()
    log = note(state, "wait", f"executor {join_names(ids)} holds no state that is needed: released")
    releasing = Releasing(change=change, ticket=ticket, since_ms=state.now_ms, executors=ids)
    return replace(state, phase=releasing), (*kept, log, Release(ticket, ids)), None
