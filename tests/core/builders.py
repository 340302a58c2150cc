"""Short ways to say what a test observes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elastream.core.application import GoalBounds, Observed, Query
from elastream.core.load import QueryLoad, TaskLoad
from elastream.model.observation import BatchObservation, Executor, TaskId, TaskObservation

__all__ = ["batch", "bounds", "executors", "load", "observed", "task"]

QUERY = "query"
RUN = "run 1"


def task(partition: int, query: str = QUERY) -> TaskId:
    return TaskId(query, 0, partition)


def executors(
    *ids: str,
    cores: int = 1,
    task_cpus: float = 1.0,
    cold: Sequence[str] = (),
    hosts: Mapping[str, str] | None = None,
) -> tuple[Executor, ...]:
    return tuple(
        Executor(
            id=name,
            host=(hosts or {}).get(name, "h"),
            since_ms=0,
            warm=name not in cold,
            cores=cores,
            task_cpus=task_cpus,
        )
        for name in ids
    )


def batch(
    number: int,
    where: Mapping[int, str] | Sequence[str],
    *,
    query: str = QUERY,
    run: str = RUN,
    run_ms: float | Sequence[float] = 100.0,
    interval_ms: float | None = 1000.0,
    state_bytes: int = 1000,
    rows: int = 100,
    backlog: int | None = None,
    duration_ms: float = 500.0,
    outside_ms: Mapping[str, float] | None = None,
    at_ms: int | None = None,
) -> BatchObservation:
    """A batch a second; task j ran on ``where[j]``."""
    placed = where if isinstance(where, Mapping) else dict(enumerate(where))
    times = run_ms if isinstance(run_ms, Sequence) else [run_ms] * len(placed)
    return BatchObservation(
        query=query,
        run=run,
        batch=number,
        duration_ms=duration_ms,
        rows=rows,
        backlog=backlog,
        finished_at_ms=1000 * (number + 1) if at_ms is None else at_ms,
        interval_ms=interval_ms,
        tasks=tuple(
            TaskObservation(task(j, query), node, ms, rows, rows, state_bytes)
            for (j, node), ms in zip(placed.items(), times, strict=True)
        ),
        outside_ms=outside_ms or {},
    )


def load(
    work: Sequence[float],
    where: Sequence[str],
    *,
    query: str = QUERY,
    outside: Mapping[str, float] | None = None,
    **figures: float | None,
) -> QueryLoad:
    """A load as measured: task j works ``work[j]`` cores on ``where[j]``."""
    return QueryLoad(
        tasks={
            task(j, query): TaskLoad(node, amount, 10.0, 1000.0, measured=True)
            for j, (amount, node) in enumerate(zip(work, where, strict=True))
        },
        outside=outside or {},
        run=RUN,
        batch=0,
        until_ms=1000,
        **figures,  # type: ignore[arg-type]
    )


def bounds(least: int = 1, most: int = 8, **more: float) -> GoalBounds:
    settings = {"tau": 0.2, **more}
    return GoalBounds(least, most, **settings)  # type: ignore[arg-type]


def observed(
    loads: QueryLoad | Mapping[str, QueryLoad],
    alive: tuple[Executor, ...],
    *,
    within: GoalBounds | None = None,
    **more: object,
) -> Observed:
    """An application whose queries have these loads."""
    each = loads if isinstance(loads, Mapping) else {QUERY: loads}
    queries = {
        name: Query(name, RUN, tasks=len(one.tasks), load=one) for name, one in sorted(each.items())
    }
    return Observed(
        now_ms=1000,
        bounds=within or bounds(),
        executors=alive,
        queries=queries,
        **more,  # type: ignore[arg-type]
    )
