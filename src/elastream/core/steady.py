"""Steady: nothing is under way. The goal is asked, and a need that lasts becomes a change.

A need must have lasted for ``patience`` rounds, unless the goal is sure, and ``cooldown_s`` must
have passed since the last change ended, well or not; until then it is held back, and the log says
so with the same figures. Two things do not wait: an executor that was lost, and a batch that wants
to run where no executor is alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from elastream.core.application import Query
from elastream.core.change import Change, ChangeKind
from elastream.core.events import (
    Ask,
    BatchObserved,
    Event,
    ExecutorsChanged,
    Instruction,
    LoadObserved,
    Log,
    MoveRequested,
    Place,
    ScaleRequested,
    Status,
)
from elastream.core.goal import Wanted, allowed
from elastream.core.guards import crowded, guard, slots_lacking, stepwise
from elastream.core.migrator.ending import abandon_change
from elastream.core.next import Begin, TakeOn, TakeRequest
from elastream.core.spares import begin_work
from elastream.core.state import LoopState, Phase, Transition, Turn, note
from elastream.model.words import asked_for, join_names, pluralize

_WAKE_AGAIN_S: Final = 5.0
"""How long after a change was given up executors are asked for again where none is alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady(Phase):
    """Nothing is under way."""

    resting: ClassVar[bool] = True

    def on(self, state: LoopState, event: Event) -> Turn:
        """Verify what was asked for in idle time, and decide; a request that waits comes first."""
        if state.request is not None and not state.unseen:
            return replace(state, request=None), (), TakeRequest(state.request)
        match event:
            case LoadObserved(load=load):
                return _decided(state, load.query)
            case BatchObserved(batch=batch) if state.queries[batch.query].realtime:
                return state, (), None
            case BatchObserved(batch=batch):
                state, verified = _verified(state, state.queries[batch.query])
                state, decided, following = _decided(state, batch.query)
                return state, (*verified, *decided), following
            case Status():
                return _decided(state, None)
            case ExecutorsChanged():
                return _decided(state, None, urgent=bool(state.observed.homeless()))
            case _:
                return state, (), None


def take_request(state: LoopState, event: ScaleRequested | MoveRequested) -> Turn:
    """Take on what a person asked for; while something is under way it comes next."""
    policy = state.policy
    if policy.advise_only:
        why = f"a change was {asked_for(event.by)}; the policy only advises"
        return state, (note(state, "refuse", why),), None
    wrong = _wrong(state, event)
    if wrong is not None:
        return state, (note(state, "refuse", wrong),), None
    if not state.phase.resting:
        later = f"a change was {asked_for(event.by)} while one is under way: it comes next"
        log = note(state, "wait", later)
        return replace(state, request=event), (log,), None
    fewer = isinstance(event, ScaleRequested) and event.executors < len(state.executors)
    if fewer and state.unseen:  # which executors hold state is not known yet
        unseen = join_names(state.unseen)
        later = f"fewer were asked for before a batch of {unseen} was seen: they go after that"
        return replace(state, request=event), (note(state, "wait", later),), None
    asked = asked_for(event.by)
    if isinstance(event, MoveRequested):
        state = begin_work(state, set(event.goal.values()))
        alive = len(state.executors)
        change = Change("move", alive, alive, asked, placement=event.goal)
        reason = f"{len(event.goal)} tasks {asked}"
    else:
        alive = len(state.executors)
        kind: ChangeKind = "rebalance"
        if event.executors != alive:
            kind = "scale-out" if event.executors > alive else "scale-in"
        change = Change(kind, alive, event.executors, asked, tau=event.tau)
        reason = f"{kind} to {event.executors}: {asked}"
    return state, (note(state, change.kind, reason),), Begin("growing", change)


def reconsider(state: LoopState, query: str, late: str) -> Turn:
    """Ask the goal although a change waits for late queries; a new change ends that one."""
    return _decided(state, query, late=late)


def take_wanted(state: LoopState, wanted: Wanted) -> Turn:
    """Take on what the goal wants now that a question is answered."""
    wanted = stepwise(state, allowed(wanted, state.observed))
    return _acted(state, wanted, None) if state.phase.resting else (state, (), None)


def take_on(state: LoopState, wanted: Wanted, query: str | None) -> Turn:
    """Begin the change that the goal wants; ``query`` is the one whose batch has just ended."""
    if wanted.need == "hold":
        raise AssertionError("a hold is held back")
    alive = len(state.executors)
    change = Change(wanted.need, alive, wanted.executors, wanted.reason, purpose=wanted.purpose)
    wish = f"{wanted.need} to {wanted.executors}"
    if state.policy.advise_only:
        log = _hold(state, wanted, f"advice is being worked out; {wish} wanted", query)
    else:
        log = note(
            state,
            wanted.need,
            f"{wish}: {wanted.reason}",
            query=query,
            utilisation=wanted.utilisation,
            figures=wanted.figures,
        )
    return state, (log,), Begin("growing", change)


