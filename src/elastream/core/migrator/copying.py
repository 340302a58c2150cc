"""Copying: the state of tasks that will move travels ahead of them.

Paper 000, section 5.2: while state is on its way, the tasks that stay go on. A task's state is
copied to its target while the task runs where it is, and the copy follows every batch that commits;
then the move itself loads nothing, however large the state is.

Copies are bounded in size (``movement.copy_bytes``) and time (``timeouts.copy_s``). More state is
moved in rounds, each copied, then moved. A task without its copy loads its state in the batch that
moves it, and the log has the reason. A task whose standby is where it goes needs no copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from elastream.core.change import Change, Destination
from elastream.core.events import (
    Answered,
    BatchObserved,
    Cancel,
    Copy,
    Event,
    ExecutorsChanged,
    Instruction,
    QueryLeft,
    Status,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.migrator.ending import note_waiting, plan_without
from elastream.core.next import BeginMoving
from elastream.core.ports import Copied
from elastream.core.standbys import still_standing, with_links
from elastream.core.state import LoopState, Phase, Turn, note
from elastream.model.observation import TaskId
from elastream.model.plan import Move
from elastream.model.words import pluralize

_MOST_ORDERED: Final = 256
"""Of more tasks the order is that of the plan: they are small, and it would take too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copying(Phase):
    """Copies were asked for."""

    change: Change
    target: Destination
    """Where this round leads."""
    ticket: int
    wanted: Mapping[TaskId, str]
    """Where a copy was asked for."""
    moving: frozenset[TaskId]
    """The tasks that move; the others' copies are standbys."""
    forecast_s: float | None = None
    """How long their state should travel in phases; ``None`` where no link was measured."""

    def on(self, state: LoopState, event: Event) -> Turn:
        """Move when the copies are there; without them where they failed or take too long."""
        match event:
            case Answered(ticket=self.ticket, result=Failure(why=why)):
                return self._moving(state, Copied(why=why))
            case Answered(ticket=self.ticket, result=Copied() as copied):
                return self._moving(state, copied)
            case ExecutorsChanged() if not self.target.nodes <= state.alive:
                return plan_without(state, self.change, self.target, ticket=self.ticket)
            case QueryLeft(query=query):
                return self._without(state, query)
            case BatchObserved(batch=batch):
                return note_waiting(state, "copies of state", batch.query)
            case Tick() | Status() if self.waited_s(state) > state.policy.timeouts.copy_s:
                passed_s = self.waited_s(state)
                late = Copied(why=f"no answer in {passed_s:.0f} s")
                state, instructions, following = self._moving(state, late)
                return state, (Cancel(self.ticket), *instructions), following
            case _:
                return state, (), None

    def _without(self, state: LoopState, query: str) -> Turn:
        """Go on without a query that has left."""
        moving = frozenset(task for task in self.moving if task.query != query)
        wanted = {task: node for task, node in self.wanted.items() if task.query != query}
        target = self.target.without(query)
        if not moving:
            return state, (Cancel(self.ticket),), BeginMoving(self.change, target)
        rest = replace(self, target=target, wanted=wanted, moving=moving)
        return replace(state, phase=rest), (), None

    def _moving(self, state: LoopState, copied: Copied) -> Turn:
        wanted, ahead = len(self.moving), copied.tasks & self.moving
        took_s = self.waited_s(state)
        there = f"the state of {len(ahead)} of {pluralize(wanted, 'task')} is ahead of it"
        forecast_s = self.forecast_s if copied.bytes_from_executors else None
        expected = "" if forecast_s is None else f" ({forecast_s:.1f} s by the links)"
        less = "" if copied.why is None else f"; the rest is loaded in its batch: {copied.why}"
        figures = {
            "tasks": wanted,
            "tasks_ahead": len(ahead),
            "bytes_ahead": copied.bytes,
            "bytes_from_storage": copied.bytes_from_storage,
            "bytes_from_executors": copied.bytes_from_executors,
            "seconds": round(took_s, 1),
            **({} if forecast_s is None else {"forecast_s": round(forecast_s, 1)}),
        }
        reason = f"{there}, in {took_s:.1f} s{expected}{_origin(copied)}{less}"
        log = note(state, "copy", reason, figures=figures)
        target = replace(self.target, ahead=self.target.ahead | ahead)
        state = replace(
            with_links(state, copied), standbys=state.standbys.joined(self.wanted, copied.tasks)
        )
        progress = self.change.progress
        progress = replace(
            progress,
            copied_from_storage=progress.copied_from_storage + copied.bytes_from_storage,
            copied_from_executors=progress.copied_from_executors + copied.bytes_from_executors,
        )
        return state, (log,), BeginMoving(replace(self.change, progress=progress), target)


