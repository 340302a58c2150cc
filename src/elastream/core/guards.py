"""Guards: what holds a wanted change back, and whether the last one brought what was predicted.

A change that has ended is held against its prediction over the first batches after it; only then is
it logged as done. A direction that brought less than half of the relief that was predicted, twice
in a row, is not tried again until load, tasks or executors have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import Any, Final

from elastream.core.change import Change, Doubt, Outcome
from elastream.core.events import BatchObserved, Event, Log
from elastream.core.goal import Wanted
from elastream.core.periods import Period
from elastream.core.prediction import busiest_lately
from elastream.core.state import LoopState, Pause, note
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.words import asked_for, pluralize

GUARDS: Final = ("paused", "excluded period", "ineffective")
"""Names of what may hold changes back, next to patience and cooldown."""

_BATCHES: Final = 5
"""A query is compared by the median of this many batches."""
_TRIES: Final = 2
"""How often a direction may fail to help."""
_HELPED: Final = 0.5
"""A change has helped if it brought this share of what was predicted."""
_WORTH: Final = 0.05
"""A predicted relief below this share of a batch is not judged: batches differ by more."""
_SAME_LOAD: Final = 0.2
_CAUGHT_UP: Final = 1.3
"""A batch works off a backlog if it reads this many times the rows that arrive during it."""


def guard(state: LoopState, wanted: Wanted) -> str | None:
    """Return why a change that a goal wants should not be begun now; ``None`` where it may."""
    lacking = slots_lacking(state, wanted.executors) if wanted.need == "scale-in" else None
    outcome = state.outcome
    if outcome is not None:  # to begin a change ends it
        state = _without_outcome(state, outcome.change, _measured(outcome))
    return _excluded(state) or lacking or _ineffective(state, wanted.need)


def active_guards(state: LoopState) -> dict[str, str]:
    """Return the guards that hold changes back now, by name, with a sentence each."""
    pause, excluded = state.pause, _excluded(state)
    doubts = filter(None, (_ineffective(state, kind) for kind in state.doubts))
    paused = None if pause is None else _paused(state, pause)
    reasons = (paused, excluded, "; ".join(doubts) or None)
    return {name: why for name, why in zip(GUARDS, reasons, strict=True) if why is not None}


def _paused(state: LoopState, pause: Pause) -> str:
    since = ""
    if pause.since_ms is not None:
        wall = datetime.fromtimestamp(state.on_the_wall(pause.since_ms) / 1000)
        since = f" since {wall:%Y-%m-%d %H:%M:%S}"
    return f"paused{since}, {asked_for(pause.by)}"


def _excluded(state: LoopState) -> str | None:
    wall_ms = state.observed.wall_ms
    if wall_ms is None:
        return None
    wall = datetime.fromtimestamp(wall_ms / 1000)
    for period in state.policy.excluded_periods:
        if Period.of("excluded_periods", period).includes(wall):
            return f"{period} is excluded"
    return None


def _ineffective(state: LoopState, kind: str) -> str | None:
    doubt = state.doubts.get(kind)
    if doubt is None or doubt.tries < _TRIES or not _holds(doubt, state):
        return None
    return f"a further {kind} has not helped: not again until load, tasks or executors change"


def slots_lacking(state: LoopState, executors: int) -> str | None:
    """Return why Real-time batches would lack slots on this number of executors, where they would.

    Theirs are counted as those of the executors with the fewest.
    """
    if not (needs := state.observed.slots_at_once):
        return None
    slots = sum(sorted(each.slots for each in state.executors)[:executors])
    if slots >= needs:
        return None
    have = pluralize(executors, "executor has", "executors have")
    return f"Real-time batches need {pluralize(needs, 'slot')} at once, and {have} {slots}"


def crowded(state: LoopState, places: Mapping[TaskId, str]) -> str | None:
    """Return which executor would have fewer slots than Real-time tasks, where one would.

    The tasks of such a batch that find no slot on their executor hold up all others.
    """
    realtime = {name for name, query in state.queries.items() if query.realtime}
    held = Counter(node for task, node in places.items() if task.query in realtime)
    slots = {each.id: each.slots for each in state.executors}
    for node, tasks in sorted(held.items()):
        if node in slots and tasks > slots[node]:
            has = f"executor {node}, which has {pluralize(slots[node], 'slot')}"
            return f"{tasks} Real-time tasks would be on {has}"
    return None


def stepwise(state: LoopState, wanted: Wanted) -> Wanted:
    """Return what is wanted, in steps no larger than the policy allows."""
    most, alive = state.policy.largest_step, len(state.executors)
    if most is None or abs(wanted.executors - alive) <= most:
        return wanted
    executors = alive + (most if wanted.executors > alive else -most)
    reason = f"{wanted.reason}; at most {most} at a time towards {wanted.executors}"
    return replace(wanted, executors=executors, reason=reason)


def with_doubt(state: LoopState, change: Change) -> LoopState:
    """Return the state in which the kind of a change waits until something is different after it.

    Some of the executors that came for it are of no use.
    """
    doubt = Doubt(_TRIES, change.executors, _tasks(state), _work(state))
    return replace(state, doubts={**state.doubts, change.kind: doubt})


def begin_outcome(
    state: LoopState, change: Change, reason: str, figures: Mapping[str, Any]
) -> Outcome | None:
    """Return what is to be held against the prediction of a change; ``None``: nothing is."""
    prediction = change.prediction
    if prediction is None or not change.progress.tasks_moved:
        return None
    running = state.running & prediction.batch_ms.keys()
    after: dict[str, tuple[float, ...]] = dict.fromkeys(sorted(running), ())
    return Outcome(change, reason, figures, state.now_ms, after) if after else None


def with_outcome(state: LoopState, event: Event) -> tuple[LoopState, tuple[Log, ...]]:
    """Take a batch into the outcome that is open, and log that where it is complete."""
    outcome = state.outcome
    if outcome is None:
        return state, ()
    if isinstance(event, BatchObserved) and _is_steady(state, event.batch, outcome):
        name, took_ms = event.batch.query, event.batch.duration_ms
        after = {**outcome.after_ms, name: (*outcome.after_ms[name], took_ms)}
        outcome = replace(outcome, after_ms=after)
        state = replace(state, outcome=outcome)
    waited = state.passed_s(outcome.since_ms) > state.policy.timeouts.action_s
    running = state.running
    missing = any(len(took) < _BATCHES and q in running for q, took in outcome.after_ms.items())
    return (state, ()) if missing and not waited else log_outcome(state)


def _is_steady(state: LoopState, batch: BatchObservation, outcome: Outcome) -> bool:
    """Whether a batch is of a query that the change concerned, and works off no backlog."""
    query = state.queries.get(batch.query)
    if query is None or batch.query not in outcome.after_ms:
        return False
    load = query.load
    if load.arrivals_per_s is None or load.limit_rows is not None:
        return True
    lasts_s = max(batch.duration_ms, query.trigger_ms or 0.0) / 1000
    return batch.rows <= _CAUGHT_UP * load.arrivals_per_s * lasts_s


def log_outcome(state: LoopState) -> tuple[LoopState, tuple[Log, ...]]:
    """Log the change whose outcome is open as done, with what has been measured of it so far."""
    outcome = state.outcome
    if outcome is None:
        return state, ()
    change, prediction = outcome.change, outcome.change.prediction
    measured = _measured(outcome)
    figures = dict(outcome.figures)
    if prediction is not None:
        figures["predicted_batch_ms"] = dict(prediction.batch_ms)
        if prediction.busiest is not None:
            figures["predicted_busiest"] = round(prediction.busiest, 4)
    if measured:
        figures["measured_batch_ms"] = measured
        busiest = busiest_lately(state.observed)
        if busiest is not None:
            figures["measured_busiest"] = round(busiest, 4)
    log = note(state, "done", outcome.reason + _compared(change, measured), figures=figures)
    return _without_outcome(state, change, measured), (log,)


def _without_outcome(state: LoopState, change: Change, measured: Mapping[str, float]) -> LoopState:
    """Return the state after an outcome, with the doubts that it leaves."""
    doubts = dict(state.doubts)
    helped = _helped(change, measured)
    if helped is False:
        tries = 1 + (doubts[change.kind].tries if change.kind in doubts else 0)
        doubts[change.kind] = Doubt(tries, len(state.executors), _tasks(state), _work(state))
    elif helped and change.kind in doubts and not _holds(doubts[change.kind], state):
        del doubts[change.kind]
    return replace(state, outcome=None, doubts=doubts)


def _measured(outcome: Outcome) -> dict[str, float]:
    """Return what a batch of each query has taken since the change."""
    return {
        name: round(median(took[:_BATCHES]), 1) for name, took in outcome.after_ms.items() if took
    }


def _compared(change: Change, measured: Mapping[str, float]) -> str:
    """Say what batches take now, and what was predicted."""
    predicted = {} if change.prediction is None else change.prediction.batch_ms
    parts = [
        f"{name} {took / 1000:.2f} s where {predicted[name] / 1000:.2f} s were predicted"
        for name, took in measured.items()
        if name in predicted
    ]
    return f"; a batch of {', of '.join(parts)}" if parts else ""


def _helped(change: Change, measured: Mapping[str, float]) -> bool | None:
    """Return whether a change brought what was predicted; ``None`` where that cannot be said."""
    predicted = {} if change.prediction is None else change.prediction.batch_ms
    hoped = brought = 0.0
    for name, took in measured.items():
        before = change.usual_ms.get(name)
        if before is not None and before - predicted[name] >= _WORTH * before:
            hoped += before - predicted[name]
            brought += before - took
    return None if hoped <= 0 else brought >= _HELPED * hoped


def _holds(doubt: Doubt, state: LoopState) -> bool:
    """Whether nothing has changed since then."""
    return (
        doubt.executors == len(state.executors)
        and doubt.tasks == _tasks(state)
        and abs(_work(state) - doubt.work) <= _SAME_LOAD * doubt.work
    )


def _tasks(state: LoopState) -> int:
    return sum(len(query.load.tasks) for query in state.queries.values())


def _work(state: LoopState) -> float:
    return sum(query.load.work for query in state.queries.values())
