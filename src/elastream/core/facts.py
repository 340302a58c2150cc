"""Facts taken in: what an event reports of queries, executors and time, before anything follows.

Also the accidents that concern no phase: a query joins or leaves, an executor is lost, a batch
shows fewer tasks than the query has, the monitor reports nothing.
"""

from __future__ import annotations

from dataclasses import replace

from elastream.core.application import RECENT_BATCHES, Query
from elastream.core.events import (
    BatchObserved,
    BoundaryNear,
    CopiesLost,
    Event,
    ExecutorsChanged,
    Instruction,
    LoadObserved,
    QueryJoined,
    QueryLeft,
    QueryPassedOver,
    QueryRestarted,
    Rehearse,
    Status,
    Tick,
)
from elastream.core.load import (
    QueryLoad,
    cost_of,
    mean,
    pass_idle,
    smooth,
    smooth_boundary,
    smooth_running,
    weight_of,
)
from elastream.core.spares import begin_work, with_alive
from elastream.core.standbys import forget_lost, recover
from elastream.core.state import LoopState, note
from elastream.model.observation import BatchObservation, LoadObservation
from elastream.model.words import join_names, pluralize

_NOTHING = 1e-9
_MANY = 1000
"""With this many tasks planners run compiled, which takes a while to load."""
_SAME_CLOCK_MS = 500
"""Two readings that differ by less were taken a moment apart: the clock was not set."""

Taken = tuple[LoopState, tuple[Instruction, ...], bool]
"""The state with the facts of an event, what to log, and whether they are news."""


def take_in(state: LoopState, event: Event) -> Taken:
    """Return the state with the facts of ``event``, what to log, and whether they are news."""
    at_ms = getattr(event, "at_ms", None)
    if at_ms is not None:
        now_ms = max(at_ms, state.now_ms or 0)
        passed_s = 0.0 if state.now_ms is None else (now_ms - state.now_ms) / 1000
        state = replace(
            state,
            now_ms=now_ms,
            executor_s=state.executor_s + len(state.all_executors) * passed_s,
            spare_executor_s=state.spare_executor_s + len(state.spares) * passed_s,
        )
    match event:
        case BatchObserved(batch=batch):
            return _batch(state, batch)
        case LoadObserved(load=load):
            return _running(state, load)
        case BoundaryNear(query=name, run=run):
            query = state.queries.get(name)
            return state, (), query is not None and query.run == run
        case Status():
            return _status(state, event)
        case QueryJoined():
            return _joined(state, event)
        case QueryLeft():
            return _left(state, event)
        case QueryPassedOver(query=query, why=why):
            return state, (note(state, "refuse", f"left alone: it {why}", query=query),), False
        case QueryRestarted(query=name, why=why, figures=figures):
            return state, (note(state, "restart", why, query=name, figures=figures),), False
        case ExecutorsChanged():
            return _executors(state, event)
        case CopiesLost(copies=copies):
            state, logs = forget_lost(state, copies)
            return state, logs, bool(logs)
        case Tick():
            return _tick(state, event)
        case _:
            return state, (), True


def _batch(state: LoopState, batch: BatchObservation) -> Taken:
    query = state.queries.get(batch.query)
    if query is None or query.run != batch.run:
        return state, (), False
    load = query.load
    if load.run == batch.run and load.batch is not None and batch.batch <= load.batch:
        return state, (), False
    policy = state.policy
    disturbed = not state.phase.resting
    recent = query.recent
    held = None
    half_life_s = policy.timeouts.smoothing_s
    if query.realtime:  # its duration is its trigger's
        query = _without_end(query, batch)
        load = smooth_boundary(load, batch, half_life_s=half_life_s)
    else:
        cost = cost_of(batch, state.all_executors)
        if not state.phase.moves_state:
            recent = (*recent, cost)[-RECENT_BATCHES:]
        query, held = _compared(query, batch)
        load = smooth(load, batch, cost, half_life_s=half_life_s)
    query = replace(
        query,
        load=load,
        heard_ms=state.now_ms,
        idle_since_ms=None,
        recent=recent,
    )
    query, fewer = _counted(query, len(batch.tasks))
    state = begin_work(state.with_query(query), {task.executor for task in batch.tasks})
    unshown = (*state.unshown, batch)
    state = replace(state, busy_ms=state.now_ms, unsampled=state.unsampled + 1, unshown=unshown)
    memory = policy.goal.after_batch(state.memory, state.observed, batch, disturbed=disturbed)
    state = replace(state, memory=memory)
    logs = [] if held is None else [note(state, "verify", held, query=query.name)]
    if fewer is not None:
        logs.append(note(state, "wait", fewer, query=query.name))
    return state, tuple(logs), True


