"""Spares: executors that are warm and without state, so that a scale-out does not wait.

A new executor takes seconds to start and to be warmed, and takes CPU from those that work. With
``Policy(spares=…)`` that happens beforehand. A scale-out takes spares at once, also one after an
executor was lost. The next one is prepared only while nothing is under way, some batches have ended
since the last change, and they take no longer than usual.

After a scale-in the load has to grow a good deal before the next scale-out: what is freed is given
back, and so are spares, until an executor is above the goal's target again
(:meth:`~elastream.core.goal.Goal.near_scale_out`). With the fewest executors, whose loss must be
made good at once, and for a goal that cannot say how near a scale-out is, spares are always kept:
such a scale-in keeps what it frees where a spare is missing.

Spares count towards ``max_executors``, so that none is kept where all are at work. The goal does
not see them; the log has the executor-seconds they took. Spark sends tasks without state to a spare
as well. One that is seen with a stateful task is no longer a spare: it works.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from elastream.core.events import Cancel, Grow, Instruction, Release, Warm
from elastream.core.goal import Failure
from elastream.core.state import LoopState, Preparation, Transition, note
from elastream.model.observation import Executor
from elastream.model.words import join_names, pluralize

_CALM: Final = 1.2
"""A spare is begun while batches take at most this many times as long as usual."""
_SETTLED: Final = 4
"""Nor before this many batches could be seen after a change, in which a query settles again."""
_TRY_AGAIN_S: Final = 60.0
"""How long after a failure nothing is tried."""


def with_alive(state: LoopState, alive: tuple[Executor, ...]) -> LoopState:
    """Return the state with the executors that are alive now, oldest first.

    One that comes while a spare is awaited is a spare, as long as one is missing. Where no other
    executor is left, the spares work.
    """
    now = {each.id for each in alive}
    names = set(state.spare_ids & now)
    doing = state.preparation
    if doing is not None and doing.what == "growing":
        known = {each.id for each in state.all_executors}
        came = [each.id for each in alive if each.id not in known]
        names.update(came[: max(0, _missing(state))])
    spare_ids = frozenset(names) if names < now else frozenset()
    return replace(state, all_executors=alive, spare_ids=spare_ids)


def begin_work(state: LoopState, ids: Collection[str]) -> LoopState:
    """Return the state in which these executors, where they are spares, are at work."""
    if state.spare_ids.isdisjoint(ids):
        return state
    return replace(state, spare_ids=state.spare_ids.difference(ids))


def take_spares(state: LoopState, number: int) -> Transition:
    """Let up to ``number`` spares work, the warm ones first; those being released do not."""
    doing = state.preparation
    going = doing.ids if doing is not None and doing.what == "releasing" else ()
    staying = (each for each in state.spares if each.id not in going)
    chosen = sorted(staying, key=lambda each: not each.warm)[:number]
    if not chosen:
        return state, ()
    state = begin_work(state, {each.id for each in chosen})
    names = join_names([each.id for each in chosen])
    warm = all(each.warm for each in chosen)
    how = "at once" if warm else "as soon as it is warm"
    return state, (_note(state, f"executor {names}, a spare, is taken {how}"),)


def take_all_spares(state: LoopState) -> LoopState:
    """Return the state without spares: all executors are at work."""
    return begin_work(state, state.spare_ids)


def keep_spares(
    state: LoopState, leaving: tuple[str, ...], working: int
) -> tuple[LoopState, tuple[str, ...], tuple[Instruction, ...]]:
    """Keep, of executors that leave, those that are missing as spares.

    ``working`` is how many will be at work. Return the state, who leaves, and what to log.
    """
    missing = _wanted(state, working) - len(state.spares)
    warm = {each.id for each in state.executors if each.warm}
    kept = [name for name in leaving if name in warm][: max(0, missing)]
    if not kept:
        return state, leaving, ()
    state = replace(state, spare_ids=state.spare_ids.union(kept))
    log = _note(
        state, f"executor {join_names(kept)} holds no state any more and is kept as a spare"
    )
    return state, tuple(name for name in leaving if name not in kept), (log,)


def update_spares(state: LoopState, *, resting: bool) -> Transition:
    """Bring, warm or give back spares where that is due, one thing at a time.

    ``resting``: whether no change is under way; during one nothing new is begun.
    """
    doing = state.preparation
    if doing is not None:
        return _overdue(state, doing)
    policy = state.policy
    if not resting or policy.advise_only or not (policy.spares or state.spares) or not _due(state):
        return state, ()
    if state.falling and policy.goal.near_scale_out(state.memory, state.observed):
        state = replace(state, falling=False)
    surplus = -_missing(state)
    if surplus > 0:
        ids = tuple(each.id for each in state.spares[::-1][:surplus])
        state, ticket = state.ticketed()
        log = _note(state, f"executor {join_names(ids)}, a spare, is one too many: given back")
        doing = Preparation(ticket, "releasing", state.now_ms, ids)
        return replace(state, preparation=doing), (log, Release(ticket, ids))
    cold = tuple(each.id for each in state.spares if not each.warm)
    if cold and policy.movement.warm_up:
        state, ticket = state.ticketed()
        doing = Preparation(ticket, "warming", state.now_ms, cold)
        return replace(state, preparation=doing), (Warm(ticket, cold),)
    if surplus == 0 or not _calm(state):
        return state, ()
    state, ticket = state.ticketed()
    total = len(state.all_executors) - surplus
    log = _note(state, f"{pluralize(-surplus, 'spare')} missing: asked for")
    doing = Preparation(ticket, "growing", state.now_ms)
    return replace(state, preparation=doing), (log, Grow(ticket, total))


def on_spare_result(state: LoopState, result: object) -> Transition:
    """Take in the answer to what was done about spares."""
    doing = state.preparation
    assert doing is not None  # noqa: S101 - its ticket was answered
    if isinstance(result, Failure):
        return _failed(state, f"spares: {doing.what} failed: {result.why}")
    if doing.what == "growing":
        assert isinstance(result, tuple)  # noqa: S101 - the executors alive
        state = replace(with_alive(state, result), preparation=None)
        if (missing := _missing(state)) > 0:
            return _failed(state, f"{pluralize(missing, 'spare')} missing: the cluster has no room")
        return state, ()
    state = replace(state, preparation=None)
    if doing.what == "releasing":
        left = tuple(each for each in state.all_executors if each.id not in doing.ids)
        return with_alive(state, left), ()
    warmed = tuple(
        replace(each, warm=True) if each.id in doing.ids else each for each in state.all_executors
    )
    state = replace(state, all_executors=warmed)
    ready = [name for name in doing.ids if name in state.spare_ids]
    if not ready:  # taken meanwhile
        return state, ()
    took_s = state.passed_s(doing.since_ms)
    return state, (
        _note(state, f"executor {join_names(ready)} is a warm spare, in {took_s:.0f} s"),
    )


def _overdue(state: LoopState, doing: Preparation) -> Transition:
    passed_s = state.passed_s(doing.since_ms)
    if passed_s <= state.policy.timeouts.action_s:
        return state, ()
    state, log = _failed(state, f"spares: no answer while {doing.what} in {passed_s:.0f} s")
    return state, (Cancel(doing.ticket), *log)


def _failed(state: LoopState, why: str) -> Transition:
    state = replace(state, preparation=None, spare_failed_ms=state.now_ms)
    again = f"tried again in {_TRY_AGAIN_S:.0f} s at the earliest"
    return state, (_note(state, f"{why}; {again}"),)


def _wanted(state: LoopState, working: int) -> int:
    """Return how many spares there should be next to this many executors at work."""
    policy = state.policy
    if policy.advise_only or not working:
        return 0
    if state.falling and working > max(1, state.observed.bounds.least):
        return 0
    return max(0, min(policy.spares, policy.max_executors - working))


def _missing(state: LoopState) -> int:
    return _wanted(state, len(state.executors)) - len(state.spares)


def _due(state: LoopState) -> bool:
    """Whether anything may be begun: some task was measured, and the last failure is long ago."""
    if state.is_recent(state.spare_failed_ms, _TRY_AGAIN_S):
        return False
    return any(query.load.measured for query in state.queries.values())


def _calm(state: LoopState) -> bool:
    """Whether queries go at their usual pace, and have had time for it since the last change."""
    running = [state.queries[name] for name in state.running]
    interval_ms = max((query.load.interval_ms or 0.0 for query in running), default=0.0)
    if state.is_recent(state.changed_ms, _SETTLED * interval_ms / 1000):
        return False
    return all(
        query.load.batch_ms is None
        or query.usual_ms is None
        or query.load.batch_ms <= _CALM * query.usual_ms
        for query in running
    )


def _note(state: LoopState, reason: str) -> Instruction:
    figures = {"spares": len(state.spares), "spare_executor_s": round(state.spare_executor_s)}
    return note(state, "spare", reason, figures=figures)
