"""What the batches of a replay show of executors. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation


class BatchFigures(NamedTuple):
    """What the batches of a replay show."""

    worst_utilisation: float
    """The largest over executors, all their work counted."""
    placed_utilisation: float
    """The same, of tasks with state alone."""
    durations_ms: list[float]
    """How long each batch with packets took."""


def batch_figures(
    batches: Sequence[BatchObservation],
    began_ms: float,
    came_in_ms: float,
    executors: Sequence[str],
) -> BatchFigures:
    """Return what a replay shows; packets came within ``came_in_ms`` from ``began_ms`` on."""
    replayed = [b for b in batches if b.rows and b.finished_at_ms - b.duration_ms >= began_ms]
    if not replayed:
        raise SparkError("no batch of the replay was seen")
    placed_ms = dict.fromkeys(executors, 0.0)
    outside_ms = dict.fromkeys(executors, 0.0)
    for batch in replayed:
        for task in batch.tasks:
            placed_ms[task.executor] = placed_ms.get(task.executor, 0.0) + task.run_ms
        for executor, run_ms in batch.outside_ms.items():
            outside_ms[executor] = outside_ms.get(executor, 0.0) + run_ms
    busy_ms = [
        placed_ms.get(each, 0.0) + outside_ms.get(each, 0.0) for each in placed_ms | outside_ms
    ]
    return BatchFigures(
        max(busy_ms) / came_in_ms,
        max(placed_ms.values()) / came_in_ms,
        [batch.duration_ms for batch in replayed],
    )
