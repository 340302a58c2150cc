"""Pause and resume: each query that has tasks to move stops, and goes on with them in their places.

Paper 004, section 6.3: the application is paused, state is exported to a data store, and the
operators go on in their new places from there. Here the data store is the checkpoint, which has
all state after every batch. A query stops at a batch boundary and is started again; before its
first batch is planned, the runtime is told where its tasks shall be. It costs the stop, the start
and the loading of *all* state of the query, moved or not; rows wait meanwhile and none is lost.

Queries are paused one after the other, those without tasks to move not at all. The first batch
after a pause shows whether every task is in its place; a task that is not is moved live. A query
that has no rows after its pause shows nothing, and is not waited for: its first batch, whenever it
comes, is planned with its tasks in their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import ClassVar, Final

from elastream.core.change import Change, Destination
from elastream.core.events import (
    Answered,
    BatchObserved,
    Event,
    Instruction,
    Pause,
    QueryLeft,
    Status,
    Tick,
)
from elastream.core.goal import Failure
from elastream.core.migrator.ending import abandon_change, note_waiting, plan_again
from elastream.core.next import BeginMoving
from elastream.core.ports import Paused, Stopped
from elastream.core.state import LoopState, Phase, Turn, note
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.words import counted, listed

__all__ = ["Resuming", "begin_pausing"]

_LONGEST_S: Final = 3600.0
"""After so long the loop goes on; what was begun is brought to its end without it."""
_QUIET_S: Final = 15.0
"""A query that was started again and has had no rows for so long will show nothing. A query
that starts is told as idle too, so it is longer than that takes on most machines; where it is not,
the change goes on without having seen its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming(Phase):
    """Queries are stopped and started again, one after the other."""

    moves_state: ClassVar[bool] = True

    change: Change
    target: Destination
    sizes: Mapping[TaskId, float]
    """State of the tasks that move, in bytes."""
    left: tuple[str, ...]
    """The queries whose turn has not come."""
    since_ms: int | None
    ticket: int | None = None
    """Of the pause under way; ``None`` while only first batches are waited for."""
    query: str | None = None
    """The query that is paused."""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """The runs that were stopped, by query."""
    awaited: frozenset[str] = frozenset()
    """Queries whose first batch after the pause has not come."""
    quiet_ms: int | None = None
    """Since when all of these have been idle."""

    def on(self, state: LoopState, event: Event) -> Turn:
        """Go from query to query; when all run again, see that every task is in its place."""
        match event:
            case Answered(ticket=ticket, result=Paused() as paused) if ticket == self.ticket:
                return self._resumed(state, paused)
            case Answered(ticket=ticket, result=Stopped(why=why)) if ticket == self.ticket:
                return abandon_change(state, self.change, why)
            case Answered(ticket=ticket, result=result) if ticket == self.ticket:
                why = result.why if isinstance(result, Failure) else "no answer came"
                return abandon_change(state, self.change, f"{self.query} was not paused: {why}")
            case BatchObserved(batch=batch) if self._is_first(batch):
                return self._shown(state, batch)
            case BatchObserved(batch=batch):
                waited = "a first batch" if self.query is None else f"the pause of {self.query}"
                return note_waiting(state, waited, self.since_ms, batch.query)
            case QueryLeft(query=query, run=run) if self.stopped.get(query) != run:
                return self._without(state, query)
            case Status(at_ms=at_ms, idle=idle):
                waiting = self.ticket is None and bool(self.awaited)
                since_ms = self.quiet_ms if self.quiet_ms is not None else at_ms
                quiet = replace(
                    self, quiet_ms=since_ms if waiting and self.awaited <= idle else None
                )
                return quiet._looked(replace(state, phase=quiet))
            case Tick():
                return self._looked(state)
            case _:
                return state, (), None

    @property
    def paused(self) -> str | None:
        """The query whose pause is under way."""
        return None if self.ticket is None else self.query

    def _is_first(self, batch: BatchObservation) -> bool:
        return batch.query in self.awaited and batch.run != self.stopped[batch.query]

    def _resumed(self, state: LoopState, paused: Paused) -> Turn:
        spent_s = sum(paused.spent_s.values())
        progress = self.change.progress
        progress = replace(progress, paused_s=progress.paused_s + spent_s)
        resumed = replace(
            self, change=replace(self.change, progress=progress), ticket=None, query=None
        )
        figures = {f"{what}_s": round(seconds, 2) for what, seconds in paused.spent_s.items()}
        why = f"{self.change.kind}: it was paused for {spent_s:.1f} s and runs again"
        log = note(state, "migrate", why, query=self.query, figures=figures)
        state, instructions, following = resumed._next(replace(state, phase=resumed))
        return state, (log, *instructions), following

    def _shown(self, state: LoopState, batch: BatchObservation) -> Turn:
        """Count what the first batch after a pause shows in its place."""
        query, goal, progress = state.queries[batch.query], self.target.goal, self.change.progress
        moving = self.target.order.get(batch.query, ())
        landed = [
            task
            for task in moving
            if task in query.load.tasks and query.where(task) == goal.get(task)
        ]
        progress = replace(
            progress,
            tasks_moved=progress.tasks_moved + len(landed),
            bytes_moved=progress.bytes_moved + round(sum(self.sizes[task] for task in landed)),
            batches=progress.batches + 1,
            worst_ms={**progress.worst_ms, batch.query: batch.duration_ms},
        )
        shown = replace(
            self,
            change=replace(self.change, progress=progress),
            awaited=self.awaited - {batch.query},
        )
        there = f"{len(landed)} of {counted(len(moving), 'task')} that move"
        why = f"{self.change.kind}: {there} are in their places after the pause"
        log = note(state, "verify", why, query=batch.query)
        state, instructions, following = shown._next(replace(state, phase=shown))
        return state, (log, *instructions), following

    def _without(self, state: LoopState, query: str) -> Turn:
        """Go on without a query that has ended."""
        rest = replace(
            self,
            target=self.target.without(query),
            left=tuple(name for name in self.left if name != query),
            awaited=self.awaited - {query},
        )
        return rest._next(replace(state, phase=rest))

    def _looked(self, state: LoopState) -> Turn:
        passed_s = state.passed_s(self.since_ms)
        if self.ticket is not None:
            if passed_s <= _LONGEST_S:
                return state, (), None
            why = f"the pause of {self.query} has taken {passed_s:.0f} s already"
            return abandon_change(state, self.change, why, ticket=self.ticket)
        quiet = self.quiet_ms is not None and state.passed_s(self.quiet_ms) > _QUIET_S
        if self.awaited and not quiet and passed_s <= state.policy.timeouts.action_s:
            return state, (), None
        why = f"{self.change.kind}: no batch since the pause shows where its tasks are"
        logs = [note(state, "wait", why, query=query) for query in sorted(self.awaited)]
        silent = replace(self, awaited=frozenset(), quiet_ms=None)
        state, instructions, following = silent._next(replace(state, phase=silent))
        return state, (*logs, *instructions), following

    def _next(self, state: LoopState) -> Turn:
        """Pause the next query; after the last, and its batch, verify and release."""
        if self.ticket is not None:
            return state, (), None
        if self.left:
            return self._pause(state, self.left[0])
        if self.awaited:
            return state, (), None
        lost = sorted(self.target.nodes - state.alive)
        if lost:
            return plan_again(state, self.change, f"executor {listed(lost)} was lost")
        return state, (), BeginMoving(self.change, self.target, logged=True)

    def _pause(self, state: LoopState, name: str) -> Turn:
        query, left = state.queries.get(name), self.left[1:]
        if query is None:
            return replace(self, left=left)._next(state)
        state, ticket = state.ticketed()
        progress = self.change.progress
        if query.recent_ms:
            before_ms = {**progress.before_ms, name: median(query.recent_ms)}
            progress = replace(progress, before_ms=before_ms)
        awaited = self.awaited if query.idle else self.awaited | {name}
        pausing = replace(
            self,
            change=replace(self.change, progress=progress),
            left=left,
            since_ms=state.now_ms,
            ticket=ticket,
            query=name,
            stopped={**self.stopped, name: query.run},
            awaited=awaited,
        )
        places = {task: node for task, node in self.target.goal.items() if task.query == name}
        moving = counted(len(self.target.order.get(name, ())), "task")
        log = note(state, "migrate", f"{self.change.kind}: paused for {moving} to move", query=name)
        state = replace(state, phase=pausing, pauses=state.pauses + 1)
        return state, (log, Pause(ticket, name, places)), None


def begin_pausing(state: LoopState, change: Change, target: Destination) -> Turn:
    """Pause the queries that have tasks to move, or go on where none has."""
    observed, loads = state.observed, dict(state.observed.tasks())
    moving = {
        query: tuple(t for t in tasks if t in loads and observed.where(t) != target.goal[t])
        for query, tasks in target.order.items()
    }
    queries = tuple(query for query, tasks in moving.items() if tasks)
    sizes = {task: loads[task].state_bytes for tasks in moving.values() for task in tasks}
    log: tuple[Instruction, ...] = ()
    if change.placement is not None:
        log = (note(state, "plan", f"{counted(len(sizes), 'task')} move"),)
    target = replace(target, order={query: moving[query] for query in queries})
    resuming = Resuming(
        change=change, target=target, sizes=sizes, left=queries, since_ms=state.now_ms
    )
    state, instructions, following = resuming._next(replace(state, phase=resuming))
    return state, (*log, *instructions), following
