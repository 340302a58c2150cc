"""Smoothing: from single batches to the load that decisions are made on.

Batches are unequal and noisy, so every figure is an exponentially weighted mean over the time of
the stream: a batch that covered ``t`` seconds weighs ``1 - 2 ** (-t / half_life)`` against all
before it. Batches of any length can thus follow one another, and a cut of one batch into two
leaves the mean where it was.

What is kept out:

- a batch seen before (a replay): nothing changes;
- a batch whose stream time is unknown (the first one seen): where tasks are and what state they
  have is taken from it, its rates are not known;
- the run time of a task that has just changed its executor: it loaded its state in that batch,
  and loading is not its work;
- a task that a batch does not mention: not seen is not idle, its figures stay.

O(m) a batch, m the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from elastream.control.observation import BatchObservation, Executor, TaskId, TaskObservation

__all__ = ["SmoothedLoad", "TaskLoad", "smoothed"]


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What one task costs."""

    executor: str
    """Id of the executor that last ran it, not smoothed."""
    work: float
    """Cores it keeps busy: executor run time over stream time (w_j of the papers)."""
    rows_per_s: float
    """Rows it reads per second of stream time."""
    state_bytes: float
    """Size of its state (\\|s_j\\| of the papers)."""
    measured: bool
    """Whether its rates come from at least one batch."""


@dataclass(frozen=True, slots=True)
class SmoothedLoad:
    """What the query costs, as far as the batches so far can tell."""

    tasks: Mapping[TaskId, TaskLoad] = field(default_factory=dict)
    """Every task seen so far, in the order of task ids."""
    batch: int | None = None
    """The last batch taken in."""
    at_ms: int | None = None
    """When that batch committed: the time of the stream, and the loop's only clock."""
    rows_per_s: float | None = None
    """Input rows worked off per second."""
    arrivals_per_s: float | None = None
    """Input rows that arrive per second: worked off plus growth of the backlog; ``None`` where the
    source cannot tell its backlog."""
    backlog: int | None = None
    """Rows waiting at the source after the last batch, not smoothed."""
    batch_ms: float | None = None
    """How long the last batch took, not smoothed."""
    interval_ms: float | None = None
    """Stream time per batch."""
    outside_ms: float | None = None
    """Time per batch during which the busiest executor ran no stateful task of it."""


def smoothed(
    load: SmoothedLoad,
    batch: BatchObservation,
    executors: Sequence[Executor],
    *,
    half_life_s: float,
) -> SmoothedLoad:
    """Return ``load`` with ``batch`` taken in; ``executors`` tell how many cores share the work."""
    if load.batch is not None and batch.batch <= load.batch:
        return load
    if batch.interval_ms is None or batch.interval_ms <= 0:
        interval_s, weight = None, 0.0
    else:
        interval_s = batch.interval_ms / 1000
        weight = 1 - 2 ** (-interval_s / half_life_s)
    tasks = dict(load.tasks)
    for seen in batch.tasks:
        tasks[seen.task] = _task(load.tasks.get(seen.task), seen, interval_s, weight)
    if len(tasks) > len(load.tasks):
        tasks = dict(sorted(tasks.items()))
    seen_now = replace(
        load,
        tasks=tasks,
        batch=batch.batch,
        at_ms=batch.finished_at_ms,
        backlog=batch.backlog,
        batch_ms=batch.duration_ms,
    )
    if interval_s is None:
        return seen_now
    return replace(
        seen_now,
        rows_per_s=_mean(load.rows_per_s, batch.rows / interval_s, weight),
        arrivals_per_s=_arrivals(load, batch, interval_s, weight),
        interval_ms=_mean(load.interval_ms, interval_s * 1000, weight),
        outside_ms=_mean(load.outside_ms, _outside_ms(batch, executors), weight),
    )


def _task(
    known: TaskLoad | None, seen: TaskObservation, interval_s: float | None, weight: float
) -> TaskLoad:
    if known is None or not known.measured:
        if interval_s is None:
            return TaskLoad(seen.executor, 0.0, 0.0, seen.state_bytes, measured=False)
        work, rows = seen.run_ms / 1000 / interval_s, seen.rows / interval_s
        return TaskLoad(seen.executor, work, rows, seen.state_bytes, measured=True)
    if interval_s is None:
        return TaskLoad(
            seen.executor, known.work, known.rows_per_s, known.state_bytes, measured=True
        )
    moved = seen.executor != known.executor
    return TaskLoad(
        seen.executor,
        known.work if moved else _mean(known.work, seen.run_ms / 1000 / interval_s, weight),
        _mean(known.rows_per_s, seen.rows / interval_s, weight),
        _mean(known.state_bytes, seen.state_bytes, weight),
        measured=True,
    )


def _mean(before: float | None, now: float, weight: float) -> float:
    return now if before is None else before + weight * (now - before)


def _arrivals(
    load: SmoothedLoad, batch: BatchObservation, interval_s: float, weight: float
) -> float | None:
    if batch.backlog is None:
        return None
    if load.backlog is None:
        return load.arrivals_per_s
    arrived = max(0, batch.rows + batch.backlog - load.backlog)
    return _mean(load.arrivals_per_s, arrived / interval_s, weight)


def _outside_ms(batch: BatchObservation, executors: Sequence[Executor]) -> float:
    cores = {executor.id: executor.cores for executor in executors}
    busy: dict[str, float] = {}
    for task in batch.tasks:
        busy[task.executor] = busy.get(task.executor, 0.0) + task.run_ms
    longest = max((ms / cores.get(executor, 1) for executor, ms in busy.items()), default=0.0)
    return max(0.0, batch.duration_ms - longest)
