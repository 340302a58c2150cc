"""In words: what the loop would do now and why, and what would have to change for it to act."""

from __future__ import annotations

from elastream.core.change import Change
from elastream.core.goal import Wanted, allowed
from elastream.core.guards import active_guards, stepwise
from elastream.core.memory import memory_warnings
from elastream.core.partitions import ShortageWatch
from elastream.core.scenes import expected_left_s, unknowns
from elastream.core.state import LoopState
from elastream.core.steady import held_back
from elastream.model.words import pluralize, printable


def explained(state: LoopState) -> str:
    """Return a few lines for a person."""
    if state.phase.detached:
        return "It has let go of the application; the queries run on as they are."
    lines = [_now(state), *(f"Held back: {why}." for why in active_guards(state).values())]
    lines += [f"Warning: {why}." for why in memory_warnings(state)]
    if state.phase.change is not None:
        lines.append(_under_way(state, state.phase.change))
    elif state.phase.resting:
        lines += _resting(state)
    lines += _partitions(state)
    lines += [f"Not known: {what}." for what in unknowns(state)]
    return "\n".join(map(printable, lines))


def _now(state: LoopState) -> str:
    policy = state.policy
    does = "It advises only" if policy.advise_only else "It acts"
    bounds = f"{policy.min_executors} and {policy.max_executors} executors"
    alive = pluralize(len(state.executors), "executor")
    spares = pluralize(len(state.spares), "spare")
    there = alive if not state.spares else f"{alive} at work and {spares}"
    return f"{does}, between {bounds}; its goal: {policy.goal.name}. There are {there}."


def _under_way(state: LoopState, change: Change) -> str:
    left_s = expected_left_s(state)
    left = "how long it will take is not known, it is the first of its kind"
    if left_s is not None:
        left = f"about {left_s:.0f} s are left, if it goes like the last one"
    said = f"{change.kind} from {change.before} to {pluralize(change.executors, 'executor')}"
    return f"Under way ({state.phase.name}): {said}, because {change.reason}; {left}."


def _resting(state: LoopState) -> list[str]:
    goal = state.policy.goal
    _, wanted, _ = goal.wanted(state.memory, state.observed)
    wanted = stepwise(state, allowed(wanted, state.observed))
    lines = [_wish(state, wanted)]
    lines += [f"{sentence}." for sentence in goal.turning_points(state.memory, state.observed)]
    policy = state.policy
    if policy.largest_step is not None:
        executors = pluralize(policy.largest_step, "executor")
        lines.append(f"One change adds or gives back at most {executors}.")
    rounds = pluralize(policy.patience, "round of batches", "rounds of batches")
    lines.append(f"A need must last for {rounds}, {policy.cooldown_s:g} s after the last change.")
    return lines


def _partitions(state: LoopState) -> list[str]:
    """Say which queries have too few partitions, and what was done about it."""
    lines = []
    paused = state.phase.paused
    if paused is not None and (shortage := state.shortages[paused].said) is not None:
        lines.append(f"{paused} is paused for {shortage.enough} partitions.")
    for name in state.queries:
        said = state.shortages.get(name, ShortageWatch()).said
        if said is not None and paused is None:
            lines.append(f"Too few partitions in {name}: {said.reason}.")
        last = state.repartitionings.get(name)
        if last is not None and last.paused_s is not None:
            change = f"from {last.before} to {last.partitions} partitions"
            lines.append(f"{name} was paused for {last.paused_s:.1f} s, {change}.")
    return lines


def _wish(state: LoopState, wanted: Wanted) -> str:
    if wanted.need == "hold":
        return f"It would change nothing now: {wanted.reason}."
    wish = f"{wanted.need} to {pluralize(wanted.executors, 'executor')}"
    held = held_back(state, wanted, urgent=False)
    if held is not None:
        return f"It wants a {wish} and holds it back: {held}."
    would = "It would advise a" if state.policy.advise_only else "Its next step is a"
    return f"{would} {wish}: {wanted.reason}."
