"""How a change ends: executors that hold nothing are released, and it is done; or it is abandoned.

Where it was disturbed it is planned anew. What moved stays moved, and the next plan starts from the
truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from elastream.core.change import Change, Destination
from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    DropCopies,
    Event,
    Instruction,
    Log,
    Release,
    Status,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.guards import begin_outcome
from elastream.core.next import Begin, Rest, TakeOn, TakeRequest
from elastream.core.reason_codes import GIVEN_UP
from elastream.core.spares import keep_spares, with_alive
from elastream.core.state import LoopState, Phase, Signal, Turn, note
from elastream.model.checks import Number
from elastream.model.words import join_names, pluralize


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
    if change.kind == "scale-in":  # the tasks are on those that stay
        near = state.policy.goal.near_scale_out(state.memory, state.observed)
        state = replace(state, falling=not near)
    state, ids, kept = keep_spares(state, ids, change.executors)
    if not ids:
        state, instructions, following = complete_change(state, change)
        return state, (*kept, *instructions), following
    state, ticket = state.ticketed()
    log = note(state, "wait", f"executor {join_names(ids)} holds no state that is needed: released")
    releasing = Releasing(change=change, ticket=ticket, since_ms=state.now_ms, executors=ids)
    return replace(state, phase=releasing), (*kept, log, Release(ticket, ids)), None


def complete_change(state: LoopState, change: Change) -> Turn:
    """Begin the cooldown; what was reached is logged when it is known what it brought."""
    progress, now = change.progress, len(state.executors)
    batches = pluralize(progress.batches, "batch", "batches")
    moved = f"{pluralize(progress.tasks_moved, 'task')} moved in {batches}"
    reason = f"{change.kind} from {change.before} to {pluralize(now, 'executor')} done: {moved}"
    figures = _figures(state, change)
    outcome = begin_outcome(state, change, reason, figures)
    log = () if outcome is not None else (note(state, "done", reason, figures=figures),)
    if progress.tasks_moved:
        queries = {name: replace(query, recent=()) for name, query in state.queries.items()}
        state = replace(state, queries=queries)
    state, dropped, rest = _ended(state, done=True)
    return replace(state, outcome=outcome), (*log, *dropped), rest


def abandon_change(
    state: LoopState,
    change: Change,
    why: str,
    *,
    ticket: int | None = None,
    then: TakeOn | None = None,
) -> Turn:
    """Give up: what moved stays moved, the rest stays put, the next plan starts from the truth.

    ``ticket`` is what is waited for no more; ``then`` is next unless a request is.
    """
    log = note_abandoned(state, change, why)
    abandoned = replace(state, abandoned_ms=state.now_ms)
    state, dropped, rest = _ended(abandoned, done=False, then=then)
    return state, (*_cancelled(ticket), log, *dropped), rest


def note_abandoned(state: LoopState, change: Change, why: str) -> Log:
    """Return the line that a change is given up."""
    stays = f"{change.progress.tasks_moved} tasks moved and stay moved, the rest stays put"
    reason = f"{change.kind}{GIVEN_UP}{why}; {stays}"
    return note(state, "abandon", reason, figures=_figures(state, change))


def plan_again(state: LoopState, change: Change, why: str, *, ticket: int | None = None) -> Turn:
    """Plan anew from the truth, a bounded number of times."""
    if change.placement is not None:
        return abandon_change(
            state, change, f"{why}, and the placement asked for needs it", ticket=ticket
        )
    if change.replans >= state.policy.movement.replans:
        many = f"{why}, after {change.replans} new plans"
        return abandon_change(state, change, many, ticket=ticket)
    log = note(state, "replan", f"{change.kind} is planned anew: {why}")
    again = Begin("planning", replace(change, replans=change.replans + 1))
    return state, (*_cancelled(ticket), log), again


def plan_without(
    state: LoopState, change: Change, target: Destination, *, ticket: int | None = None
) -> Turn:
    """Plan anew without the executors of the target that were lost."""
    lost = join_names(sorted(target.nodes - state.alive))
    return plan_again(state, change, f"executor {lost} was lost", ticket=ticket)


def note_waiting(state: LoopState, what: str, query: str) -> Turn:
    """Note at a batch of ``query`` that the phase waits for ``what``, and since when."""
    why = f"{what} not ready after {state.phase.waited_s(state):.0f} s"
    return state, (note(state, "wait", why, query=query),), None


def _cancelled(ticket: int | None) -> tuple[Instruction, ...]:
    return () if ticket is None else (Cancel(ticket),)


def _ended(
    state: LoopState, *, done: bool, then: TakeOn | None = None
) -> tuple[LoopState, tuple[Instruction, ...], Rest]:
    """Report the end to the goal and begin the cooldown; a request that waited is next."""
    memory = state.policy.goal.after_change(state.memory, state.observed, done=done)
    learning = state.learning
    if state.now_ms is not None:
        learning = learning.resized(state.on_the_wall(state.now_ms), len(state.executors))
    standing = bool(state.policy.standbys)
    dropped: tuple[Instruction, ...] = (DropCopies(),) if state.copied and not standing else ()
    if state.copied:  # what follows now is not what was asked for
        forgotten = replace(state.standbys, wanted={}, there=frozenset(), leftover=standing)
        state = replace(state, standbys=forgotten)
    rest = Rest(then if state.request is None else TakeRequest(state.request, otherwise=then))
    state = replace(
        state,
        copied=False,
        signal=Signal(),
        changed_ms=state.now_ms,
        memory=memory,
        learning=learning,
        request=None,
    )
    return state, dropped, rest


def _figures(state: LoopState, change: Change) -> dict[str, Number]:
    progress = change.progress
    figures: dict[str, Number] = {
        "executors_before": change.before,
        "executors_after": len(state.executors),
        "executors_wanted": change.executors,
        "tasks_moved": progress.tasks_moved,
        "state_bytes_moved": progress.bytes_moved,
        "tasks_ahead": progress.tasks_ahead,
        "state_bytes_ahead": progress.bytes_ahead,
        "bytes_from_storage": progress.copied_from_storage,
        "bytes_from_executors": progress.copied_from_executors,
        "batches": progress.batches,
        "replans": change.replans,
        "seconds": round(state.passed_s(change.asked_ms), 1),
    }
    if progress.worst_ms:
        worst = max(progress.worst_ms, key=lambda query: _slowdown(change, query))
        figures["worst_batch_ms"] = round(progress.worst_ms[worst], 1)
        if worst in progress.before_ms:
            figures["median_batch_ms_before"] = round(progress.before_ms[worst], 1)
    return figures


def _slowdown(change: Change, query: str) -> float:
    progress = change.progress
    return progress.worst_ms[query] / max(progress.before_ms.get(query, 1.0), 1.0)
