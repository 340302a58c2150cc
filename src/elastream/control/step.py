"""The step: one event in, the next state and the instructions out. No clock, no I/O, no chance.

::

    Steady ── decided ──► Awaiting grow ──► Awaiting warm ──► Locating ⇄ Awaiting plan
      ▲                                                          ▲            │
      │                                              disturbed   │            ▼
      └── done, abandoned ◄── Awaiting release ◄────────────── Migrating ◄────┘

Time is the stream's: a batch says when it committed, and cooldown and timeouts are measured by
that. One decision is logged for every batch, also where nothing is done, and one for every other
turn a change takes. The style is that of dask's worker state machine: the same events always lead
to the same instructions.
"""

from __future__ import annotations

from dataclasses import replace

from elastream.control.analyse import utilisation
from elastream.control.decide import decided
from elastream.control.events import (
    AbandonRequested,
    ActionFailed,
    Answer,
    BatchObserved,
    DetachRequested,
    Event,
    ExecutorsChanged,
    Grow,
    GrowFinished,
    MoveRequested,
    PlaceFailed,
    Plan,
    PlanMade,
    Release,
    ReleaseFinished,
    ScaleRequested,
    Warm,
    WarmFinished,
)
from elastream.control.migrate import migrated, planned, released, requested
from elastream.control.observation import Executor
from elastream.control.outcomes import abandoned, disturbed
from elastream.control.policy import Policy
from elastream.control.prepare import grown, homeless, located, pursued, settled
from elastream.control.smoothing import smoothed
from elastream.control.state import (
    RECENT_BATCHES,
    Awaiting,
    Change,
    Detached,
    Intent,
    Locating,
    LoopState,
    Migrating,
    Settling,
    Steady,
    Transition,
    listed,
    noted,
)

__all__ = ["started", "step"]

_AWAITED = {Grow: "executors", Warm: "the warm-up", Plan: "a plan", Release: "the release"}


def started(policy: Policy, executors: tuple[Executor, ...]) -> Transition:
    """Return the loop's first state and what it logs about itself."""
    state = LoopState(policy=policy, executors=executors)
    mode = "advises only" if policy.advise_only else "acts"
    bounds = f"{policy.min_executors} to {policy.max_executors} executors"
    aim = f"target utilisation {policy.target_utilisation:g}, planner {policy.planner_name}"
    return state, (noted(state, "attach", f"attached, {mode}: {bounds}, {aim}"),)


def step(state: LoopState, event: Event) -> Transition:
    """Return the state after ``event`` and the instructions it leads to, in order."""
    if isinstance(state.phase, Detached):
        return state, ()
    match event:
        case BatchObserved():
            return _batch_observed(state, event)
        case ExecutorsChanged(executors=executors):
            return _executors_changed(state, executors)
        case ScaleRequested() | MoveRequested():
            return _requested(state, event)
        case PlaceFailed(why=why):
            return state, (noted(state, "wait", f"the runtime did not take the moves: {why}"),)
        case AbandonRequested(why=why):
            return _abandon_requested(state, why)
        case DetachRequested(reason=reason):
            log = noted(state, "detach", reason)
            return replace(state, phase=Detached()), (log,)
        case _:
            return _answered(state, event)


def _batch_observed(state: LoopState, event: BatchObserved) -> Transition:
    known = state.load.batch
    if known is not None and event.batch.batch <= known:
        return replace(state, executors=event.executors), ()
    load = smoothed(state.load, event.batch, event.executors, half_life_s=state.policy.smoothing_s)
    state = replace(state, load=load, executors=event.executors)
    if isinstance(state.phase, Migrating):
        return migrated(state, state.phase)
    recent = (*state.recent_ms, event.batch.duration_ms)[-RECENT_BATCHES:]
    state = replace(state, recent_ms=recent)
    match state.phase:
        case Awaiting() as phase:
            return _waited(state, phase)
        case Locating() as phase:
            return _located(state, phase)
        case Settling() as phase:
            return settled(state, phase.intent, phase.progress, left=phase.left)
        case _:
            return decided(state)


