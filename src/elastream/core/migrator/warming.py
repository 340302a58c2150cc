"""Warming: new executors run a throw-away job, so that the first state costs no cold start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.core.change import Change
from elastream.core.events import Answered, BatchObserved, Cancel, Event, Status, Tick, Warm
from elastream.core.goal import Failure
from elastream.core.migrator.ending import note_waiting
from elastream.core.next import BeginPlanning, BeginSettling
from elastream.core.state import LoopState, Phase, Turn, note


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming(Phase):
    """Executors are being warmed."""

    change: Change
    ticket: int
    since_ms: int | None

    def on(self, state: LoopState, event: Event) -> Turn:
        """Go on when they are warm; go on cold where that failed or takes too long."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return self._cold(state, f"not warmed, going on cold: {why}")
            case Answered(ticket=self.ticket):
                return state, (), BeginSettling(self.change)
            case BatchObserved(batch=batch):
                return note_waiting(state, "the warm-up", self.since_ms, batch.query)
            case Tick() | Status() if (
                state.passed_s(self.since_ms) > state.policy.timeouts.action_s
            ):
                waited = f"not warmed in {state.passed_s(self.since_ms):.0f} s, going on cold"
                state, instructions, following = self._cold(state, waited)
                return state, (Cancel(self.ticket), *instructions), following
            case _:
                return state, (), None

    def _cold(self, state: LoopState, why: str) -> Turn:
        return state, (note(state, "wait", why),), BeginPlanning(self.change)


def begin_warming(state: LoopState, change: Change) -> Turn:
    """Warm the executors that need it, or go on where none does."""
    policy = state.policy
    wanted = None if change.placement is None else set(change.placement.values())
    cold = tuple(
        executor.id
        for executor in state.executors
        if not executor.warm and (wanted is None or executor.id in wanted)
    )
    if not cold or not policy.movement.warm_up or policy.advise_only or change.kind == "scale-in":
        return state, (), BeginPlanning(change)
    state, ticket = state.ticketed()
    warming = Warming(change=change, ticket=ticket, since_ms=state.now_ms)
    return replace(state, phase=warming), (Warm(ticket, cold),), None
