"""Short ways to say what a test observes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elastream.control.observation import BatchObservation, Executor, TaskId, TaskObservation
from elastream.control.smoothing import SmoothedLoad, TaskLoad

__all__ = ["batch", "executors", "load", "task"]


def task(partition: int) -> TaskId:
    return TaskId(0, partition)


def executors(*ids: str, cores: int = 1, cold: Sequence[str] = ()) -> tuple[Executor, ...]:
    return tuple(
        Executor(id=name, host="h", age_s=10.0, warm=name not in cold, cores=cores) for name in ids
    )


def batch(
    number: int,
    where: Mapping[int, str] | Sequence[str],
    *,
    run_ms: float | Sequence[float] = 100.0,
    interval_ms: float | None = 1000.0,
    state_bytes: int = 1000,
    rows: int = 100,
    backlog: int | None = None,
    duration_ms: float = 500.0,
) -> BatchObservation:
    """A batch a second; task j ran on ``where[j]``."""
    placed = where if isinstance(where, Mapping) else dict(enumerate(where))
    times = run_ms if isinstance(run_ms, Sequence) else [run_ms] * len(placed)
    return BatchObservation(
        batch=number,
        duration_ms=duration_ms,
        rows=rows,
        backlog=backlog,
        finished_at_ms=1000 * (number + 1),
        interval_ms=interval_ms,
        tasks=tuple(
            TaskObservation(task(j), node, ms, rows, rows, state_bytes)
            for (j, node), ms in zip(placed.items(), times, strict=True)
        ),
    )


def load(work: Sequence[float], where: Sequence[str], **figures: float | None) -> SmoothedLoad:
    """A load as measured: task j works ``work[j]`` cores on ``where[j]``."""
    return SmoothedLoad(
        tasks={
            task(j): TaskLoad(node, amount, 10.0, 1000.0, measured=True)
            for j, (amount, node) in enumerate(zip(work, where, strict=True))
        },
        batch=0,
        at_ms=1000,
        **figures,  # type: ignore[arg-type]
    )
