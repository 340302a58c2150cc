"""Scenes: the whole loop at one moment, for those who watch. Nothing is decided by them.

The page, the metrics and the terminal show scenes and nothing else, so that a run looks the same
while it goes on and when it is read from its log (:mod:`elastream.core.scene_lines`).

A step that has led to something new becomes a scene. So that a scene can say how long a change will
take, the time of each phase is kept: the last change of its kind shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from elastream.core.application import Query
from elastream.core.events import Instruction
from elastream.core.goal import Marks
from elastream.core.guards import active_guards
from elastream.core.memory import memory_warnings, store_memory_bytes
from elastream.core.state import LoopState, Transition
from elastream.model.observation import BatchObservation, ExecutorMemory, TaskId
from elastream.model.words import pluralize

Mode = Literal["acts", "advises", "let go"]

_EVERY_S: Final = 0.5
_S_A_TASK: Final = 0.0005
"""Scenes of many tasks are further apart, so that showing them costs the same."""
_WHEN_QUIET_S: Final = 5.0
_SILENT: Final = "the monitor reports nothing: what is shown may be out of date"


@dataclass(frozen=True, slots=True)
class SceneLoop:
    """The loop itself."""

    mode: Mode
    phase: str
    """What is under way: ``steady``, or the phase of a change."""
    goal: str
    planner: str
    least: int
    most: int
    tau: float
    """An executor may hold ``(1 + tau)`` times the mean load after a plan."""
    marks: Marks | None
    utilisation: float | None
    """Mean over the executors, as the goal counts it."""
    cooldown_until_ms: int | None
    """Until when nothing new is decided; ``None`` before any change has ended."""
    attached_ms: int | None
    executor_s: float
    """What the executors have cost since then, spares included."""
    spare_executor_s: float
    unknown: tuple[str, ...] = ()
    """What it does not know, a sentence each."""
    guards: Mapping[str, str] = field(default_factory=dict)
    """What holds changes back now, by name, a sentence each."""
    warnings: tuple[str, ...] = ()
    """What will be trouble unless somebody does something, a sentence each."""
    largest_step: int | None = None
    """Most executors that one change of a goal adds or gives back."""


@dataclass(frozen=True, slots=True)
class SceneExecutor:
    """One executor that is alive."""

    host: str
    cores: int
    slots: int
    """How many tasks it runs at once."""
    warm: bool
    spare: bool
    busy: float | None
    """Share of its slots' time that it works; ``None`` while that is not known."""
    store_memory_bytes: int = 0
    """Memory that its state stores report to use, native memory included."""
    memory: ExecutorMemory = field(default_factory=ExecutorMemory)


@dataclass(frozen=True, slots=True)
class SceneQuery:
    """One query that takes part."""

    tasks: int
    """Of a whole batch."""
    trigger_ms: float | None
    idle: bool
    batch: int | None
    batch_ms: float | None
    rows_per_s: float | None
    """Input rows worked off per second."""
    arrivals_per_s: float | None
    """Input rows that arrive per second; ``None`` where the source does not report its backlog."""
    backlog: int | None
    state_bytes: int
    slots: int = 0
    """How many slots a batch takes all at once, in Real-time Mode; else 0."""
    ends_at_ms: int | None = None
    """When the batch under way will end, in Real-time Mode; ``None`` at a boundary."""
    gap_ms: float | None = None
    """What the last boundary took, until all tasks were launched again."""
    latency_ms: float | None = None
    """From a row's arrival to its result; ``None`` where that is not measured."""


@dataclass(frozen=True, slots=True)
class SceneTask:
    """One task and its state."""

    executor: str
    work: float
    """Cores it keeps busy."""
    state_bytes: int
    standby: str | None = None
    """The executor that holds a copy of its state."""
    heading: str | None = None
    """The executor it is about to move to."""


@dataclass(frozen=True, slots=True)
class SceneChange:
    """The change under way."""

    kind: str
    before: int
    executors: int
    reason: str
    asked_ms: int | None
    phase: str
    tasks_moved: int
    state_bytes_moved: int
    tasks_ahead: int
    state_bytes_ahead: int
    replans: int
    left_s: float | None
    """How much longer it is expected to take; ``None`` while none of its kind has ended."""
    usual_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SceneBatch:
    """A batch that has ended."""

    query: str
    batch: int
    at_ms: int
    ms: float
    rows: int


