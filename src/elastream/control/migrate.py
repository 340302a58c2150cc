"""Live, progressive migration: a plan is carried out in mini-migrations while the query runs.

Paper 000, section 5.2 (and 001, section 3): instead of changing the whole task-to-node assignment
at once, several mini-migrations each change a part of it, so that one big spike of the response
time becomes several small ones. Here a mini-migration is what one micro-batch moves:

1. between two batches the moves of one mini-migration are asked for (``Place``);
2. the next batch shows where those tasks really ran. Moves that did not hold, because a report
   was overtaken by the batch or a preferred executor was busy too long, are asked for again, a
   bounded number of times;
3. the first mini-migration that is not wholly where it should be is always the one worked on, so
   a task that has wandered off meanwhile is fetched back;
4. once every task is where the goal says, executors that leave have been seen empty by a batch,
   and only then are they released.

The papers' rerouter of misrouted tuples is not needed: placement only changes between batches, so
no tuple is ever under way to the wrong executor. The waiting buffer is the partition's shuffle
blocks, and the file server is the checkpoint.

A lost executor that the goal needs, or a release that is refused, leads to a new plan from the
truth. The step can be given up after any batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median

from elastream.control.analyse import utilisation
from elastream.control.events import Log, MoveRequested, Place, Plan, Release
from elastream.control.observation import TaskId
from elastream.control.outcomes import abandoned, completed, disturbed
from elastream.control.planning import Route
from elastream.control.policy import Policy
from elastream.control.prepare import awaiting
from elastream.control.smoothing import TaskLoad
from elastream.control.state import (
    Awaiting,
    Intent,
    LoopState,
    Migrating,
    Transition,
    listed,
    noted,
)
from elastream.model.checks import Number
from elastream.model.plan import Infeasible, StepPlan

__all__ = ["migrated", "planned", "released", "requested"]


def planned(state: LoopState, phase: Awaiting, action: Plan, route: Route) -> Transition:
    """Take a plan on, if the truth is still the one it was made for."""
    intent, plan = phase.intent, route.outcome
    if isinstance(plan, Infeasible):
        return abandoned(state, intent, f"no plan: {plan.reason}", phase.progress)
    if state.policy.advise_only:
        figures = _plan_figures(action, plan, len(route.steps))
        advice = f"would {intent.change} from {intent.before} to {intent.executors} executors"
        reason = f"{advice}: {intent.reason}; {_planned_moves(action, plan, route)}"
        return state.steady(), (noted(state, "advise", reason, figures=figures),)
    if not _still_true(state, action):
        why = "executors or tasks changed places while it was planned"
        return disturbed(state, intent, why, phase.progress)
    goal = {
        task: action.nodes[node]
        for task, node in zip(action.tasks, plan.assignment.nodes_of_tasks, strict=True)
    }
    steps = tuple(tuple(action.tasks[number] for number in step) for step in route.steps)
    migrating = Migrating(
        intent, goal, steps, _leaving(intent, action, goal), progress=phase.progress
    )
    log = noted(
        state,
        "plan",
        _planned_moves(action, plan, route),
        figures=_plan_figures(action, plan, len(steps)),
    )
    return replace(state, phase=migrating), (log,)


def requested(state: LoopState, event: MoveRequested) -> Transition:
    """Take on a placement that a person asked for."""
    unknown = sorted(set(event.goal) - set(state.load.tasks))
    dead = sorted(set(event.goal.values()) - state.alive)
    if unknown or dead:
        what = f"task {unknown[0]} is not known" if unknown else f"executor {dead[0]} is not alive"
        return state, (noted(state, "refuse", f"the placement asked for: {what}"),)
    number = len(state.executors)
    intent = Intent("move", number, number, "asked for")
    goal = {task: load.executor for task, load in state.load.tasks.items()} | dict(event.goal)
    moving = [task for task in event.goal if state.load.tasks[task].executor != goal[task]]
    steps = tuple(_portions(moving, state.load.tasks, state.policy))
    log = noted(state, "move", f"{len(moving)} tasks move in {len(steps)} mini-migrations")
    return replace(state, phase=Migrating(intent, goal, steps)), (log,)


def migrated(state: LoopState, phase: Migrating) -> Transition:
    """See what the last batch did with the moves asked for, and ask for the next ones."""
    phase = _with_progress(state, phase)
    intent, progress = phase.intent, phase.progress
    lost = sorted(set(phase.goal.values()) - state.alive)
    if lost:
        why = f"executor {listed(lost)} was lost"
        return _withdrawn(state, phase, disturbed(state, intent, why, progress))
    missing = next(_unfinished(state, phase), None)
    if missing is None:
        return _arrived(state, phase)
    obeyed = not set(phase.placed) & set(missing)
    tries = 0 if obeyed else phase.tries + 1
    hopeless = _hopeless(phase, missing, tries, state.policy)
    if hopeless is not None:
        return _withdrawn(state, phase, abandoned(state, intent, hopeless, progress))
    wanted = {task: phase.goal[task] for task in missing}
    log = _moving(state, phase, wanted, tries)
    if progress.median_batch_ms_before is None and state.recent_ms:
        progress = replace(progress, median_batch_ms_before=median(state.recent_ms))
    phase = replace(phase, placed=missing, tries=tries, progress=progress)
    return replace(state, phase=phase), (log, Place(wanted))


def released(state: LoopState, phase: Awaiting, action: Release) -> Transition:
    """End a scale-in: the drained executors are gone."""
    gone = set(action.ids)
    left = tuple(executor for executor in state.executors if executor.id not in gone)
    return completed(replace(state, executors=left), phase.intent, phase.progress)


def _arrived(state: LoopState, phase: Migrating) -> Transition:
    """Every task is where the goal says: release who leaves, or end."""
    surplus = max(0, len(state.executors) - phase.intent.executors)
    leaving = tuple(node for node in phase.leaving if node in state.alive)[:surplus]
    if not leaving:
        return completed(state, phase.intent, phase.progress)
    holding = {load.executor for load in state.load.tasks.values()} & set(leaving)
    if holding:
        why = f"a task that no plan knew of is on executor {listed(sorted(holding))}"
        return disturbed(state, phase.intent, why, phase.progress)
    log = noted(state, "wait", f"executor {listed(leaving)} seen without state: released")
    state, instructions = awaiting(
        state, phase.intent, Release(state.next_ticket, leaving), phase.progress
    )
    return state, (log, *instructions)


def _withdrawn(state: LoopState, phase: Migrating, ending: Transition) -> Transition:
    """Take back the moves that have not happened, so that a runtime that insists lets them be."""
    where = {task: state.load.tasks[task].executor for task in phase.placed}
    stay = {
        task: node
        for task, node in where.items()
        if node != phase.goal[task] and node in state.alive
    }
    state, instructions = ending
    return state, (*instructions, Place(stay)) if stay else instructions


def _unfinished(state: LoopState, phase: Migrating) -> Iterator[tuple[TaskId, ...]]:
    """Yield of each mini-migration the tasks not where they should be, then the strays."""
    where, goal = state.load.tasks, phase.goal
    for step in phase.steps:
        missing = tuple(task for task in step if where[task].executor != goal[task])
        if missing:
            yield missing
    strays = [task for task, node in goal.items() if where[task].executor != node]
    yield from _portions(strays, where, state.policy)


def _portions(
    tasks: Iterable[TaskId], loads: Mapping[TaskId, TaskLoad], policy: Policy
) -> Iterator[tuple[TaskId, ...]]:
    """Cut ``tasks`` into portions that each keep the policy's bounds for one batch."""
    portion: list[TaskId] = []
    size = 0.0
    for task in tasks:
        size += loads[task].state_bytes
        full = policy.moves_per_batch is not None and len(portion) >= policy.moves_per_batch
        heavy = policy.bytes_per_batch is not None and size > policy.bytes_per_batch
        if portion and (full or heavy):
            yield tuple(portion)
            portion, size = [], loads[task].state_bytes
        portion.append(task)
    if portion:
        yield tuple(portion)