def _running(state: LoopState, seen: LoadObservation) -> Taken:
    """Take in a look at a batch under way."""
    query = state.queries.get(seen.query)
    if query is None or query.run != seen.run:
        return state, (), False
    load = smooth_running(query.load, seen, half_life_s=state.policy.timeouts.smoothing_s)
    query = replace(
        _with_boundary(query, seen), load=load, heard_ms=state.now_ms, idle_since_ms=None
    )
    query, fewer = _counted(query, len(seen.tasks))
    state = begin_work(state.with_query(query), {task.executor for task in seen.tasks})
    state = replace(state, busy_ms=state.now_ms, unsampled=state.unsampled + 1)
    if fewer is None:
        return state, (), True
    return state, (note(state, "wait", fewer, query=query.name),), True


def _without_end(query: Query, batch: BatchObservation) -> Query:
    """Return the query without when its batch ends, unless the next one is under way already."""
    if query.ends_at_ms is None or batch.finished_at_ms < query.ends_at_ms:
        return query
    return replace(query, ends_at_ms=None, ended_at_ms=query.ends_at_ms)


def _with_boundary(query: Query, seen: LoadObservation) -> Query:
    """Return the query with when its batch ends, and what the boundary before it has taken."""
    if query.ends_at_ms == seen.ends_at_ms:
        return query
    ended_ms = query.ends_at_ms or query.ended_at_ms
    gap_ms = None
    if ended_ms is not None and seen.began_at_ms is not None:
        gap_ms = float(max(0, seen.began_at_ms - ended_ms))
    return replace(query, ends_at_ms=seen.ends_at_ms, ended_at_ms=ended_ms, gap_ms=gap_ms)


def _compared(query: Query, batch: BatchObservation) -> tuple[Query, str | None]:
    """Compare what was requested in idle time with what the batch shows."""
    wanted = {**query.believed, **query.strays}
    if not wanted:
        return query, None
    ran = {task.task: task.executor for task in batch.tasks}
    strays = {task: node for task, node in wanted.items() if ran.get(task, node) != node}
    unseen = {task: node for task, node in query.believed.items() if task not in ran}
    held = None
    if not strays and not unseen:
        held = f"{len(wanted)} tasks are where they were asked for in idle time"
    verifications = query.verifications if strays else 0
    return replace(query, believed=unseen, strays=strays, verifications=verifications), held


def _counted(query: Query, seen: int) -> tuple[Query, str | None]:
    """Report where batches show fewer tasks than the query has, once until that changes."""
    fewer = seen if seen < query.tasks else None
    if fewer == query.fewer_tasks:
        return query, None
    said = None if fewer is None else f"its batches show {seen} of {query.tasks} tasks"
    return replace(query, fewer_tasks=fewer), said


def _status(state: LoopState, event: Status) -> Taken:
    half_life_s = state.policy.timeouts.smoothing_s
    queries = {
        name: _with_status(query, event, half_life_s) for name, query in state.queries.items()
    }
    span_s = max(state.passed_s(state.status_ms), 1e-3)
    weight = weight_of(span_s, half_life_s)
    other = {
        executor: mean(
            state.other.get(executor, 0.0),
            event.other_ms.get(executor, 0.0) / 1000 / span_s,
            weight,
        )
        for executor in state.other.keys() | event.other_ms.keys()
    }
    logs = []
    if event.dropped:
        why = f"{event.dropped} events of Spark were lost, there were too many; figures have gaps"
        logs.append(note(state, "wait", why, figures={"dropped": event.dropped}))
    if state.silent:
        logs.append(note(state, "wait", "the monitor reports again"))
    busy = bool(event.jobs) or bool(event.other_ms)
    state = replace(
        state,
        queries=queries,
        other={name: used for name, used in sorted(other.items()) if used > _NOTHING},
        status_ms=event.at_ms,
        busy_ms=event.at_ms if busy or state.busy_ms is None else state.busy_ms,
        jobs=event.jobs,
        executor_memory=event.memory,
        silent=False,
    )
    return state, tuple(logs), True