@dataclass(frozen=True, slots=True)
class Scene:
    """All of it."""

    at_ms: int
    loop: SceneLoop
    executors: Mapping[str, SceneExecutor] = field(default_factory=dict)
    """By id, oldest first."""
    queries: Mapping[str, SceneQuery] = field(default_factory=dict)
    tasks: Mapping[TaskId, SceneTask] = field(default_factory=dict)
    """In the order of task ids."""
    change: SceneChange | None = None
    batches: tuple[SceneBatch, ...] = ()
    """Those that have ended since the scene before."""


@dataclass(frozen=True, slots=True)
class RecordScene:
    """Show a scene; it is taken where it is shown, which may take a while."""

    state: LoopState
    batches: tuple[BatchObservation, ...] = ()
    """Those since the scene before."""


def with_scene_if_due(
    before: LoopState, after: Transition
) -> tuple[LoopState, tuple[Instruction | RecordScene, ...]]:
    """Return what a step has led to, with the scene to be shown where one is due.

    It is due where a phase, the executors, the queries or the copies have changed, after batches,
    and from time to time where nothing happens.
    """
    state, instructions = after
    state = _with_spans(before, state)
    changed = (
        state.shown_ms is None
        or type(before.phase) is not type(state.phase)
        or before.all_executors != state.all_executors
        or before.standbys.there != state.standbys.there
        or before.queries.keys() != state.queries.keys()
        or before.pause != state.pause
        or before.policy is not state.policy
    )
    tasks = sum(len(query.load.tasks) for query in state.queries.values())
    every_s = max(_EVERY_S, tasks * _S_A_TASK) if state.unshown else _WHEN_QUIET_S
    if not changed and state.passed_s(state.shown_ms) < every_s:
        return state, instructions
    record = RecordScene(state, state.unshown)
    return replace(state, shown_ms=state.now_ms, unshown=()), (*instructions, record)


def take_scene(state: LoopState, batches: Iterable[BatchObservation] = ()) -> Scene:
    """Return what there is to see of a state. O(tasks and executors)."""
    stores = store_memory_bytes(state)
    return Scene(
        at_ms=state.observed.wall_ms or 0,
        loop=_loop(state),
        executors={
            each.id: SceneExecutor(
                host=each.host,
                cores=each.cores,
                slots=each.slots,
                warm=each.warm,
                spare=each.id in state.spare_ids,
                busy=executor_utilisation(state, each.id, each.slots),
                store_memory_bytes=stores.get(each.id, 0),
                memory=state.executor_memory.get(each.id, ExecutorMemory()),
            )
            for each in state.all_executors
        },
        queries={query.name: _query(state, query) for query in state.queries.values()},
        tasks=_tasks(state),
        change=_change(state),
        batches=tuple(
            SceneBatch(
                each.query,
                each.batch,
                state.on_the_wall(each.finished_at_ms),
                each.duration_ms,
                each.rows,
            )
            for each in batches
        ),
    )


def executor_utilisation(state: LoopState, executor: str, slots: int) -> float | None:
    """Return the share of its slots' time that an executor works; ``None`` while unknown."""
    queries, observed = state.queries.values(), state.observed
    if not any(query.load.measured for query in queries):
        return None
    held = sum(observed.slots_busy(query, query.load.held.get(executor, 0.0)) for query in queries)
    return (held + observed.outside(executor)) / slots


def expected_left_s(state: LoopState) -> float | None:
    """Return how much longer the change under way will take if it goes like the last of its kind.

    ``None`` where nothing is under way, or none of its kind has ended. Of a phase that takes
    longer than last time nothing is expected to be left.
    """
    change = state.phase.change
    last = None if change is None else state.spans.last.get(change.kind)
    if last is None:
        return None
    name, spans = state.phase.name, state.spans
    over = spans.present.keys() - {name}
    spent_s = spans.present.get(name, 0.0) + state.passed_s(spans.since_ms)
    return sum(
        max(0.0, seconds - spent_s) if phase == name else seconds
        for phase, seconds in last.items()
        if phase not in over
    )


def unknowns(state: LoopState) -> tuple[str, ...]:
    """Return what the loop does not know, a sentence each."""
    found = [_SILENT] if state.silent else []
    if not state.queries:
        found.append("no query takes part yet")
    for query in state.queries.values():
        found += _unknown_of(query)
    return tuple(found)