def _with_progress(state: LoopState, phase: Migrating) -> Migrating:
    if not phase.placed and not phase.progress.batches:
        return phase
    where, before = state.load.tasks, phase.progress
    landed = [task for task in phase.placed if where[task].executor == phase.goal[task]]
    batch_ms = state.load.batch_ms or 0.0
    progress = replace(
        before,
        tasks_moved=before.tasks_moved + len(landed),
        bytes_moved=before.bytes_moved + round(sum(where[task].state_bytes for task in landed)),
        batches=before.batches + 1,
        worst_batch_ms=max(batch_ms, before.worst_batch_ms or 0.0),
    )
    return replace(phase, progress=progress)


def _hopeless(
    phase: Migrating, missing: tuple[TaskId, ...], tries: int, policy: Policy
) -> str | None:
    """Return why the migration should be given up, or ``None``."""
    if tries >= policy.tries:
        return f"{_named(missing)} not moved in {tries} tries"
    most_batches = (len(phase.steps) + 1) * policy.tries * (phase.intent.replans + 1)
    if phase.progress.batches > most_batches:
        return f"tasks keep leaving their places, {_named(missing)} at last"
    return None


def _still_true(state: LoopState, action: Plan) -> bool:
    problem = action.order.problem
    return set(action.nodes) <= state.alive and all(
        state.load.tasks[task].executor == action.nodes[node]
        for task, node in zip(action.tasks, problem.current.nodes_of_tasks, strict=True)
    )