def begin_copying(state: LoopState, change: Change, target: Destination) -> Turn:
    """Ask for copies of what moves next, or move at once where none are made."""
    policy, observed = state.policy, state.observed
    loads = dict(observed.tasks())
    moving = [
        task
        for tasks in target.order.values()
        for task in tasks
        if task in loads
        and {observed.where(task), target.goal[task]} <= state.alive
        and observed.where(task) != target.goal[task]
    ]
    there = {task for task in moving if state.standbys.holder(task) == target.goal[task]}
    target = replace(target, ahead=frozenset(there))
    large = [
        task
        for task in moving
        if task not in there and loads[task].state_bytes >= policy.movement.copy_least_bytes
    ]
    if not state.can_copy or not policy.movement.copy_ahead or not large:
        return state, (), BeginMoving(change, target)
    chosen = _round(
        large, {task: loads[task].state_bytes for task in large}, policy.movement.copy_bytes
    )
    if len(chosen) < len(large):
        target = _only(state, target, [task for task in moving if task not in set(large) - chosen])
    first = [task for task in large if task in chosen]
    sizes = {task: loads[task].state_bytes for task in first}
    order, forecast_s = _in_phases(state, target.goal, sizes)
    copies = {task: target.goal[task] for task in order}
    cancelled: tuple[Instruction, ...] = ()
    if state.standbys.ticket is not None:
        cancelled = (Cancel(state.standbys.ticket),)
    kept = still_standing(state, copies)
    if not policy.standbys:  # what an earlier plan had copied, and this one cannot use
        kept = {task: node for task, node in kept.items() if task in there}
    state, ticket = state.ticketed()
    state = replace(state, standbys=replace(state.standbys.only(kept), ticket=None))
    copying = Copying(
        change=change,
        target=target,
        ticket=ticket,
        since_ms=state.now_ms,
        wanted=kept | copies,
        moving=frozenset(copies),
        forecast_s=forecast_s,
    )
    copy = Copy(ticket, copying.wanted)
    return replace(state, phase=copying, copied=True), (*cancelled, copy), None


def _round(tasks: list[TaskId], sizes: dict[TaskId, float], most: int) -> set[TaskId]:
    """Return the first of the tasks that are within the bound together; always one."""
    chosen: set[TaskId] = set()
    total = 0.0
    for task in tasks:
        total += sizes[task]
        if chosen and total > most:
            break
        chosen.add(task)
    return chosen


def _in_phases(
    state: LoopState, goal: Mapping[TaskId, str], sizes: Mapping[TaskId, float]
) -> tuple[list[TaskId], float | None]:
    """Return tasks in the order in which their state travels in least time (001, section 3).

    No executor sends to two others at once, or receives from two. Links count with what they were
    seen to carry, those not seen yet as the median of the others. Also return the time, where any
    was seen.
    """
    from elastream.placement.transfer.forecast import tasks_in_order, timed_phases

    tasks = list(sizes)
    if len(tasks) > _MOST_ORDERED:
        return tasks, None
    numbers: dict[str, int] = {}
    moves = [
        Move(
            index,
            numbers.setdefault(state.observed.where(task) or "", len(numbers)),
            numbers.setdefault(goal[task], len(numbers)),
            round(sizes[task]),
        )
        for index, task in enumerate(tasks)
    ]
    links = state.link_bytes_per_s
    usual = median(links.values()) if links else 1.0
    phases = timed_phases(moves, [links.get(name, usual) for name in numbers], len(numbers))
    first = dict.fromkeys(tasks[index] for index in tasks_in_order(phases))
    forecast_s = math.fsum(phase.seconds for phase in phases) if links else None
    return list(first | dict.fromkeys(tasks)), forecast_s


def _only(state: LoopState, target: Destination, tasks: Iterable[TaskId]) -> Destination:
    """Return a target in which these tasks move and all others stay, for the time being."""
    observed, moving = state.observed, set(tasks)
    stays = {
        task: observed.where(task)
        for task, _ in observed.tasks()
        if task not in moving and observed.where(task) in state.alive
    }
    goal = {task: stays.get(task, node) for task, node in target.goal.items()}
    order = {
        query: kept
        for query, ours in target.order.items()
        if (kept := tuple(task for task in ours if task in moving))
    }
    nodes = target.nodes | frozenset(goal.values())
    return Destination(goal, order, (), nodes, target.ahead, later=target)


def _origin(copied: Copied) -> str:
    """Return in words where copies came from, and why; what begins a part of a sentence."""
    if not copied.bytes:
        return ""
    sizes = (("executors", copied.bytes_from_executors), ("storage", copied.bytes_from_storage))
    parts = [f"{size / 1e6:.0f} MB from {name}" for name, size in sizes if size]
    why = f" ({copied.choice})" if copied.choice else ""
    return f", {' and '.join(parts)}{why}"
