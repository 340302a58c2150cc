"""Short ways to say what the replication loop observes."""

from __future__ import annotations

from elastream.control.observation import BatchObservation, Executor, TaskId, TaskObservation
from elastream.control.replication.analyse import Observed
from elastream.control.replication.graph import OperatorGraph
from elastream.control.replication.latency import outside_ms
from elastream.control.smoothing import SmoothedLoad, smoothed

__all__ = ["CHAIN", "executors", "load_of", "looked", "observed"]

CHAIN = OperatorGraph({0: None, 1: 0})
"""Operator 1 feeds operator 0."""


def executors(number: int, *, hosts: bool = False, cores: int = 1) -> tuple[Executor, ...]:
    return tuple(
        Executor(str(i), f"host{i}" if hosts else "host", 10.0, warm=True, cores=cores)
        for i in range(number)
    )


def looked(
    number: int,
    where: dict[int, str],
    *,
    run_ms: dict[int, float],
    rows: dict[int, int],
    duration_ms: float = 1000.0,
    interval_ms: float = 1000.0,
    backlog: int | None = None,
) -> BatchObservation:
    """A batch in which partition j of operator i ran on the executor ``where[i][j]``."""
    tasks = tuple(
        TaskObservation(
            TaskId(operator, j),
            executor,
            run_ms[operator] / len(placed),
            rows[operator] // len(placed),
            10,
            1000,
        )
        for operator, placed in sorted(where.items())
        for j, executor in enumerate(placed)
    )
    return BatchObservation(
        batch=number,
        duration_ms=duration_ms,
        rows=rows[max(rows)],
        backlog=backlog,
        finished_at_ms=round(1000 + number * interval_ms),
        interval_ms=interval_ms,
        tasks=tasks,
    )


def load_of(batches: list[BatchObservation], nodes: tuple[Executor, ...]) -> SmoothedLoad:
    load = SmoothedLoad()
    for batch in batches:
        load = smoothed(load, batch, nodes, half_life_s=5.0)
    return load


def observed(
    where: dict[int, str],
    *,
    nodes: tuple[Executor, ...],
    run_ms: dict[int, float],
    rows: dict[int, int],
    duration_ms: float = 1000.0,
    round_trips_ms: dict[tuple[str, str], float] | None = None,
) -> Observed:
    batches = [
        looked(number, where, run_ms=run_ms, rows=rows, duration_ms=duration_ms)
        for number in range(4)
    ]
    outside = outside_ms(batches[-1], nodes)
    return Observed(load_of(batches, nodes), nodes, CHAIN, {}, outside, round_trips_ms or {})