def _with_status(query: Query, event: Status, half_life_s: float) -> Query:
    if query.name not in event.idle:
        return query if query.idle_since_ms is None else replace(query, idle_since_ms=None)
    since_ms = event.at_ms if query.idle_since_ms is None else query.idle_since_ms
    load = query.load
    if query.idle_since_ms is not None:  # idle then and now: idle in between
        load = pass_idle(load, event.at_ms, half_life_s=half_life_s)
    return replace(query, idle_since_ms=since_ms, heard_ms=event.at_ms, load=load)


def _joined(state: LoopState, event: QueryJoined) -> Taken:
    known = state.queries.get(event.query)
    if known is not None and known.run == event.run:
        return state, (), False
    query = Query(
        name=event.query,
        run=event.run,
        graph=event.graph,
        tasks=event.tasks,
        trigger_ms=event.trigger_ms,
        slots=event.slots,
        load=QueryLoad(realtime=event.realtime),
        heard_ms=event.at_ms,
    )
    queries = dict(sorted({**state.queries, event.query: query}.items()))
    state = replace(state, queries=queries)
    every = "" if event.trigger_ms is None else f", a batch every {event.trigger_ms / 1000:g} s"
    operators = pluralize(len(event.graph.feeds), "stateful operator")
    what = f"{pluralize(event.tasks, 'task')} in {operators}{every}"
    if event.realtime:
        what += f", in Real-time Mode: {pluralize(event.slots, 'slot')} at once"
    log = note(state, "join", f"takes part: {what}", query=event.query)
    total = sum(each.tasks for each in queries.values())
    if total >= _MANY > total - event.tasks:
        return state, (log, Rehearse(total, max(2, len(state.executors)))), True
    return state, (log,), True


def _left(state: LoopState, event: QueryLeft) -> Taken:
    known = state.queries.get(event.query)
    if known is None or known.run != event.run:
        return state, (), False
    log = note(state, "leave", event.why, query=event.query)
    queries = {name: query for name, query in state.queries.items() if name != event.query}
    signal = replace(state.signal, reported=state.signal.reported - {event.query})
    standbys = state.standbys.without(event.query)
    return replace(state, queries=queries, signal=signal, standbys=standbys), (log,), True


def _executors(state: LoopState, event: ExecutorsChanged) -> Taken:
    alive = {executor.id for executor in event.executors}
    expected = set(state.phase.leaving)
    if state.preparation is not None and state.preparation.what == "releasing":
        expected.update(state.preparation.ids)
    lost = sorted({each.id for each in state.all_executors} - alive - expected)
    other = {name: used for name, used in state.other.items() if name in alive}
    state = with_alive(replace(state, other=other), event.executors)
    if not lost:
        return state, (), True
    homeless = state.observed.homeless()
    why = f"executor {join_names(lost)} was lost, {pluralize(homeless, 'task')} to load elsewhere"
    copies = sum(
        state.observed.where(task) in lost and state.standbys.holder(task) in alive
        for task, _ in state.observed.tasks()
    )
    why += f", {copies} of them have a copy" if copies else ""
    figures = {"executors_lost": len(lost), "tasks_homeless": homeless, "tasks_with_copies": copies}
    log = note(state, "lost", why, figures=figures)
    state, placed = recover(state, lost)
    return state, (log, *placed), True


def _tick(state: LoopState, event: Tick) -> Taken:
    ahead_ms = 0 if event.wall_ms is None else event.wall_ms - event.at_ms
    if abs(ahead_ms - state.wall_ahead_ms) >= _SAME_CLOCK_MS:
        state = replace(state, wall_ahead_ms=ahead_ms)
    silent_s = state.passed_s(state.status_ms)
    if state.silent or state.status_ms is None or silent_s <= state.policy.timeouts.call_s:
        return state, (), True
    why = f"the monitor has reported nothing for {silent_s:.0f} s"
    log = note(state, "stuck", why, figures={"seconds": round(silent_s, 1)})
    return replace(state, silent=True), (log,), True
