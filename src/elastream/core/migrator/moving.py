"""Moving: progressive migration. Each query moves at its own boundaries.

Paper 000, section 5.2 (and 001, section 3): several mini-migrations each change a part of the
assignment, so that one big spike of the response time becomes several small ones. Here a
mini-migration is what one micro-batch of a query moves:

1. between two batches of the query the moves of one mini-migration are requested (``Place``);
2. its next batch shows where those tasks really ran. Moves that did not hold, because the request
   was overtaken by the batch or an executor was busy too long, are requested again, a bounded
   number of times. So is a task that has wandered off meanwhile;
3. an idle query runs no batch that could overtake a request, and its state is in the checkpoint:
   all its moves are requested at once and believed; its next batch verifies them;
4. once every task is in its place, executors that leave hold nothing, and only then are they
   released.

In Real-time Mode a batch lasts for seconds or minutes. The moves are requested in its last second
(``BoundaryNear``), and the first look at the batch after the boundary (``LoadObserved``) verifies
them.

A query that is slow or stuck does not hold up the others: once only its tasks are missing, new
decisions are taken; one that reports nothing for too long is left as it is.

The papers' rerouter of misrouted tuples is not needed: placement only changes between batches. The
waiting buffer is the partition's shuffle blocks, and the file server is the checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from elastream.core.application import Query
from elastream.core.change import Change, Destination, Progress
from elastream.core.events import (
    Answered,
    BatchObserved,
    BoundaryNear,
    Event,
    ExecutorsChanged,
    Instruction,
    LoadObserved,
    Log,
    Place,
    QueryLeft,
    Status,
)
from elastream.core.goal import Failure
from elastream.core.load import TaskLoad
from elastream.core.migrator.ending import abandon_change, complete_change, plan_again, plan_without
from elastream.core.next import BeginCopying, BeginReleasing, Reconsider
from elastream.core.policy import Policy
from elastream.core.ports import Placed
from elastream.core.state import LoopState, Phase, Turn, note
from elastream.model.checks import Number
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.words import join_names


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of one query after its last batch."""

    ticket: int
    tasks: tuple[TaskId, ...]
    tries: int = 0
    """How many batches in a row have not obeyed."""
    idle: bool = False
    """Whether it was idle then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving(Phase):
    """Tasks are moving."""

    moves_state: ClassVar[bool] = True

    change: Change
    target: Destination
    asked: Mapping[str, Asked] = field(default_factory=dict)
    """What was asked for last, by query."""
    asks: Mapping[str, int] = field(default_factory=dict)
    """How often something was asked for, by query."""

    def on(self, state: LoopState, event: Event) -> Turn:
        """Move on at each query's boundary; plan anew where an executor that is needed is lost."""
        match event:
            case BatchObserved(batch=batch) if state.queries[batch.query].realtime:
                return self._pass_boundary(state, batch)
            case BatchObserved(batch=batch):
                return self._verify(state, batch)
            case BoundaryNear(query=query):
                return self._approach_boundary(state, state.queries[query])
            case LoadObserved(load=load):
                return self._look(state, state.queries[load.query])
            case Answered(ticket=ticket, result=result):
                return self._placed(state, ticket, result)
            case ExecutorsChanged() if not self.target.nodes <= state.alive:
                return plan_without(state, self.change, self.target)
            case QueryLeft(query=query):
                return self._without(state, query)
            case Status():
                return self._check_idle(state)
            case _:
                return state, (), None

    def missing(self, query: Query) -> tuple[TaskId, ...]:
        """Return the tasks of a query that are not where they should be, those to move first."""
        return self.target.missing(query)

    def _verify(self, state: LoopState, batch: BatchObservation) -> Turn:
        """Count the requested moves that the batch has made, and request the next ones."""
        query = state.queries[batch.query]
        change = replace(self.change, progress=self._progress(query, batch))
        moving = replace(self, change=change)
        state = replace(state, phase=moving)
        if not self.target.nodes <= state.alive:
            return plan_without(state, change, self.target)
        missing = moving.missing(query)
        if missing:
            return moving._ask(state, query, missing)
        asked = {name: entry for name, entry in self.asked.items() if name != batch.query}
        moving = replace(moving, asked=asked)
        late = moving._late(state)
        if late:
            following = Reconsider(batch.query, late=join_names(late))
            return replace(state, phase=moving), (), following
        log = note(state, "wait", moving._left(state), query=batch.query)
        state, instructions, arrived = moving._arrived(state)
        return state, (log, *instructions), arrived

    def _approach_boundary(self, state: LoopState, query: Query) -> Turn:
        """Request the moves of a Real-time query at the end of its batch."""
        if not self.target.nodes <= state.alive:
            return plan_without(state, self.change, self.target)
        missing = self.missing(query)
        return self._ask(state, query, missing) if missing else (state, (), None)

    def _pass_boundary(self, state: LoopState, batch: BatchObservation) -> Turn:
        """Count a Real-time batch that ended; where its tasks went is seen in the next one."""
        progress = self.change.progress
        if batch.query in self.asked:
            progress = replace(progress, batches=progress.batches + 1)
        moving = replace(self, change=replace(self.change, progress=progress))
        log = note(state, "wait", moving._left(state), query=batch.query)
        return replace(state, phase=moving), (log,), None

    def _look(self, state: LoopState, query: Query) -> Turn:
        """Count the requested moves of a Real-time query that its batch under way has made."""
        if not self.target.nodes <= state.alive:
            return plan_without(state, self.change, self.target)
        entry = self.asked.get(query.name)
        if entry is None:
            return self._arrived(state)
        goal = self.target.goal
        landed = [task for task in entry.tasks if query.where(task) == goal[task]]
        if not landed:
            return state, (), None
        left = tuple(task for task in entry.tasks if task not in landed)
        progress = self.change.progress
        progress = replace(
            progress,
            tasks_moved=progress.tasks_moved + len(landed),
            bytes_moved=progress.bytes_moved + _bytes(query.load.tasks, landed),
        )
        asked = {**self.asked, query.name: replace(entry, tasks=left)}
        if not left:
            del asked[query.name]
        moving = replace(self, asked=asked, change=replace(self.change, progress=progress))
        return moving._arrived(state)

    def _late(self, state: LoopState) -> tuple[str, ...]:
        """Return the queries that all that is missing is of, if all of them are late."""
        now_ms = state.now_ms or 0
        waiting = [query for query in state.queries.values() if self.missing(query)]
        all_late = all(query.late(now_ms) for query in waiting)
        return tuple(query.name for query in waiting) if all_late else ()

    def _ask(self, state: LoopState, query: Query, missing: tuple[TaskId, ...]) -> Turn:
        before = self.asked.get(query.name)
        disobeyed = before is not None and set(before.tasks) & set(missing)
        tries = before.tries + 1 if before is not None and disobeyed else 0
        hopeless = self._hopeless(query, missing, tries, state.policy)
        if hopeless is not None:
            return abandon_change(state, self.change, hopeless)
        ahead = self.target.ahead if tries == 0 else frozenset()
        batch = next(portions(missing, query.load.tasks, state.policy, ahead))
        moving, state, placing = self._place(state, query, batch, tries=tries)
        return replace(state, phase=moving), placing, None

    def _place(
        self, state: LoopState, query: Query, tasks: tuple[TaskId, ...], *, tries: int
    ) -> tuple[Moving, LoopState, tuple[Instruction, ...]]:
        """Ask for the places of these tasks; return the phase after that, too."""
        state, ticket = state.ticketed()
        wanted = {task: self.target.goal[task] for task in tasks}
        asked = {**self.asked, query.name: Asked(ticket, tasks, tries, query.idle)}
        log = self._moving(state, query, tasks, tries)
        change = self.change
        if query.usual_ms is not None and query.name not in change.progress.before_ms:
            before_ms = {**change.progress.before_ms, query.name: query.usual_ms}
            change = replace(change, progress=replace(change.progress, before_ms=before_ms))
        asks = {**self.asks, query.name: self.asks.get(query.name, 0) + 1}
        moving = replace(self, asked=asked, asks=asks, change=change)
        return moving, state, (log, Place(ticket, query.name, wanted))

    def _placed(self, state: LoopState, ticket: int, result: object) -> Turn:
        """Count what was taken over; believe what an idle query was asked for, if it stayed so."""
        name = next((q for q, asked in self.asked.items() if asked.ticket == ticket), None)
        query = None if name is None else state.queries.get(name)
        if name is None or query is None:
            return state, (), None
        entry = self.asked[name]
        placed = result if isinstance(result, Placed) else Placed(idle=False)
        progress = self.change.progress
        progress = replace(
            progress,
            tasks_ahead=progress.tasks_ahead + len(placed.ahead),
            bytes_ahead=progress.bytes_ahead + _bytes(query.load.tasks, placed.ahead),
        )
        if not placed.idle or not query.idle:
            # A batch will show what came of it, or else the next idle time asks again.
            entry = replace(entry, idle=False, tries=entry.tries + entry.idle)
            asked, change = {**self.asked, name: entry}, replace(self.change, progress=progress)
            state = replace(state, phase=replace(self, asked=asked, change=change))
            if not isinstance(result, Failure):
                return state, (), None
            why = f"the runtime did not take the moves: {result.why}"
            figures = {"tasks_refused": len(entry.tasks)}
            return state, (note(state, "wait", why, query=name, figures=figures),), None
        tasks = entry.tasks
        believed = {**query.believed, **{task: self.target.goal[task] for task in tasks}}
        state = state.with_query(replace(query, believed=believed, verifications=0))
        progress = replace(
            progress,
            tasks_moved=progress.tasks_moved + len(tasks),
            bytes_moved=progress.bytes_moved + _bytes(query.load.tasks, tasks),
        )
        moving = replace(self, change=replace(self.change, progress=progress))
        return moving._arrived(state)

    def _without(self, state: LoopState, query: str) -> Turn:
        """Go on without a query that has left."""
        asked = {name: entry for name, entry in self.asked.items() if name != query}
        return replace(self, target=self.target.without(query), asked=asked)._arrived(state)

    def _check_idle(self, state: LoopState) -> Turn:
        """Request all that is left of idle queries at once; give up one that never comes back."""
        instructions: list[Instruction] = []
        moving = self
        for query in state.queries.values():
            silent_s = state.passed_s(query.heard_ms)
            silent = silent_s > state.policy.timeouts.action_s
            missing = moving.missing(query) if query.idle or silent else ()
            if not missing:
                continue
            asked = moving.asked.get(query.name)
            tries = 0 if asked is None else asked.tries
            if query.idle and tries >= state.policy.movement.tries:
                why = f"{_named(missing)} not moved in {tries} tries"
                state, ended, rest = abandon_change(state, moving.change, why)
                return state, (*instructions, *ended), rest
            if query.idle and (asked is None or not asked.idle):
                moving, state, placing = moving._place(state, query, missing, tries=tries)
                state = replace(state, phase=moving)
                instructions += placing
            elif silent:
                why = f"query {query.name} has reported nothing for {silent_s:.0f} s"
                state, ended, rest = abandon_change(state, moving.change, why)
                return state, (*instructions, *ended), rest
        if instructions:
            return state, tuple(instructions), None
        return self._arrived(state)

    def _arrived(self, state: LoopState) -> Turn:
        """Where every task is in its place: release who leaves, or end."""
        state = replace(state, phase=self)
        if any(self.missing(query) for query in state.queries.values()):
            return state, (), None
        if self.target.later is not None:
            return state, (), BeginCopying(self.change, self.target.later)
        surplus = max(0, len(state.executors) - self.change.executors)
        leaving = tuple(node for node in self.target.leaving if node in state.alive)[:surplus]
        if not leaving:
            return complete_change(state, self.change)
        holding = state.observed.holders() & set(leaving)
        if holding and self.change.executors > 0:
            why = f"a task that no plan knew of is on executor {join_names(sorted(holding))}"
            return plan_again(state, self.change, why)
        return state, (), BeginReleasing(self.change, leaving)

    def _progress(self, query: Query, batch: BatchObservation) -> Progress:
        before, asked = self.change.progress, self.asked.get(query.name)
        if asked is None and query.name not in before.worst_ms:
            return before
        tasks = () if asked is None or asked.idle else asked.tasks
        landed = [task for task in tasks if query.where(task) == self.target.goal[task]]
        worst_ms = max(batch.duration_ms, before.worst_ms.get(query.name, 0.0))
        return replace(
            before,
            tasks_moved=before.tasks_moved + len(landed),
            bytes_moved=before.bytes_moved + _bytes(query.load.tasks, landed),
            batches=before.batches + 1,
            worst_ms={**before.worst_ms, query.name: worst_ms},
        )

    def _hopeless(
        self, query: Query, missing: tuple[TaskId, ...], tries: int, policy: Policy
    ) -> str | None:
        """Return why the migration should be given up, or ``None``."""
        if tries >= policy.movement.tries:
            return f"{_named(missing)} not moved in {tries} tries"
        tasks = len(self.target.order.get(query.name, ()))
        if self.asks.get(query.name, 0) > (tasks + 1) * policy.movement.tries:
            return f"tasks keep leaving their places, {_named(missing)} at last"
        return None

    def _moving(self, state: LoopState, query: Query, tasks: tuple[TaskId, ...], tries: int) -> Log:
        left = len(self.missing(query))
        again = f", asked for again ({tries})" if tries else ""
        idle = ", in idle time" if query.idle else ""
        before = self.asked.get(query.name)
        disobeyed = set() if before is None or not tries else set(before.tasks)
        figures: dict[str, Number] = {
            "tasks": len(tasks),
            "bytes": _bytes(query.load.tasks, tasks),
            "tasks_left": left,
            "tries": tries,
            "asked_again": len(disobeyed.intersection(tasks)),
        }
        reason = f"{self.change.kind}: {_named(tasks)} to move{idle}{again}, {left} left"
        busy = state.policy.goal.utilisation(state.observed)
        return note(state, "migrate", reason, query=query.name, utilisation=busy, figures=figures)

    def _left(self, state: LoopState) -> str:
        left = {
            query.name: len(missing)
            for query in state.queries.values()
            if (missing := self.missing(query))
        }
        if not left:
            return f"{self.change.kind}: every task is where it should be"
        return (
            f"{self.change.kind}: {sum(left.values())} tasks of {join_names(list(left))} are left"
        )


