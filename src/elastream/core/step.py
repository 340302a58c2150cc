"""The step: one event in, the next state and the instructions out. No clock, no I/O, no chance.

First the facts of the event are taken in (:mod:`elastream.core.facts`). Then the phase returns what
follows (:mod:`elastream.core.steady` and :mod:`elastream.core.migrator`), and names what is next by
a value of :mod:`elastream.core.next`. Only this module knows which phase each value begins.

One decision is logged for every batch, also where nothing is done, and one for every other turn of
a change. The style is that of dask's worker state machine: the same events always lead to the same
instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from elastream.core.control import pause, resume, update
from elastream.core.events import (
    AbandonRequested,
    Answered,
    BatchObserved,
    Cancel,
    CommandRefused,
    DetachRequested,
    Event,
    Instruction,
    Learn,
    MoveRequested,
    PauseRequested,
    RecordSample,
    ResumeRequested,
    ScaleRequested,
    Stuck,
    UpdateRequested,
)
from elastream.core.facts import take_in
from elastream.core.goal import Failure, Think
from elastream.core.guards import log_outcome, with_outcome
from elastream.core.learning import Learning, LearningPlanner, Learnt, Lesson
from elastream.core.migrator.copying import begin_copying
from elastream.core.migrator.ending import abandon_change, begin_releasing, note_abandoned
from elastream.core.migrator.growing import begin_growing, begin_warming
from elastream.core.migrator.moving import begin_moving
from elastream.core.migrator.planning import begin_planning
from elastream.core.migrator.settling import begin_settling
from elastream.core.next import (
    Begin,
    BeginCopying,
    BeginMoving,
    BeginReleasing,
    Next,
    Reconsider,
    Rest,
    TakeOn,
    TakeRequest,
)
from elastream.core.policy import Policy
from elastream.core.repartitioning import update_partitions
from elastream.core.spares import on_spare_result, update_spares
from elastream.core.standbys import on_copies_result, on_recovery_result, update_standbys
from elastream.core.state import Detached, LoopState, Standbys, Transition, Turn, note
from elastream.core.steady import Steady, reconsider, take_on, take_request, take_wanted
from elastream.model.checks import Number
from elastream.model.observation import Executor
from elastream.model.words import pluralize

_BEGIN: Final = {
    "growing": begin_growing,
    "warming": begin_warming,
    "settling": begin_settling,
    "planning": begin_planning,
}
_SAMPLE_EVERY_S = 60.0
_TASKS_A_BATCH = 50
"""A sample may have this many tasks for each batch since the last one."""


def start_loop(
    policy: Policy,
    executors: tuple[Executor, ...],
    *,
    now_ms: int | None = None,
    wall_ms: int | None = None,
    learning: Learning | None = None,
    past: Iterable[tuple[int, float]] = (),
    can_copy: bool = False,
) -> Transition:
    """Return the loop's first state and what it logs about itself.

    ``past``: moments in ms, in order, with the cores that stateful tasks kept busy then.
    ``can_copy``: whether the runtime can copy state ahead of its task. ``wall_ms``: what the
    machine's clock says; ``None``: what the loop's own does.
    """
    ahead_ms = 0 if now_ms is None or wall_ms is None else wall_ms - now_ms
    learning = learning or Learning()
    if executors and now_ms is not None:
        learning = learning.resized(now_ms + ahead_ms, len(executors))
    state = LoopState(
        policy=policy,
        phase=Steady(),
        memory=policy.goal.recalled(past),
        now_ms=now_ms,
        wall_ahead_ms=ahead_ms,
        busy_ms=now_ms,
        all_executors=executors,
        learning=learning,
        can_copy=can_copy,
        attached_ms=now_ms,
    )
    mode = "advises only" if policy.advise_only else "acts"
    bounds = f"{policy.min_executors} to {policy.max_executors} executors"
    if policy.spares:
        bounds += f", {pluralize(policy.spares, 'of them a spare', 'of them spares')}"
    aim = f"goal {policy.goal.name}, planner {policy.planner_name}"
    return state, (note(state, "attach", f"attached, {mode}: {bounds}, {aim}"),)


def step(state: LoopState, event: Event) -> Transition:
    """Return the state after ``event`` and the instructions it leads to, in order."""
    if state.phase.detached:
        return state, ()
    match event:
        case ScaleRequested() | MoveRequested():
            state, ended = log_outcome(state)
            state, instructions = _followed(take_request(state, event))
            return state, (*ended, *instructions)
        case PauseRequested():
            return _followed(pause(state, event))
        case ResumeRequested():
            return _followed(resume(state, event))
        case UpdateRequested():
            return _followed(update(state, event))
        case CommandRefused(why=why, by=by):
            return state, (note(state, "refuse", f"a command of {by} is refused: {why}"),)
        case AbandonRequested(why=why):
            return _abandon_requested(state, why)
        case DetachRequested():
            return _detach_requested(state, event)
        case Stuck():
            return _stuck(state, event)
        case Answered(ticket=ticket, result=result) if ticket in state.questions:
            return _answered(state, ticket, result)
        case Answered(ticket=ticket, result=result) if ticket == state.learning.asked:
            return _learnt(state, result)
        case Answered(ticket=ticket, result=result) if _prepares(state, ticket):
            state, log = on_spare_result(state, result)
            state, more = update_spares(state, resting=_may_prepare(state))
            return state, (*log, *more)
        case Answered(ticket=ticket, result=result) if ticket == state.standbys.ticket:
            return on_copies_result(state, result)
        case Answered(ticket=ticket, result=result) if ticket in state.standbys.recoveries:
            return on_recovery_result(state, ticket, result)
    state, log, news = take_in(state, event)
    if not news:
        return state, log
    state, ended = with_outcome(state, event)
    rested = state.phase.resting
    state, instructions = _followed(state.phase.on(state, event))
    state, more = _see_to_the_rest(state)
    if isinstance(event, BatchObserved):
        state, about = update_partitions(state, event.batch.query, rested=rested)
        more = (*more, *about)
    return state, (*log, *ended, *instructions, *more)


def _followed(turn: Turn) -> Transition:
    """Begin what is next after a turn, until a phase waits for an event."""
    state, instructions, following = turn
    while following is not None:
        state, more, following = _begun(state, following)
        instructions = (*instructions, *more)
    return state, instructions


def _begun(state: LoopState, following: Next) -> Turn:
    match following:
        case Begin(phase, change):
            return _BEGIN[phase](state, change)
        case BeginCopying(change, target):
            return begin_copying(state, change, target)
        case BeginMoving(change, target):
            return begin_moving(state, change, target)
        case BeginReleasing(change, executors):
            return begin_releasing(state, change, executors)
        case Reconsider(query, late):
            return reconsider(state, query, late)
        case TakeOn(wanted, query):
            state, ended = log_outcome(state)
            state, instructions, begun = take_on(state, wanted, query)
            return state, (*ended, *instructions), begun
        case TakeRequest(request, otherwise):
            state, ended = log_outcome(state)
            state, instructions, taken = take_request(state, request)
            return state, (*ended, *instructions), taken or otherwise
        case Rest(then):
            return replace(state, phase=Steady()), (), then


def _answered(state: LoopState, ticket: int, result: object) -> Transition:
    """Give the goal an answer, and do as it wants."""
    question = state.questions[ticket]
    left = {other: asked for other, asked in state.questions.items() if other != ticket}
    memory, wanted = state.policy.goal.after_answer(state.memory, state.observed, question, result)
    state = replace(state, questions=left, memory=memory)
    log: tuple[Instruction, ...] = ()
    if isinstance(result, Failure):
        what = "an answer" if isinstance(question, Think) else "delays between hosts"
        log = (note(state, "wait", f"the goal does not get {what}: {result.why}"),)
    if wanted is None:
        return state, log
    state, instructions = _followed(take_wanted(state, wanted))
    return state, (*log, *instructions)


def _learnt(state: LoopState, result: object) -> Transition:
    learning = replace(state.learning, asked=None)
    if isinstance(result, Learnt):
        learning = replace(learning, learnt=result)
        reason, figures = result.reason, {}
        if result.ahead_percent is not None and result.single_percent is not None:
            figures = {
                "ahead_percent": round(result.ahead_percent, 3),
                "single_percent": round(result.single_percent, 3),
            }
    else:
        why = result.why if isinstance(result, Failure) else "no values came"
        reason, figures = f"nothing learnt: {why}", {}
    state = replace(state, learning=learning)
    return state, (note(state, "learn", reason, figures=figures),)


def _stuck(state: LoopState, event: Stuck) -> Transition:
    figures: dict[str, Number] = {"seconds": round(event.after_s, 1)}
    if event.back:
        figures["came_back"] = 1
        reason = (
            f"{event.what} came back after {event.after_s:.0f} s; its answer was no longer awaited"
        )
    else:
        reason = f"{event.what} has not come back in {event.after_s:.0f} s; the loop goes on"
    return state, (note(state, "stuck", reason, figures=figures),)


def _abandon_requested(state: LoopState, why: str) -> Transition:
    change, ticket = state.phase.change, state.phase.ticket
    if change is None and state.request is not None:
        given_up = note(state, "abandon", f"a change that was asked for is given up: {why}")
        return replace(state, request=None), (given_up,)
    if change is None:
        return state, (note(state, "refuse", "nothing is under way that could be given up"),)
    return _followed(abandon_change(replace(state, request=None), change, why, ticket=ticket))


def _detach_requested(state: LoopState, request: DetachRequested) -> Transition:
    """Leave: what is under way is given up and logged as such, and not carried out later."""
    state, ended = log_outcome(state)
    change = state.phase.change
    given_up: tuple[Instruction, ...] = ()
    if change is not None:
        given_up = (note_abandoned(state, change, "the loop leaves the application"),)
    preparing = None if state.preparation is None else state.preparation.ticket
    others = (state.phase.ticket, state.learning.asked, preparing, state.standbys.ticket)
    open_tickets = [*state.questions, *state.standbys.recoveries, *filter(None, others)]
    cancels = tuple(Cancel(ticket) for ticket in open_tickets)
    left = replace(
        state, phase=Detached(), questions={}, request=None, preparation=None, standbys=Standbys()
    )
    figures: dict[str, Number] = {"failed": 1} if request.failed else {}
    return left, (
        *ended,
        *cancels,
        *given_up,
        note(state, "detach", request.reason, figures=figures),
    )


def _see_to_the_rest(state: LoopState) -> Transition:
    """Take a sample, ask for a lesson, and see to spares and standbys, where that is due."""
    state, sample = _sample_if_due(state)
    state, lesson = _ask_for_lesson_if_due(state)
    resting = _may_prepare(state)
    state, spares = update_spares(state, resting=resting)
    state, standbys = update_standbys(state, resting=resting)
    return state, (*sample, *lesson, *spares, *standbys)


def _may_prepare(state: LoopState) -> bool:
    """Whether spares and copies may be seen to."""
    return state.phase.resting and state.pause is None


def _prepares(state: LoopState, ticket: int) -> bool:
    return state.preparation is not None and state.preparation.ticket == ticket


def _sample_if_due(state: LoopState) -> Transition:
    if state.now_ms is None or not state.unsampled:
        return state, ()
    first = state.sampled_ms is None
    count = sum(len(query.load.tasks) for query in state.queries.values())
    due = first or state.passed_s(state.sampled_ms) >= _SAMPLE_EVERY_S
    if not due or not count or state.unsampled * _TASKS_A_BATCH < count:
        return state, ()
    change = state.phase.change
    wanted = len(state.executors) if change is None else change.executors
    record = RecordSample(state.observed, wanted)
    return replace(state, sampled_ms=state.now_ms, unsampled=0), (record,)


def _ask_for_lesson_if_due(state: LoopState) -> Transition:
    """Ask for a lesson where the planner looks ahead and there is something new to learn."""
    planner = state.policy.loaded_planner
    if not isinstance(planner, LearningPlanner) or not state.phase.resting:
        return state, ()
    tasks = tuple(task for task, load in state.observed.tasks() if load.measured)
    if not state.learning.due(tasks):
        return state, ()
    loads = dict(state.observed.tasks())
    sizes = tuple(size.executors for size in state.learning.sizes)
    lesson = Lesson(
        tasks=tasks,
        work=tuple(round(loads[task].work, 9) for task in tasks),
        state=tuple(round(loads[task].state_bytes) for task in tasks),
        tau=state.policy.tau,
        sizes=sizes,
        contiguous=planner.contiguous,
        planner=planner.name,
        realtime=frozenset(
            query.name for query in state.observed.queries.values() if query.realtime
        ),
    )
    state, ticket = state.ticketed()
    learning = replace(
        state.learning, asked=ticket, tasks=tasks, changes=len(sizes) - 1, learnt=None
    )
    return replace(state, learning=learning), (Learn(ticket, lesson),)
