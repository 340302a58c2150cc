"""Releasing: executors that hold nothing are given back."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.core.events import Answered, BatchObserved, Event, Release, Status, Tick
from elastream.core.goal import Failure
from elastream.core.migrator.change import (
    Change,
    abandon_change,
    complete_change,
    note_waiting,
    plan_again,
)
from elastream.core.spares import keep_spares, with_alive
from elastream.core.state import LoopState, Phase, Transition, note
from elastream.model.words import listed

__all__ = ["Releasing", "begin_releasing"]


@dataclass(frozen=True, slots=True)
class Releasing(Phase):
    """Executors were told to go."""

    change: Change
    release: Release
    since_ms: int | None

    def on(self, state: LoopState, event: Event) -> Transition:
        """End when they are gone; plan anew where they are refused."""
        match event:
            case Answered(result=Failure(why=why)) if event.ticket == self.release.ticket:
                return plan_again(state, self.change, f"not released: {why}")
            case Answered() if event.ticket == self.release.ticket:
                gone = set(self.release.ids)
                left = tuple(each for each in state.all_executors if each.id not in gone)
                return complete_change(with_alive(state, left), self.change)
            case BatchObserved(batch=batch):
                return note_waiting(state, "the release", self.since_ms, batch.query)
            case Tick() | Status() if state.passed_s(self.since_ms) > state.policy.action_timeout_s:
                why = f"no answer about the release in {state.passed_s(self.since_ms):.0f} s"
                return abandon_change(state, self.change, why, ticket=self.release.ticket)
            case _:
                return state, ()


def begin_releasing(state: LoopState, change: Change, ids: tuple[str, ...]) -> Transition:
    """Give back executors that have been seen without state, but those kept as spares."""
    state, ids, kept = keep_spares(state, ids, change.executors)
    if not ids:
        state, instructions = complete_change(state, change)
        return state, (*kept, *instructions)
    state, ticket = state.ticketed()
    release = Release(ticket, ids)
    log = note(state, "wait", f"executor {listed(ids)} holds no state that is needed: released")
    releasing = Releasing(change, release, state.now_ms)
    return replace(state, phase=releasing), (*kept, log, release)