def _leaving(intent: Intent, action: Plan, goal: Mapping[TaskId, str]) -> tuple[str, ...]:
    """Return who leaves in a scale-in: of the executors the plan leaves idle the youngest."""
    if intent.change != "scale-in":
        return ()
    used = set(goal.values())
    idle = [node for node in reversed(action.nodes) if node not in used]
    return tuple(idle[: max(0, len(action.nodes) - intent.executors)])


def _moving(state: LoopState, phase: Migrating, wanted: Mapping[TaskId, str], tries: int) -> Log:
    left = sum(1 for t, node in phase.goal.items() if state.load.tasks[t].executor != node)
    again = f", asked for again ({tries})" if tries else ""
    figures: dict[str, Number] = {
        "tasks": len(wanted),
        "bytes": round(sum(state.load.tasks[task].state_bytes for task in wanted)),
        "tasks_left": left,
        "tries": tries,
    }
    reason = f"{phase.intent.change}: {_named(wanted)} to move{again}, {left} left in all"
    busy = utilisation(state.load, state.executors, state.policy)
    return noted(state, "migrate", reason, utilisation=busy, figures=figures)


def _planned_moves(action: Plan, plan: StepPlan, route: Route) -> str:
    total = len(action.tasks)
    moves = f"{len(plan.moves)} of {total} tasks move, in {len(route.steps)} mini-migrations"
    return "; ".join((moves, *route.notes))


def _plan_figures(action: Plan, plan: StepPlan, steps: int) -> dict[str, Number]:
    return {
        "tasks_to_move": len(plan.moves),
        "state_bytes_to_move": plan.cost,
        "state_bytes_lower_bound": plan.lower_bound,
        "mini_migrations": steps,
        "tau": round(action.order.problem.target.tau, 4),
        "limit": round(plan.limit, 4),
        "max_load": round(plan.max_load, 4),
    }


def _named(tasks: Iterable[TaskId]) -> str:
    names = [f"{task.operator}/{task.partition}" for task in tasks]
    return f"task {names[0]}" if len(names) == 1 else f"{len(names)} tasks ({listed(names)})"
