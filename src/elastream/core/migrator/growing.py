"""Growing: executors were asked for and come, all of them, some or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from elastream.core.change import Change
from elastream.core.events import Answered, BatchObserved, Event, Grow, Status, Tick
from elastream.core.goal import Failure
from elastream.core.migrator.ending import abandon_change, complete_change, note_waiting
from elastream.core.next import BeginWarming
from elastream.core.spares import take_all_spares, take_spares, with_alive
from elastream.core.state import LoopState, Phase, Signal, Turn, note
from elastream.model.observation import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing(Phase):
    """Executors were asked for."""

    change: Change
    ticket: int
    since_ms: int | None

    def on(self, state: LoopState, event: Event) -> Turn:
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
                return state, (), None

    def _grown(self, state: LoopState, executors: tuple[Executor, ...]) -> Turn:
        state = with_alive(state, executors)
        came, change = len(state.executors), self.change
        if came <= change.before:
            limit_s = state.policy.timeouts.grow_s
            asked = f"{change.executors} executors asked for"
            why = f"{asked}, {came} alive after at most {limit_s:g} s"
            return abandon_change(state, change, why)
        log = note(state, "wait", f"{came} of {change.executors} executors are alive")
        change = replace(change, executors=min(change.executors, came))
        if change.before == 0:  # batches wait for them: no time to warm, and nothing to move
            state, instructions, following = complete_change(state, change)
            return state, (log, *instructions), following
        return state, (log,), BeginWarming(change)

    def _overdue(self, state: LoopState) -> Turn:
        passed_s = state.passed_s(self.since_ms)
        if passed_s <= state.policy.timeouts.action_s:
            return state, (), None
        why = f"no answer about executors in {passed_s:.0f} s"
        return abandon_change(state, self.change, why, ticket=self.ticket)


def begin_growing(state: LoopState, change: Change) -> Turn:
    """Begin a change: take spares, ask for executors that lack, or go on where there are enough."""
    usual_ms = {q.name: median(q.recent_ms) for q in state.queries.values() if q.recent_ms}
    change = replace(change, asked_ms=state.now_ms, usual_ms=usual_ms)
    state = replace(state, signal=Signal())
    if change.executors == 0:
        state = take_all_spares(state)
    if change.executors <= len(state.executors) or state.policy.advise_only:
        return state, (), BeginWarming(change)
    state, taken = take_spares(state, change.executors - len(state.executors))
    if change.executors <= len(state.executors):
        return state, taken, BeginWarming(change)
    # Whatever is on its way as a spare comes for the change now.
    state, ticket = replace(state, preparation=None).ticketed()
    total = min(change.executors, state.policy.max_executors)
    growing = Growing(change=change, ticket=ticket, since_ms=state.now_ms)
    return replace(state, phase=growing), (*taken, Grow(ticket, total)), None
