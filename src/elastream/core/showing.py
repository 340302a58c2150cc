"""Showing: when a step has led to something that people look for, it becomes a scene.

Apart from the step, which decides: who looks on changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from elastream.core.events import Instruction
from elastream.core.spans import with_spans
from elastream.core.state import LoopState, Transition
from elastream.model.observation import BatchObservation

_EVERY_S: Final = 0.5
_S_A_TASK: Final = 0.0005
"""Scenes of many tasks are further apart, so that showing them costs the same."""
_WHEN_QUIET_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RecordScene:
    """Show what there is to see; the scene is made where it is shown."""

    state: LoopState
    batches: tuple[BatchObservation, ...] = ()
    """Those since the scene before."""


def with_scene_if_due(
    before: LoopState, after: Transition
) -> tuple[LoopState, tuple[Instruction | RecordScene, ...]]:
    """Return what a step has led to, with the scene to be shown where one is due.

    It is due at every turn: a phase, the executors, the queries or the copies have changed. It is
    due after batches too, and now and then where nothing happens.
    """
    state, instructions = after
    state = with_spans(before, state)
    if not (_turned(before, state) or _due(state)):
        return state, instructions
    record = RecordScene(state, state.unshown)
    return replace(state, shown_ms=state.now_ms, unshown=()), (*instructions, record)


def _turned(before: LoopState, after: LoopState) -> bool:
    return (
        after.shown_ms is None
        or type(before.phase) is not type(after.phase)
        or before.all_executors != after.all_executors
        or before.standbys.there != after.standbys.there
        or before.queries.keys() != after.queries.keys()
    )


def _due(state: LoopState) -> bool:
    tasks = sum(len(query.load.tasks) for query in state.queries.values())
    every_s = max(_EVERY_S, tasks * _S_A_TASK) if state.unshown else _WHEN_QUIET_S
    return state.passed_s(state.shown_ms) >= every_s