def _with_spans(before: LoopState, after: LoopState) -> LoopState:
    """Return the state after a step with what its phases took, where one has ended in it."""
    if type(before.phase) is type(after.phase):
        return after
    spans = after.spans
    change = before.phase.change
    present = dict(spans.present)
    if change is not None:
        name = before.phase.name
        present[name] = present.get(name, 0.0) + after.passed_s(spans.since_ms)
    if change is not None and after.phase.change is None:
        spans = replace(spans, last={**spans.last, change.kind: present})
        present = {}
    return replace(after, spans=replace(spans, present=present, since_ms=after.now_ms))


def _unknown_of(query: Query) -> list[str]:
    load = query.load
    if load.batch is None:
        return [f"no batch of {query.name} has been seen yet"]
    found = []
    if not load.measured:
        found.append(f"what the tasks of {query.name} cost is not measured yet")
    if query.fewer_tasks is not None:
        seen = f"{query.fewer_tasks} of {pluralize(query.tasks, 'task')}"
        found.append(f"the batches of {query.name} show {seen}")
    if load.backlog is None:
        found.append(f"the source of {query.name} does not report its backlog")
    return found


def _loop(state: LoopState) -> SceneLoop:
    policy = state.policy
    mode: Mode = "advises" if policy.advise_only else "acts"
    if state.phase.detached:
        mode = "let go"
    cooldown_ms = None
    if state.changed_ms is not None:
        cooldown_ms = state.on_the_wall(state.changed_ms) + round(1000 * policy.cooldown_s)
    return SceneLoop(
        mode=mode,
        phase=state.phase.name,
        goal=policy.goal.name,
        planner=policy.planner_name,
        least=policy.min_executors,
        most=policy.max_executors,
        tau=policy.tau,
        marks=policy.goal.marks,
        utilisation=policy.goal.utilisation(state.observed),
        cooldown_until_ms=cooldown_ms,
        attached_ms=_on_the_wall(state, state.attached_ms),
        executor_s=state.executor_s,
        spare_executor_s=state.spare_executor_s,
        unknown=unknowns(state),
        guards={} if state.phase.detached else active_guards(state),
        warnings=memory_warnings(state),
        largest_step=policy.largest_step,
    )


def _query(state: LoopState, query: Query) -> SceneQuery:
    load = query.load
    return SceneQuery(
        tasks=query.tasks,
        trigger_ms=query.trigger_ms,
        idle=query.idle,
        batch=load.batch,
        batch_ms=load.batch_ms,
        rows_per_s=load.rows_per_s,
        arrivals_per_s=load.arrivals_per_s,
        backlog=load.backlog,
        state_bytes=round(load.state_bytes),
        slots=query.slots,
        ends_at_ms=_on_the_wall(state, query.ends_at_ms),
        gap_ms=query.gap_ms,
        latency_ms=load.latency_ms,
    )


def _tasks(state: LoopState) -> dict[TaskId, SceneTask]:
    target, standbys = state.phase.target, state.standbys
    goal: Mapping[TaskId, str] = {} if target is None else (target.later or target).goal
    tasks = {}
    for query in state.queries.values():
        for task, load in query.load.tasks.items():
            executor = query.where(task)
            heading = goal.get(task)
            tasks[task] = SceneTask(
                executor=executor,
                work=load.work,
                state_bytes=round(load.state_bytes),
                standby=standbys.holder(task),
                heading=None if heading == executor else heading,
            )
    return tasks


def _on_the_wall(state: LoopState, at_ms: int | None) -> int | None:
    return None if at_ms is None else state.on_the_wall(at_ms)


def _change(state: LoopState) -> SceneChange | None:
    change = state.phase.change
    if change is None:
        return None
    progress = change.progress
    return SceneChange(
        kind=change.kind,
        before=change.before,
        executors=change.executors,
        reason=change.reason,
        asked_ms=_on_the_wall(state, change.asked_ms),
        phase=state.phase.name,
        tasks_moved=progress.tasks_moved,
        state_bytes_moved=progress.bytes_moved,
        tasks_ahead=progress.tasks_ahead,
        state_bytes_ahead=progress.bytes_ahead,
        replans=change.replans,
        left_s=expected_left_s(state),
        usual_ms=change.usual_ms,
    )
