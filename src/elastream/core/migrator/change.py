"""A change: what was decided, how far it has come, and how it ends.

Done, abandoned, or disturbed and planned anew: what moved stays moved, and the next plan starts
from the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from elastream.core.events import Cancel, DropCopies, Instruction, Log
from elastream.core.state import LoopState, Signal, Transition, note
from elastream.model.checks import Number
from elastream.model.observation import TaskId
from elastream.model.words import counted

__all__ = [
    "Change",
    "ChangeKind",
    "Progress",
    "abandon_change",
    "begin_change",
    "complete_change",
    "note_abandoned",
    "note_waiting",
    "plan_again",
]

ChangeKind = Literal["scale-out", "scale-in", "rebalance", "move"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a migration has come."""

    tasks_moved: int = 0
    bytes_moved: int = 0
    tasks_ahead: int = 0
    """How many of them had been copied to where they went, and loaded nothing."""
    bytes_ahead: int = 0
    batches: int = 0
    """Batches of the queries that move, from the first move on."""
    worst_ms: Mapping[str, float] = field(default_factory=dict)
    """The longest of them, by query."""
    paused_s: float = 0.0
    """How long queries were stopped for it, together; 0 where it was live."""
    before_ms: Mapping[str, float] = field(default_factory=dict)
    """Median of a query's last batches before its first move."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was decided."""

    kind: ChangeKind
    before: int
    """How many executors were alive then."""
    executors: int
    """How many there should be."""
    reason: str
    asked_ms: int | None = None
    tau: float | None = None
    """How uneven the load may be afterwards; ``None``: as the policy has it."""
    placement: Mapping[TaskId, str] | None = None
    """Where tasks shall be; ``None``: as a plan will say."""
    replans: int = 0
    """How often it had to be planned anew."""
    usual_ms: Mapping[str, float] = field(default_factory=dict)
    """Median of each query's last batches before it was decided."""
    progress: Progress = Progress()


def begin_change(state: LoopState, change: Change) -> Change:
    """Return the change with what was usual before it."""
    usual_ms = {q.name: median(q.recent_ms) for q in state.queries.values() if q.recent_ms}
    return replace(change, asked_ms=state.now_ms, usual_ms=usual_ms)


def complete_change(state: LoopState, change: Change) -> Transition:
    """Report what was reached; the cooldown begins."""
    progress, now = change.progress, len(state.executors)
    batches = counted(progress.batches, "batch", "batches")
    moved = f"{counted(progress.tasks_moved, 'task')} moved in {batches}"
    reason = f"{change.kind} from {change.before} to {counted(now, 'executor')} done: {moved}"
    log = note(state, "done", reason, figures=_figures(state, change))
    state, more = _ended(state, done=True)
    return state, (log, *more)


def abandon_change(
    state: LoopState, change: Change, why: str, *, ticket: int | None = None
) -> Transition:
    """Give up: what moved stays moved, the rest stays put, the next plan starts from the truth.

    ``ticket`` is what is waited for no more.
    """
    log = note_abandoned(state, change, why)
    cancel: tuple[Instruction, ...] = () if ticket is None else (Cancel(ticket),)
    state, more = _ended(replace(state, abandoned_ms=state.now_ms), done=False)
    return state, (*cancel, log, *more)


def note_abandoned(state: LoopState, change: Change, why: str) -> Log:
    """Return the line that a change is given up."""
    stays = f"{change.progress.tasks_moved} tasks moved and stay moved, the rest stays put"
    reason = f"{change.kind} given up: {why}; {stays}"
    return note(state, "abandon", reason, figures=_figures(state, change))


def plan_again(
    state: LoopState, change: Change, why: str, *, ticket: int | None = None
) -> Transition:
    """Plan anew from the truth, a bounded number of times."""
    from elastream.core.migrator.planning import begin_planning  # phases lead to each other

    if change.placement is not None:
        return abandon_change(
            state, change, f"{why}, and the placement asked for needs it", ticket=ticket
        )
    if change.replans >= state.policy.replans:
        many = f"{why}, after {change.replans} new plans"
        return abandon_change(state, change, many, ticket=ticket)
    log = note(state, "replan", f"{change.kind} is planned anew: {why}")
    cancel: tuple[Instruction, ...] = () if ticket is None else (Cancel(ticket),)
    state, instructions = begin_planning(state, replace(change, replans=change.replans + 1))
    return state, (*cancel, log, *instructions)


def note_waiting(state: LoopState, what: str, since_ms: int | None, query: str) -> Transition:
    """Note at a batch of ``query`` that ``what`` is waited for, and since when."""
    why = f"{what} not ready after {state.passed_s(since_ms):.0f} s"
    return state, (note(state, "wait", why, query=query),)


def _ended(state: LoopState, *, done: bool) -> Transition:
    """Return to rest: the goal hears of it, the cooldown begins, a request that waited is next."""
    from elastream.core.steady import Steady, take_request

    memory = state.policy.goal.reached(state.memory, state.observed, done=done)
    learning = state.learning
    if state.now_ms is not None:
        learning = learning.resized(state.on_the_wall(state.now_ms), len(state.executors))
    standing = bool(state.policy.standbys)
    dropped: tuple[Instruction, ...] = (DropCopies(),) if state.copied and not standing else ()
    if state.copied:  # what follows now is not what was asked for
        forgotten = replace(state.standbys, wanted={}, there=frozenset(), leftover=standing)
        state = replace(state, standbys=forgotten)
    rested = replace(
        state,
        phase=Steady(),
        copied=False,
        signal=Signal(),
        changed_ms=state.now_ms,
        memory=memory,
        learning=learning,
        request=None,
    )
    if state.request is None:
        return rested, dropped
    state, instructions = take_request(rested, state.request)
    return state, (*dropped, *instructions)


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
        "batches": progress.batches,
        "replans": change.replans,
        "seconds": round(state.passed_s(change.asked_ms), 1),
    }
    if progress.paused_s:
        figures["paused_s"] = round(progress.paused_s, 2)
    if progress.worst_ms:
        worst = max(progress.worst_ms, key=lambda query: _slowdown(change, query))
        figures["worst_batch_ms"] = round(progress.worst_ms[worst], 1)
        if worst in progress.before_ms:
            figures["median_batch_ms_before"] = round(progress.before_ms[worst], 1)
    return figures


def _slowdown(change: Change, query: str) -> float:
    progress = change.progress
    return progress.worst_ms[query] / max(progress.before_ms.get(query, 1.0), 1.0)
