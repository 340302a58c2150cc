"""Growing and warming: requested executors come, and are made ready for state.

A throw-away job warms them, so that the first state that they get costs no cold start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastream.core.change import Change
from elastream.core.events import Answered, BatchObserved, Cancel, Event, Grow, Status, Tick, Warm
from elastream.core.goal import Failure
from elastream.core.migrator.ending import abandon_change, complete_change, note_waiting
from elastream.core.next import Begin
from elastream.core.prediction import calm_costs
from elastream.core.spares import take_all_spares, take_spares, with_alive
from elastream.core.state import LoopState, Phase, Signal, Turn, note
from elastream.model.observation import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing(Phase):
    """Executors were requested; all of them come, some or none."""

    change: Change
    ticket: int

    def on(self, state: LoopState, event: Event) -> Turn:
        """Go on with those that came, or give up where none did or no answer comes."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return abandon_change(state, self.change, f"executors failed: {why}")
            case Answered(ticket=self.ticket, result=executors):
                return self._grown(state, executors)
            case BatchObserved(batch=batch):
                return note_waiting(state, "executors", batch.query)
            case Tick() | Status() if self.is_overdue(state):
                why = f"no answer about executors in {self.waited_s(state):.0f} s"
                return abandon_change(state, self.change, why, ticket=self.ticket)
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
        return state, (log,), Begin("warming", change)


def begin_growing(state: LoopState, change: Change) -> Turn:
    """Begin a change: take spares, ask for executors that lack, or go on where there are enough."""
    known = {query.name: query.usual_ms for query in state.queries.values()}
    usual_ms = {name: ms for name, ms in known.items() if ms is not None}
    costs = {query.name: calm_costs(query.recent) for query in state.queries.values()}
    calm = {name: cost for name, cost in costs.items() if cost is not None}
    change = replace(change, asked_ms=state.now_ms, usual_ms=usual_ms, calm=calm)
    state = replace(state, signal=Signal())
    if change.kind == "scale-out":
        state = replace(state, falling=False)
    if change.executors == 0:
        state = take_all_spares(state)
    if change.executors <= len(state.executors) or state.policy.advise_only:
        return state, (), Begin("warming", change)
    state, taken = take_spares(state, change.executors - len(state.executors))
    if change.executors <= len(state.executors):
        return state, taken, Begin("warming", change)
    # Whatever is on its way as a spare comes for the change now.
    state, ticket = replace(state, preparation=None).ticketed()
    total = min(change.executors, state.policy.max_executors)
    growing = Growing(change=change, ticket=ticket, since_ms=state.now_ms)
    return replace(state, phase=growing), (*taken, Grow(ticket, total)), None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming(Phase):
    """Executors are being warmed."""

    change: Change
    ticket: int

    def on(self, state: LoopState, event: Event) -> Turn:
        """Go on when they are warm; go on cold where that failed or takes too long."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                log = note(state, "wait", f"not warmed, going on cold: {why}")
                return state, (log,), Begin("planning", self.change)
            case Answered(ticket=self.ticket):
                return state, (), Begin("settling", self.change)
            case BatchObserved(batch=batch):
                return note_waiting(state, "the warm-up", batch.query)
            case Tick() | Status() if self.is_overdue(state):
                waited_s = self.waited_s(state)
                log = note(state, "wait", f"not warmed in {waited_s:.0f} s, going on cold")
                return state, (Cancel(self.ticket), log), Begin("planning", self.change)
            case _:
                return state, (), None


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
        return state, (), Begin("planning", change)
    state, ticket = state.ticketed()
    warming = Warming(change=change, ticket=ticket, since_ms=state.now_ms)
    return replace(state, phase=warming), (Warm(ticket, cold),), None
