"""Growing: executors were asked for and come, all of them, some or none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.core.events import Answered, BatchObserved, Event, Grow, Status, Tick
from elastream.core.goal import Failure
from elastream.core.migrator.change import (
    Change,
    abandon_change,
    begin_change,
    complete_change,
    note_waiting,
)
from elastream.core.migrator.warming import begin_warming
from elastream.core.spares import take_all_spares, take_spares, with_alive
from elastream.core.state import LoopState, Phase, Signal, Transition, note
from elastream.model.observation import Executor

__all__ = ["Growing", "begin_growing"]


@dataclass(frozen=True, slots=True)
class Growing(Phase):
    """Executors were asked for."""

    change: Change
    ticket: int
    since_ms: int | None

    def on(self, state: LoopState, event: Event) -> Transition:
        """Go on with those that came, or give up where none did or no answer comes."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return abandon_change(state, self.change, f"executors failed: {why}")
            case Answered(ticket=self.ticket, result=executors):
                return self._grown(state, executors)
            case BatchObserved(batch=batch):
                return note_waiting(state, "executors", self.since_ms, batch.query)
            case Tick() | Status():
                return self._overdue(state)
            case _:
                return state, ()

    def _grown(self, state: LoopState, executors: tuple[Executor, ...]) -> Transition:
        state = with_alive(state, executors)
        came, change = len(state.executors), self.change
        if came <= change.before:
            limit_s = state.policy.grow_timeout_s
            asked = f"{change.executors} executors asked for"
            why = f"{asked}, {came} alive after at most {limit_s:g} s"
            return abandon_change(state, change, why)
        log = note(state, "wait", f"{came} of {change.executors} executors are alive")
        change = replace(change, executors=min(change.executors, came))
        if change.before == 0:  # batches wait for them: no time to warm, and nothing to move
            state, instructions = complete_change(state, change)
        else:
            state, instructions = begin_warming(state, change)
        return state, (log, *instructions)

    def _overdue(self, state: LoopState) -> Transition:
        passed_s = state.passed_s(self.since_ms)
        if passed_s <= state.policy.action_timeout_s:
            return state, ()
        why = f"no answer about executors in {passed_s:.0f} s"
        return abandon_change(state, self.change, why, ticket=self.ticket)


def begin_growing(state: LoopState, change: Change) -> Transition:
    """Begin a change: take spares, ask for executors that lack, or go on where there are enough."""
    change = begin_change(state, change)
    state = replace(state, signal=Signal())
    if change.executors == 0:
        state = take_all_spares(state)
    if change.executors <= len(state.executors) or state.policy.advise_only:
        return begin_warming(state, change)
    state, taken = take_spares(state, change.executors - len(state.executors))
    if change.executors <= len(state.executors):
        state, instructions = begin_warming(state, change)
        return state, (*taken, *instructions)
    # Whatever is on its way as a spare comes for the change now.
    state, ticket = replace(state, preparation=None).ticketed()
    total = min(change.executors, state.policy.max_executors)
    growing = Growing(change, ticket, state.now_ms)
    return replace(state, phase=growing), (*taken, Grow(ticket, total))
