"""From a decision to a plan: executors come, are warmed, and the tasks to move are chosen.

Grow, warm, then move (the spike of a scale-out is the cold executor, not the state). Each leg is
one action of the runtime; its answer leads to the next leg. Planning starts from the truth: from
the executors that really came and from where the last batch really found every task.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Final

from elastream.control.analyse import attainable_tau
from elastream.control.events import Action, Grow, GrowFinished, Plan, Warm
from elastream.control.outcomes import abandoned
from elastream.control.planning import PlanOrder
from elastream.control.state import (
    Awaiting,
    Intent,
    Locating,
    LoopState,
    Progress,
    Settling,
    Transition,
    noted,
)
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target

__all__ = ["awaiting", "grown", "homeless", "located", "pursued", "settled"]

_USUAL: Final = 1.2
"""A batch is as usual if it takes no longer than so many times the usual one."""
_FALLING: Final = 0.97
"""Batches get shorter if each takes at most this share of the one before."""


def pursued(state: LoopState, intent: Intent) -> Transition:
    """Take the first leg of a change that was decided."""
    usual_ms = median(state.recent_ms) if state.recent_ms else None
    intent = replace(intent, usual_ms=usual_ms)
    if intent.executors > len(state.executors) and not state.policy.advise_only:
        total = min(intent.executors, state.policy.max_executors)
        return awaiting(state, intent, Grow(state.next_ticket, total))
    return _warmed_first(state, intent)


def grown(state: LoopState, phase: Awaiting, event: GrowFinished) -> Transition:
    """Go on with the executors that came, or give up where none did."""
    state = replace(state, executors=event.executors)
    came, intent = len(event.executors), phase.intent
    if came <= intent.before:
        limit_s = state.policy.grow_timeout_s
        why = f"{intent.executors} executors asked for, {came} alive after at most {limit_s:g} s"
        return abandoned(state, intent, why, phase.progress)
    log = noted(state, "wait", f"{came} of {intent.executors} executors are alive")
    state, instructions = _warmed_first(
        state, replace(intent, executors=min(intent.executors, came))
    )
    return state, (log, *instructions)


def settled(state: LoopState, intent: Intent, progress: Progress, *, left: int) -> Transition:
    """Go on when batches are as usual again, or do not get shorter by themselves.

    An executor that starts takes CPU and network from those that work; rows pile up, and a batch
    that works them off is long enough without a move in it. An overloaded query does not recover
    before it gets its executors, so nothing is waited for there.
    """
    usual_ms, last_ms = intent.usual_ms, state.recent_ms[-1] if state.recent_ms else None
    if usual_ms is None or last_ms is None or last_ms <= _USUAL * usual_ms or left == 0:
        return located(state, intent, progress)
    phase = state.phase
    if isinstance(phase, Settling) and last_ms > _FALLING * phase.last_ms:
        return located(state, intent, progress)
    log = noted(
        state,
        "wait",
        f"{intent.change}: batches take {last_ms / usual_ms:.1f} times as long as before; "
        f"up to {left} more to settle",
    )
    return replace(state, phase=Settling(intent, last_ms, left - 1, progress)), (log,)


def located(state: LoopState, intent: Intent, progress: Progress) -> Transition:
    """Ask for a plan, if it is known where every task is; else wait for the next batch."""
    if homeless(state) or not state.executors or not state.load.tasks:
        phase = state.phase
        since_ms = phase.since_ms if isinstance(phase, Locating) else state.load.at_ms
        return replace(state, phase=Locating(intent, since_ms, progress)), ()
    tasks = tuple(state.load.tasks)
    nodes = tuple(executor.id for executor in state.executors)
    number_of = {executor: number for number, executor in enumerate(nodes)}
    loads = tuple(state.load.tasks.values())
    work = tuple(round(load.work, 9) for load in loads)
    target = intent.executors
    if not state.policy.advise_only:
        target = min(target, len(nodes))
    problem = StepProblem(
        work=work,
        state=tuple(round(load.state_bytes) for load in loads),
        current=Assignment(tuple(number_of[load.executor] for load in loads), len(nodes)),
        target=Target(target, attainable_tau(work, target, state.policy)),
    )
    order = PlanOrder(
        problem=problem,
        planner=state.policy.planner,
        max_tasks=state.policy.moves_per_batch,
        max_bytes=state.policy.bytes_per_batch,
    )
    return awaiting(state, intent, Plan(state.next_ticket, order, tasks, nodes), progress)


def awaiting(
    state: LoopState, intent: Intent, action: Action, progress: Progress | None = None
) -> Transition:
    """Ask for ``action`` and wait for its answer."""
    phase = Awaiting(intent, action, state.load.at_ms, progress or Progress())
    return replace(state, phase=phase, next_ticket=state.next_ticket + 1), (action,)


def homeless(state: LoopState) -> int:
    """Return how many tasks are on no executor that is alive."""
    alive = state.alive
    return sum(1 for task in state.load.tasks.values() if task.executor not in alive)


def _warmed_first(state: LoopState, intent: Intent) -> Transition:
    policy = state.policy
    cold = tuple(executor.id for executor in state.executors if not executor.warm)
    if cold and policy.warm_up and not policy.advise_only and intent.change != "scale-in":
        return awaiting(state, intent, Warm(state.next_ticket, cold))
    return located(state, intent, Progress())