def begin_moving(state: LoopState, change: Change, target: Destination) -> Turn:
    """Begin to move; tasks are requested at the next boundary of their query."""
    log: tuple[Log, ...] = ()
    if change.placement is not None:
        why = f"{sum(map(len, target.order.values()))} tasks move"
        log = (note(state, "plan", why),)
    moving = Moving(change=change, target=target)
    queries = {  # the target overrules what was asked for in idle time before it
        name: replace(query, strays={}, verifications=0) for name, query in state.queries.items()
    }
    state, instructions, following = moving._check_idle(
        replace(state, phase=moving, queries=queries)
    )
    return state, (*log, *instructions), following


def portions(
    tasks: Iterable[TaskId],
    loads: Mapping[TaskId, TaskLoad],
    policy: Policy,
    ahead: Collection[TaskId] = (),
) -> Iterator[tuple[TaskId, ...]]:
    """Cut ``tasks`` into portions that each keep the policy's bounds for one batch.

    The state of those that are ``ahead`` travelled before, and counts for nothing.
    """
    most_moves, most_bytes = policy.movement.moves_per_batch, policy.movement.bytes_per_batch
    portion: list[TaskId] = []
    size = 0.0
    for task in tasks:
        travels = 0.0 if task in ahead else loads[task].state_bytes
        size += travels
        full = most_moves is not None and len(portion) >= most_moves
        heavy = most_bytes is not None and size > most_bytes
        if portion and (full or heavy):
            yield tuple(portion)
            portion, size = [], travels
        portion.append(task)
    if portion:
        yield tuple(portion)


def _bytes(loads: Mapping[TaskId, TaskLoad], tasks: Iterable[TaskId]) -> int:
    return round(sum(loads[task].state_bytes for task in tasks if task in loads))


def _named(tasks: Sequence[TaskId]) -> str:
    names = [str(task) for task in tasks]
    return f"task {names[0]}" if len(names) == 1 else f"{len(names)} tasks ({join_names(names)})"