def _wrong(state: LoopState, event: ScaleRequested | MoveRequested) -> str | None:
    if isinstance(event, ScaleRequested):
        least, most = state.policy.min_executors, state.policy.max_executors
        if event.executors == 0 and least == 0 and not state.observed.idle:
            return "0 executors were asked for, and the application has work to do"
        if least <= event.executors <= most:
            fewer = event.executors < len(state.executors)
            lacking = slots_lacking(state, event.executors) if fewer else None
            return None if lacking is None else f"{event.executors} were asked for; {lacking}"
        return f"{event.executors} executors were asked for; allowed are {least} to {most}"
    known = {task for task, _ in state.observed.tasks()}
    unknown = sorted(set(event.goal) - known)
    alive = {executor.id for executor in state.all_executors}
    dead = sorted(set(event.goal.values()) - alive)
    if unknown:
        return f"the placement asked for: task {unknown[0]} is not known"
    crowd = crowded(state, {t: state.observed.where(t) for t in known} | dict(event.goal))
    if crowd is not None:
        return f"the placement asked for: {crowd}"
    return f"the placement asked for: executor {dead[0]} is not alive" if dead else None


def _decided(
    state: LoopState, query: str | None, *, urgent: bool = False, late: str | None = None
) -> Turn:
    """Ask the goal, and do as it wants; ``query`` is the one whose batch has just ended."""
    if not state.executors and state.jobs and state.phase.resting:
        return _woken(state)
    goal = state.policy.goal
    memory, wanted, questions = goal.wanted(state.memory, state.observed)
    wanted = stepwise(state, allowed(wanted, state.observed))
    state = replace(state, memory=memory)
    asks: list[Instruction] = []
    for question in questions:
        state, ticket = state.ticketed()
        state = replace(state, questions={**state.questions, ticket: question})
        asks.append(Ask(ticket, question))
    if query is not None:
        signal = state.signal.said(wanted.need, query, state.running)
        state = replace(state, signal=signal)
    elif state.observed.idle:
        state = replace(state, signal=state.signal.said(wanted.need, "", frozenset()))
    state, instructions, following = _acted(state, wanted, query, urgent=urgent, late=late)
    return state, (*asks, *instructions), following


def _acted(
    state: LoopState,
    wanted: Wanted,
    query: str | None,
    *,
    urgent: bool = False,
    late: str | None = None,
) -> Turn:
    """Begin what is wanted, or say why not; without a batch nothing is said.

    ``late``: the queries that the change under way waits for, where there is one.
    """
    held = held_back(state, wanted, urgent=urgent)
    if held is not None:
        quiet = query is None and not (urgent and wanted.need != "hold")
        return state, () if quiet else (_hold(state, wanted, held, query),), None
    if state.phase.change is None:
        return state, (), TakeOn(wanted, query)
    why = f"it waits for {late} alone, and {wanted.need} is wanted"
    return abandon_change(state, state.phase.change, why, then=TakeOn(wanted, query))


def held_back(state: LoopState, wanted: Wanted, *, urgent: bool) -> str | None:
    """Return why nothing is begun now; ``None`` where something is.

    What is ``urgent`` waits for nothing; to give executors back is never that.
    """
    policy = state.policy
    urgent = urgent and wanted.need != "scale-in"
    if wanted.need == "hold":
        return wanted.reason
    wish = f"{wanted.need} to {wanted.executors} wanted, {wanted.reason}"
    if state.pause is not None:
        return f"paused; {wish}"
    if state.is_recent(state.changed_ms, policy.cooldown_s) and not urgent:
        rest_s = policy.cooldown_s - state.passed_s(state.changed_ms)
        return f"cooling down, {rest_s:.1f} s left; {wish}"
    guarded = None if urgent else guard(state, wanted)
    if guarded is not None:
        return f"{guarded}; {wish}"
    rounds = state.signal.rounds if state.signal.need == wanted.need else 0
    if rounds < policy.patience and not (urgent or wanted.firm):
        return f"asked for in {rounds} of {policy.patience} rounds; {wish}"
    return None


def _woken(state: LoopState) -> Turn:
    """Ask for an executor: a batch wants to run and none is alive."""
    policy = state.policy
    if policy.advise_only or state.is_recent(state.abandoned_ms, _WAKE_AGAIN_S):
        return state, (), None
    wanted = max(1, policy.min_executors)
    waiting = pluralize(state.jobs, "job waits", "jobs wait")
    reason = f"scale-out to {wanted}: {waiting} and no executor is alive"
    log = note(state, "scale-out", reason, figures={"wanted": wanted, "jobs": state.jobs})
    return state, (log,), Begin("growing", Change("scale-out", 0, wanted, "work waits"))


def _verified(state: LoopState, query: Query) -> Transition:
    """Hold what was asked for in idle time against the first batch after it."""
    strays = {task: node for task, node in query.strays.items() if node in state.alive}
    if not query.strays:
        return state, ()
    tries = query.verifications + 1
    if not strays or tries > state.policy.movement.tries:
        why = f"{len(query.strays)} tasks asked for in idle time stay elsewhere"
        log = note(state, "verify", why, query=query.name)
        return state.with_query(replace(query, strays={}, verifications=0)), (log,)
    state = state.with_query(replace(query, strays=strays, verifications=tries))
    state, ticket = state.ticketed()
    why = f"{len(strays)} tasks are not where they were asked for in idle time: asked for again"
    figures = {"tries": tries, "asked_again": len(strays)}
    log = note(state, "verify", why, query=query.name, figures=figures)
    return state, (log, Place(ticket, query.name, strays))


def _hold(state: LoopState, wanted: Wanted, reason: str, query: str | None) -> Log:
    figures = dict(wanted.figures)
    load = None if query is None else state.queries[query].load
    if load is not None and load.batch_ms is not None:
        figures["batch_ms"] = round(load.batch_ms)
    if load is not None and load.interval_ms is not None:
        figures["interval_ms"] = round(load.interval_ms)
    return note(state, "hold", reason, query=query, utilisation=wanted.utilisation, figures=figures)
