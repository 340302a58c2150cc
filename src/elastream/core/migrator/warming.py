"""Warming: new executors run a throw-away job, so that the first state costs no cold start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.core.events import Answered, BatchObserved, Cancel, Event, Status, Tick, Warm
from elastream.core.goal import Failure
from elastream.core.migrator.change import Change, note_waiting
from elastream.core.migrator.planning import begin_planning
from elastream.core.migrator.settling import begin_settling
from elastream.core.state import LoopState, Phase, Transition, note

__all__ = ["Warming", "begin_warming"]


@dataclass(frozen=True, slots=True)
class Warming(Phase):
    """Executors are being warmed."""

    change: Change
    ticket: int
    since_ms: int | None

    def on(self, state: LoopState, event: Event) -> Transition:
        """Go on when they are warm; go on cold where that failed or takes too long."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return self._cold(state, f"not warmed, going on cold: {why}")
            case Answered(ticket=self.ticket):
                return begin_settling(state, self.change)
            case BatchObserved(batch=batch):
                return note_waiting(state, "the warm-up", self.since_ms, batch.query)
            case Tick() | Status() if state.passed_s(self.since_ms) > state.policy.action_timeout_s:
                waited = f"not warmed in {state.passed_s(self.since_ms):.0f} s, going on cold"
                state, instructions = self._cold(state, waited)
                return state, (Cancel(self.ticket), *instructions)
            case _:
                return state, ()

    def _cold(self, state: LoopState, why: str) -> Transition:
        log = note(state, "wait", why)
        state, instructions = begin_planning(state, self.change)
        return state, (log, *instructions)


def begin_warming(state: LoopState, change: Change) -> Transition:
    """Warm the executors that need it, or go on where none does."""
    policy = state.policy
    wanted = None if change.placement is None else set(change.placement.values())
    cold = tuple(
        executor.id
        for executor in state.executors
        if not executor.warm and (wanted is None or executor.id in wanted)
    )
    if not cold or not policy.warm_up or policy.advise_only or change.kind == "scale-in":
        return begin_planning(state, change)
    state, ticket = state.ticketed()
    return replace(state, phase=Warming(change, ticket, state.now_ms)), (Warm(ticket, cold),)
