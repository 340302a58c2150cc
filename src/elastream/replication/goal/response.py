"""Response times from measurements: of an operator by its input rate, and of a row of a query.

**Operators.** A micro-batch collects rows for an interval T and then processes them stage by stage.
A stage ends when its busiest replica ends. An operator that needs s of executor time per row and
gets rate r per replica is busy for ``T s r`` of every batch: its response time is linear in r, not
a queueing curve. The paper found the same (section 7.3).

- ``fitted``: the least-squares line through the last batches, once they cover rates that differ
  enough. Until then, and when the line falls or starts below zero, the line through the origin with
  the current time. That also divides the fixed cost of tasks among the replicas, which is right:
  with more replicas each has fewer tasks.
- ``queue``: M/M/1 with the current service rate. Its milliseconds are per row, not per batch.

**Rows.** A row waits for its batch: on average half the time between two batches. If rows arrive
faster than they are processed, the unread rows queue up before it::

    response = wait for the batch + backlog over the rows processed per second + duration

Only unread rows in excess of one usual batch count as backlog; the wait for the next batch is
already counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from elastream.core.application import Query
from elastream.model.batch import stage_length
from elastream.model.observation import BatchObservation, Executor
from elastream.replication.goal.operators import OperatorKey, OperatorLoad
from elastream.replication.model.latency import Latency, Polynomial, Queue, fit_polynomial

LatencyModel = Literal["fitted", "queue"]
"""``fitted``: a line through measurements (section 7.3). ``queue``: M/M/1 (section 7.2)."""

Points = Mapping[OperatorKey, tuple[tuple[float, float], ...]]
"""For each operator, its last batches: rows per replica, milliseconds of the stage."""

_MOST_POINTS: Final = 60
_LEAST_POINTS: Final = 10
_LEAST_RATIO: Final = 1.5
"""The largest rate over the smallest must be at least this; otherwise the slope is mostly noise."""


def with_batch(
    points: Points, batch: BatchObservation, executors: tuple[Executor, ...]
) -> dict[OperatorKey, tuple[tuple[float, float], ...]]:
    """Return the points with those of one more batch, without the oldest."""
    updated = dict(points)
    rows: dict[OperatorKey, int] = {}
    nodes: dict[OperatorKey, set[str]] = {}
    for task in batch.tasks:
        key = (task.task.query, task.task.operator)
        rows[key] = rows.get(key, 0) + task.rows
        nodes.setdefault(key, set()).add(task.executor)
    slots = {executor.id: float(executor.slots) for executor in executors}
    for key, took_ms in _stages_ms(batch, slots).items():
        if rows[key]:
            point = (rows[key] / len(nodes[key]), took_ms)
            updated[key] = (*updated.get(key, ()), point)[-_MOST_POINTS:]
    return updated


def outside_ms(batch: BatchObservation, executors: tuple[Executor, ...]) -> float:
    """Return the time of a batch outside its stateful stages, which run one after the other.

    The wait for slots that others held belongs to the executors.
    """
    slots = {executor.id: float(executor.slots) for executor in executors}
    stages_ms = sum(_stages_ms(batch, slots).values())
    return max(0.0, batch.duration_ms - batch.waited_ms - stages_ms)


def latency_of(
    load: OperatorLoad,
    points: Points,
    model: LatencyModel,
    *,
    interval_ms: float,
    demand: float,
    slots: float,
) -> Latency:
    """Return the response time of one replica on an executor with ``slots`` slots.

    ``demand`` is required work over work done: a saturated operator would be slower than it was.
    """
    rate, work = load.rows_per_s * demand, load.work * demand / slots
    if rate <= 0 or work <= 0:
        return Polynomial((work * interval_ms,))
    if model == "queue":
        return Queue(rate / work)
    line = _line(points.get(load.key, ()), interval_ms)
    return line or Polynomial((0.0, work * interval_ms / rate))


def _stages_ms(batch: BatchObservation, slots: Mapping[str, float]) -> dict[OperatorKey, float]:
    """Return how long the stage of each operator took on this many slots of each executor."""
    tasks: dict[OperatorKey, list[tuple[str, float]]] = {}
    for task in batch.tasks:
        ran = tasks.setdefault((task.task.query, task.task.operator), [])
        ran.append((task.executor, task.run_ms))
    gone = {task.executor: 1.0 for task in batch.tasks}
    return {key: stage_length(ran, {**gone, **slots}) for key, ran in tasks.items()}


def _line(points: tuple[tuple[float, float], ...], interval_ms: float) -> Polynomial | None:
    """Return the line through the points in the rate, or ``None`` if they do not determine one."""
    rows = [number for number, _ in points]
    if len(points) < _LEAST_POINTS or max(rows) < _LEAST_RATIO * min(rows):
        return None
    start_ms, row_ms = fit_polynomial(points, degree=1).coefficients
    if start_ms < 0 or row_ms <= 0:
        return None
    return Polynomial((start_ms, row_ms * interval_ms / 1000))


WAITS_HALF = 0.5
"""Average wait of a row for its batch to start, as a share of the time between two batches."""


@dataclass(frozen=True, slots=True)
class RowResponse:
    """Average response time of a row, and its parts."""

    batch_ms: float
    """From trigger to commit."""
    wait_ms: float
    """Until the batch starts."""
    backlog_ms: float = 0.0
    """Until the rows queued before it are processed; 0 if the source does not report a backlog."""

    @property
    def total_ms(self) -> float:
        """Sum of the parts."""
        return self.batch_ms + self.wait_ms + self.backlog_ms

    def __str__(self) -> str:
        backlog = f", {self.backlog_ms:.0f} behind a backlog" if self.backlog_ms >= 1 else ""
        return f"{self.batch_ms:.0f} in its batch, {self.wait_ms:.0f} until that begins{backlog}"


def response_of(query: Query, batch: BatchObservation | None = None) -> RowResponse:
    """Return the response time of a row of the query in its last batch, or in ``batch``."""
    load = query.load
    batch_ms = (load.batch_ms or 0.0) if batch is None else batch.duration_ms
    backlog = load.backlog if batch is None else batch.backlog
    between_ms = max(batch_ms, query.trigger_ms or 0.0)
    behind_ms = 0.0
    if backlog and load.rows_per_s:
        behind_ms = max(0.0, 1000 * backlog / load.rows_per_s - between_ms)
    return RowResponse(batch_ms, WAITS_HALF * between_ms, behind_ms)
