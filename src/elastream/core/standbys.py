"""Standbys: copies of tasks' state that follow on another executor, should their own be lost.

With ``Policy(standbys=1)`` tasks, those that are heaviest to reload first, keep a copy elsewhere
that follows every batch: on a spare where there is one, else on the executor with the least of
them, on another host where there is one. When their executor is lost, they are placed where their
copies are, at once, and load nothing.

Copies cost disk, memory and the replay of every change. ``movement.standby_bytes`` bounds them, and
they are begun while nothing else is under way. A change that copies state ahead keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from elastream.core.events import Cancel, Copy, DropCopies, Instruction, Place
from elastream.core.goal import Failure
from elastream.core.ports import Copied, Placed
from elastream.core.spares import begin_work
from elastream.core.state import LoopState, Recovery, Standbys, Transition, note
from elastream.model.observation import TaskId
from elastream.model.words import join_names, pluralize

_TRY_AGAIN_S: Final = 60.0
"""How long after a failure nothing is tried."""


def choose_standbys(state: LoopState) -> dict[TaskId, str]:
    """Return where tasks shall have a copy; those that have one keep it while it makes sense."""
    observed, has_one = state.observed, state.standbys.wanted
    loads = {task: load for task, load in observed.tasks() if load.state_bytes > 0}
    hosts = {each.id: each.host for each in state.all_executors}
    several = len(set(hosts.values())) > 1
    held = dict.fromkeys(hosts, 0.0)
    places: dict[str | None, dict[str, None]] = {}
    chosen: dict[TaskId, str] = {}
    left = float(state.policy.movement.standby_bytes)
    for task in sorted(loads, key=lambda task: (task not in has_one, -loads[task].state_bytes)):
        size, own = loads[task].state_bytes, observed.where(task)
        others = hosts.get(own) if several else own
        if others not in places:
            places[others] = _places_beyond(state, others, several=several)
        if size > left or not places[others]:
            continue
        kept = has_one.get(task)
        if kept is None or kept not in places[others]:
            kept = min(places[others], key=held.__getitem__)
        chosen[task] = kept
        held[kept] += size
        left -= size
    return chosen


def _places_beyond(state: LoopState, own: str | None, *, several: bool) -> dict[str, None]:
    """Return the executors for copies of tasks on a host, or on an executor where all share one.

    Only spares where there are any. The oldest come first.
    """
    others = [each.id for each in state.all_executors if (each.host if several else each.id) != own]
    spares = [each for each in others if each in state.spare_ids]
    return dict.fromkeys(spares or others)


def still_standing(state: LoopState, besides: Collection[TaskId]) -> dict[TaskId, str]:
    """Return the copies to keep during a change that brings copies of these tasks itself."""
    observed, alive = state.observed, {each.id for each in state.all_executors}
    holders = {
        task: state.standbys.holder(task) for task, _ in observed.tasks() if task not in besides
    }
    return {
        task: holder
        for task, holder in holders.items()
        if holder is not None and holder in alive and holder != observed.where(task)
    }


def update_standbys(state: LoopState, *, resting: bool) -> Transition:
    """Ask for copies where others are wanted than there are; not while a change is under way."""
    standbys, policy = state.standbys, state.policy
    if not policy.standbys or policy.advise_only or not state.can_copy:
        return state, ()
    if standbys.ticket is not None:
        return _overdue(state)
    if not resting or state.is_recent(standbys.failed_ms, _TRY_AGAIN_S):
        return state, ()
    if state.unseen or not any(query.load.measured for query in state.queries.values()):
        return state, ()
    if standbys.recoveries or state.observed.homeless():  # its next batch shows where they are
        return state, ()
    wanted = choose_standbys(state)
    if wanted == standbys.wanted and not standbys.leftover:
        return state, ()
    if not wanted:
        return replace(state, standbys=Standbys()), (DropCopies(),)
    state, ticket = state.ticketed()
    there = standbys.only(wanted).there
    asked = Standbys(wanted, there, ticket, state.now_ms, recoveries=standbys.recoveries)
    return replace(state, standbys=asked), (Copy(ticket, wanted, soon=False),)


def on_copies_result(state: LoopState, result: object) -> Transition:
    """Take in which copies are there."""
    standbys = replace(state.standbys, ticket=None)
    if isinstance(result, Failure):
        return _failed(replace(state, standbys=standbys), result.why)
    assert isinstance(result, Copied)  # noqa: S101 - the answer to a copy
    standbys = replace(standbys, there=result.tasks & standbys.wanted.keys())
    state = replace(with_links(state, result), standbys=standbys)
    wanted, there = len(standbys.wanted), len(standbys.there)
    took_s = state.passed_s(standbys.since_ms)
    reason = f"{there} of {pluralize(wanted, 'task')} have a copy that follows, in {took_s:.0f} s"
    if result.why is not None:
        reason += f"; not all: {result.why}"
    figures = {
        "tasks": wanted,
        "tasks_ahead": there,
        "bytes_ahead": result.bytes,
        "bytes_from_storage": result.bytes_from_storage,
        "bytes_from_executors": result.bytes_from_executors,
    }
    log = note(state, "standby", reason, figures=figures)
    if wanted and not there:
        state = replace(state, standbys=replace(standbys, failed_ms=state.now_ms))
    return state, (log,)


def with_links(state: LoopState, copied: Copied) -> LoopState:
    """Remember what the links of executors were seen to carry."""
    seen = {**state.link_bytes_per_s, **copied.link_bytes_per_s}
    alive = {each.id for each in state.all_executors}
    kept = {executor: rate for executor, rate in seen.items() if executor in alive}
    return replace(state, link_bytes_per_s=kept)


def forget_lost(state: LoopState, copies: Mapping[TaskId, str]) -> Transition:
    """Forget copies that executors at work have dropped, so that they are requested again.

    Where they were requested only a moment ago, that waits: an executor may drop them each time.
    """
    standbys, alive = state.standbys, {each.id for each in state.all_executors}
    lost = {
        task
        for task, holder in copies.items()
        if holder in alive and standbys.holder(task) == holder
    }
    if not lost:
        return state, ()
    soon = state.is_recent(standbys.since_ms, _TRY_AGAIN_S)
    wanted = {task: holder for task, holder in standbys.wanted.items() if task not in lost}
    standbys = replace(
        standbys,
        wanted=wanted,
        there=standbys.there - lost,
        failed_ms=state.now_ms if soon else standbys.failed_ms,
    )
    holders = join_names(sorted({copies[task] for task in lost}))
    reason = f"executor {holders} has dropped the copies of {pluralize(len(lost), 'task')}"
    if soon:
        reason += f"; tried again in {_TRY_AGAIN_S:.0f} s at the earliest"
    figures = {"tasks": len(lost)}
    state = replace(state, standbys=standbys)
    return state, (note(state, "standby", reason, figures=figures),)


def recover(state: LoopState, lost: Sequence[str]) -> Transition:
    """Place the tasks of lost executors at once: where their copies are, or where there is room.

    Spark would put them anywhere, and first wait for the executor that is lost.
    """
    places = {} if state.policy.advise_only else _refuges(state, lost)
    instructions: list[Instruction] = []
    recoveries = dict(state.standbys.recoveries)
    for query, wanted in places.items():
        state, ticket = state.ticketed()
        recoveries[ticket] = Recovery(query, state.queries[query].run, wanted)
        instructions.append(Place(ticket, query, wanted, tuple(lost)))
        state = begin_work(state, set(wanted.values()))
    standbys = replace(state.standbys, recoveries=recoveries)
    return replace(state, standbys=standbys), tuple(instructions)


def _refuges(state: LoopState, lost: Collection[str]) -> dict[str, dict[TaskId, str]]:
    """Return, by query, where the tasks of lost executors shall go: heavy ones first choose."""
    observed, standbys = state.observed, state.standbys
    loads = dict(observed.tasks())
    busy = dict.fromkeys((each.id for each in state.all_executors), 0.0)
    for task, load in loads.items():
        if observed.where(task) in busy:
            busy[observed.where(task)] += load.work
    homeless = [task for task in loads if observed.where(task) in lost]
    places: dict[str, dict[TaskId, str]] = {}
    for task in sorted(homeless, key=lambda task: -loads[task].work):
        holder = standbys.holder(task)
        if loads[task].executor in busy:  # it was only asked to be where it cannot be
            holder = loads[task].executor
        if holder not in busy:
            holder = min(busy, key=lambda node: busy[node], default=None)
        if holder is not None:
            busy[holder] += loads[task].work
            places.setdefault(task.query, {})[task] = holder
    return places


def on_recovery_result(state: LoopState, ticket: int, result: object) -> Transition:
    """Take in what became of tasks that were placed where their copies are.

    Where the query has been started again since, nothing is known of its tasks.
    """
    standbys = state.standbys
    recovery = standbys.recoveries[ticket]
    left = {other: each for other, each in standbys.recoveries.items() if other != ticket}
    state = replace(state, standbys=replace(standbys, recoveries=left))
    query = state.queries.get(recovery.query)
    if query is None or query.run != recovery.run:
        return state, ()
    if not isinstance(result, Placed):
        why = result.why if isinstance(result, Failure) else "no answer"
        why, figures = f"tasks were not placed: {why}", {"tasks_refused": len(recovery.wanted)}
        return state, (note(state, "lost", why, query=query.name, figures=figures),)
    size = sum(query.load.tasks[task].state_bytes for task in result.ahead)
    figures = {
        "tasks": len(recovery.wanted),
        "tasks_ahead": len(result.ahead),
        "bytes_ahead": round(size),
    }
    reason = (
        f"{len(result.ahead)} of {pluralize(len(recovery.wanted), 'task')} had their copies taken "
        "over, and load nothing"
    )
    if result.idle and query.idle:
        believed = {**query.believed, **recovery.wanted}
        state = state.with_query(replace(query, believed=believed, verifications=0))
    if not state.policy.standbys:
        return state, ()
    return state, (note(state, "standby", reason, query=query.name, figures=figures),)


def _overdue(state: LoopState) -> Transition:
    standbys = state.standbys
    passed_s = state.passed_s(standbys.since_ms)
    if standbys.ticket is None or passed_s <= state.policy.timeouts.copy_s:
        return state, ()
    cancel = Cancel(standbys.ticket)
    state = replace(state, standbys=replace(standbys, ticket=None))
    state, log = _failed(state, f"no answer in {passed_s:.0f} s")
    return state, (cancel, *log)


def _failed(state: LoopState, why: str) -> Transition:
    standbys = replace(
        state.standbys, wanted={}, there=frozenset(), failed_ms=state.now_ms, leftover=True
    )
    reason = f"no copies that follow: {why}; tried again in {_TRY_AGAIN_S:.0f} s at the earliest"
    return replace(state, standbys=standbys), (note(state, "standby", reason),)
