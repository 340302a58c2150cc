"""What a person on call asks of the loop: pause, resume, another policy.

A pause ends deciding, and only that: facts are taken in, the goal is asked, and what it wants is
logged as held back. The change under way is given up at once, and a request that waits is dropped:
what moved stays moved, the rest stays put, as after any change that is given up. On resuming, the
goal starts from what is there, so nothing of the old plan is needed. While paused nothing is moved,
added or given back but what a person asks for, with three exceptions, without which a query would
come to harm: tasks of a lost executor are placed on those that are left, an application without
executors gets one when a batch wants to run, and a query that is stopped for more partitions is
started again.

Another policy was checked when it was made. The change under way goes on where the new policy would
allow it, and is given up otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from elastream.core.change import Change
from elastream.core.events import (
    Cancel,
    DropCopies,
    Instruction,
    PauseRequested,
    ResumeRequested,
    UpdateRequested,
)
from elastream.core.goal import Goal
from elastream.core.migrator.ending import abandon_change
from elastream.core.policy import Policy
from elastream.core.state import LoopState, Pause, Signal, Standbys, Turn, note
from elastream.model.words import asked_for, join_names


def pause(state: LoopState, request: PauseRequested) -> Turn:
    """Stop deciding, and give up what is under way."""
    asked = asked_for(request.by)
    if state.pause is not None:
        return state, (note(state, "refuse", f"a pause was {asked}: it is paused already"),), None
    change, dropped = state.phase.change, state.request is not None
    ends = "nothing is under way" if change is None else f"the {change.kind} under way ends here"
    ends += ", what was to come next is dropped" if dropped else ""
    state = replace(state, pause=Pause(state.now_ms, request.by), request=None, signal=Signal())
    log = note(state, "pause", f"paused, {asked}: it watches and decides nothing; {ends}")
    if change is None:
        return state, (log,), None
    state, instructions, following = abandon_change(
        state, change, f"a pause was {asked}", ticket=state.phase.ticket
    )
    return state, (log, *instructions), following


def resume(state: LoopState, request: ResumeRequested) -> Turn:
    """Decide again, from what is there now."""
    asked = asked_for(request.by)
    if state.pause is None:
        return state, (note(state, "refuse", f"to go on was {asked}: it is not paused"),), None
    paused_s = round(state.passed_s(state.pause.since_ms), 1)
    state = replace(state, pause=None)
    why = f"resumed, {asked}, after {paused_s:.0f} s: it decides again"
    return state, (note(state, "resume", why, figures={"seconds": paused_s}),), None


def update(state: LoopState, request: UpdateRequested) -> Turn:
    """Follow another policy from now on."""
    before, policy, asked = state.policy, request.policy, asked_for(request.by)
    differences = tuple(_differences(before, policy))
    if not differences:
        log = note(state, "update", f"an update was {asked}: the policy says that already")
        return state, (log,), None
    state, instructions = _with_goal(
        replace(state, policy=policy, signal=Signal(), doubts={}), before
    )
    state, more = _with_planner(state, before)
    instructions = (*instructions, *more)
    if before.standbys and not policy.standbys:
        state, dropped = _without_standbys(state)
        instructions = (*instructions, *dropped)
    change = state.phase.change
    wrong = None if change is None else _forbidden(change, policy)
    said = f"another policy, {asked}: {join_names(differences, most=len(differences))}"
    if change is not None:
        said += f"; the {change.kind} under way " + ("goes on" if wrong is None else "ends here")
    log = note(state, "update", said)
    if change is None or wrong is None:
        return state, (log, *instructions), None
    state, more, following = abandon_change(state, change, wrong, ticket=state.phase.ticket)
    return state, (log, *instructions, *more), following


def _with_goal(state: LoopState, before: Policy) -> tuple[LoopState, tuple[Instruction, ...]]:
    """Return the state for its goal: another one remembers nothing and has asked nothing."""
    if state.policy.goal == before.goal:
        return state, ()
    cancelled = tuple(map(Cancel, state.questions))
    return replace(state, questions={}, memory=state.policy.goal.memory()), cancelled


def _with_planner(state: LoopState, before: Policy) -> tuple[LoopState, tuple[Instruction, ...]]:
    """Return the state for its planner: what another one has learnt is of no use to it."""
    policy, asked = state.policy, state.learning.asked
    if (policy.planner, policy.tau) == (before.planner, before.tau):
        return state, ()
    learning = replace(state.learning, asked=None, tasks=(), learnt=None)
    return replace(state, learning=learning), () if asked is None else (Cancel(asked),)


def _without_standbys(state: LoopState) -> tuple[LoopState, tuple[Instruction, ...]]:
    """Drop the copies; those of a change under way at its end."""
    if state.copied:
        return state, ()
    ticket = state.standbys.ticket
    cancelled: tuple[Instruction, ...] = () if ticket is None else (Cancel(ticket),)
    recoveries = state.standbys.recoveries
    state = replace(state, standbys=Standbys(recoveries=recoveries))
    return state, (*cancelled, DropCopies())


def _forbidden(change: Change, policy: Policy) -> str | None:
    """Return why a policy does not allow a change that is under way."""
    if policy.advise_only:
        return "the policy only advises now"
    least, most = policy.min_executors, policy.max_executors
    if least <= change.executors <= most:
        return None
    return f"it leads to {change.executors} executors, and {least} to {most} are allowed now"


def _differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """Yield what differs, a field each, as a person would set it."""
    assert is_dataclass(before)  # noqa: S101 - a policy, or a group of its settings
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if old == new:
            continue
        name = f"{path}{field.name}"
        if is_dataclass(old) and not isinstance(old, Goal):
            yield from _differences(old, new, f"{name}.")
        else:
            yield f"{name} {_shown(new)} instead of {_shown(old)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return join_names(map(str, value))
    return str(getattr(value, "name", value))