def _waited(state: LoopState, phase: Awaiting) -> Transition:
    """Go on waiting for an action, up to its timeout: not ready is not failed."""
    what = _AWAITED[type(phase.action)]
    passed_s = _passed_s(state, phase)
    if passed_s > state.policy.action_timeout_s:
        why = f"no answer about {what} in {passed_s:.0f} s"
        return abandoned(state, phase.intent, why, phase.progress)
    reason = f"{phase.intent.change}: {what} not ready after {passed_s:.0f} s"
    return state, (noted(state, "wait", reason, utilisation=_busy(state)),)


def _located(state: LoopState, phase: Locating) -> Transition:
    """Plan if this batch has shown where every task is; else go on waiting."""
    lost = homeless(state)
    passed_s = _passed_s(state, phase)
    if lost and passed_s > state.policy.action_timeout_s:
        why = f"{lost} tasks not seen on any living executor in {passed_s:.0f} s"
        return abandoned(state, phase.intent, why, phase.progress)
    seen = f"{lost} tasks are on no living executor" if lost else "it is known where the tasks are"
    log = noted(state, "wait", f"{phase.intent.change}: {seen}", utilisation=_busy(state))
    state, instructions = located(state, phase.intent, phase.progress)
    return state, (log, *instructions)


def _passed_s(state: LoopState, phase: Awaiting | Locating) -> float:
    if state.load.at_ms is None or phase.since_ms is None:
        return 0.0
    return (state.load.at_ms - phase.since_ms) / 1000


def _executors_changed(state: LoopState, executors: tuple[Executor, ...]) -> Transition:
    lost = state.alive - {executor.id for executor in executors}
    state = replace(state, executors=executors)
    phase = state.phase
    if isinstance(phase, Migrating) and lost & set(phase.goal.values()):
        why = f"executor {listed(sorted(lost))} was lost"
        return disturbed(state, phase.intent, why, phase.progress)
    return state, ()


def _requested(state: LoopState, event: ScaleRequested | MoveRequested) -> Transition:
    policy = state.policy
    if policy.advise_only:
        return state, (noted(state, "refuse", "a change was asked for; the policy only advises"),)
    if not isinstance(state.phase, Steady):
        return state, (noted(state, "refuse", "a change was asked for while one is under way"),)
    if isinstance(event, MoveRequested):
        return requested(state, event)
    least, most = policy.min_executors, policy.max_executors
    if not least <= event.executors <= most:
        wrong = f"{event.executors} executors were asked for; allowed are {least} to {most}"
        return state, (noted(state, "refuse", wrong),)
    alive = len(state.executors)
    change: Change = "rebalance"
    if event.executors != alive:
        change = "scale-out" if event.executors > alive else "scale-in"
    intent = Intent(change, alive, event.executors, "asked for")
    log = noted(state, change, f"{change} to {event.executors}: asked for")
    state, instructions = pursued(state, intent)
    return state, (log, *instructions)


def _abandon_requested(state: LoopState, why: str) -> Transition:
    phase = state.phase
    if isinstance(phase, Steady | Detached):
        return state, (noted(state, "refuse", "nothing is under way that could be given up"),)
    return abandoned(state, phase.intent, why, phase.progress)


def _answered(state: LoopState, event: Answer) -> Transition:
    """Take the answer to an action; pass over one that nobody waits for any more."""
    phase = state.phase
    if not isinstance(phase, Awaiting) or phase.action.ticket != event.ticket:
        return state, ()
    match phase.action, event:
        case Grow(), GrowFinished():
            return grown(state, phase, event)
        case Warm(), WarmFinished():
            left = state.policy.settle_batches
            return settled(state, phase.intent, phase.progress, left=left)
        case Plan() as action, PlanMade(route=route):
            return planned(state, phase, action, route)
        case Release() as action, ReleaseFinished():
            return released(state, phase, action)
        case Warm(), ActionFailed(why=why):
            log = noted(state, "wait", f"not warmed, going on cold: {why}")
            state, instructions = located(state, phase.intent, phase.progress)
            return state, (log, *instructions)
        case Release(), ActionFailed(why=why):
            return disturbed(state, phase.intent, f"not released: {why}", phase.progress)
        case _, ActionFailed(why=why):
            what = _AWAITED[type(phase.action)]
            return abandoned(state, phase.intent, f"{what} failed: {why}", phase.progress)
        case _:
            return state, ()


def _busy(state: LoopState) -> float | None:
    return utilisation(state.load, state.executors, state.policy)
