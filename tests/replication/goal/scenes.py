"""Short ways to say what the replication goal observes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from elastream.core.application import GoalBounds, Observed, Query
from elastream.core.load import QueryLoad, cost_of, smooth
from elastream.model.observation import (
    BatchObservation,
    Executor,
    OperatorGraph,
    TaskId,
    TaskObservation,
)
from elastream.replication.goal.experience import Experience
from elastream.replication.goal.problem import ProblemInputs
from elastream.replication.goal.response import outside_ms

__all__ = ["CHAIN", "QUERY", "RUN", "executors", "looked", "observed", "scene", "seen"]

QUERY, RUN = "query", "run 1"
CHAIN = OperatorGraph({0: None, 1: 0})
"""Operator 1 feeds operator 0."""


def executors(
    number: int,
    *,
    hosts: bool | Sequence[str] = False,
    cores: int | Sequence[int] = 1,
    cold: Sequence[str] = (),
) -> tuple[Executor, ...]:
    """Executors 0, 1, ..., on one host, on one each, or on these."""
    if isinstance(hosts, bool):
        hosts = [f"host{i}" if hosts else "host" for i in range(number)]
    each = [cores] * number if isinstance(cores, int) else cores
    return tuple(
        Executor(str(i), hosts[i], 0, warm=str(i) not in cold, cores=each[i]) for i in range(number)
    )


def looked(
    number: int,
    where: Mapping[int, str],
    *,
    run_ms: Mapping[int, float],
    rows: Mapping[int, int],
    duration_ms: float = 1000.0,
    interval_ms: float | None = 1000.0,
    backlog: int | None = None,
    query: str = QUERY,
    state_bytes: int = 1000,
) -> BatchObservation:
    """A batch a second in which partition j of operator i ran on the executor ``where[i][j]``."""
    tasks = tuple(
        TaskObservation(
            TaskId(query, operator, j),
            executor,
            run_ms[operator] / len(placed),
            rows[operator] // len(placed),
            10,
            state_bytes,
        )
        for operator, placed in sorted(where.items())
        for j, executor in enumerate(placed)
    )
    return BatchObservation(
        query=query,
        run=RUN,
        batch=number,
        duration_ms=duration_ms,
        rows=rows[max(rows)],
        backlog=backlog,
        finished_at_ms=1000 * (number + 1),
        interval_ms=interval_ms,
        tasks=tasks,
    )


def observed(
    batches: Sequence[BatchObservation],
    nodes: tuple[Executor, ...],
    *,
    most: int | None = None,
    graph: OperatorGraph = CHAIN,
) -> Observed:
    """The application after these batches; as many executors as are there, or ``most``."""
    queries: dict[str, Query] = {}
    for batch in batches:
        known = queries.get(batch.query, Query(batch.query, RUN, graph, load=QueryLoad()))
        cost = cost_of(batch, nodes)
        load = smooth(known.load, batch, cost, half_life_s=5.0)
        recent = (*known.recent, cost)[-10:]
        queries[batch.query] = replace(known, load=load, recent=recent)
    now_ms = max((batch.finished_at_ms for batch in batches), default=0)
    bounds = GoalBounds(1, most or max(1, len(nodes)), 0.2)
    return Observed(now_ms, bounds, nodes, dict(sorted(queries.items())))


def seen(
    batches: Sequence[BatchObservation],
    nodes: tuple[Executor, ...],
    *,
    round_trips_ms: Mapping[tuple[str, str], float] | None = None,
    experience: Experience | None = None,
) -> ProblemInputs:
    """What has been learnt where the last batch of each query was the usual one."""
    outside = {batch.query: outside_ms(batch, nodes) for batch in batches}
    return ProblemInputs({}, outside, round_trips_ms or {}, experience or Experience())


def scene(
    where: Mapping[int, str],
    *,
    run_ms: Mapping[int, float],
    rows: Mapping[int, int],
    duration_ms: float = 1000.0,
    query: str = QUERY,
) -> list[BatchObservation]:
    """Four batches that are alike."""
    return [
        looked(number, where, run_ms=run_ms, rows=rows, duration_ms=duration_ms, query=query)
        for number in range(4)
    ]
