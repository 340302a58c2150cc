"""Learn from past batches how fast each executor is and what a move costs.

*Speed.* The mean cost per row over all executors that ran an operator in the same batch, divided by
the executor's own cost per row.

*Moves.* A task that changed its executor loaded its state in that batch. The bytes of its state
over the time its run took beyond the usual give the loading speed. The time the batch took beyond
its usual duration and the longest load is ``sync``. The time the first task on an executor took
beyond loading its bytes is the cold start. Each estimate is used once enough moves were measured;
until then the settings apply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from elastream.core.application import Query
from elastream.model.observation import BatchObservation, TaskId

_MOST_MOVES: Final = 60
_LEAST_MOVES: Final = 3
_LEAST_BYTES: Final = 4 << 20
"""Moves of less state than this are too noisy to estimate the loading speed."""
_SPEED_WEIGHT: Final = 0.15
_SLOWEST, _FASTEST = 0.25, 4.0
"""Measured speeds are clipped to this range: one odd batch must not rule out an executor."""


@dataclass(frozen=True, slots=True)
class Experience:
    """What past batches showed of executors and moves."""

    speeds: Mapping[str, float] = field(default_factory=dict)
    """Speed of each executor relative to the others; 1 for executors not listed."""
    where: Mapping[TaskId, str] = field(default_factory=dict)
    """The executor on which each task last ran."""
    seen: frozenset[str] = frozenset()
    """Executors that have held state."""
    loads: tuple[tuple[float, float], ...] = ()
    """For each task that moved: bytes, and milliseconds beyond its usual run."""
    syncs: tuple[float, ...] = ()
    """For each batch with moves: milliseconds beyond the usual batch and the longest load."""
    starts: tuple[float, ...] = ()
    """For the first task of each executor: milliseconds beyond loading its state."""

    def with_batch(self, batch: BatchObservation, query: Query, *, disturbed: bool) -> Experience:
        """Return the estimates after a batch of ``query``; its load already includes that batch."""
        after = self._moved(batch, query)
        if not disturbed and after.loads == self.loads:
            after = replace(after, speeds=self._speeds(batch))
        places = {task.task: task.executor for task in batch.tasks}
        return replace(after, where={**self.where, **places}, seen=self.seen | set(places.values()))

    def of_those(self, queries: Collection[str], executors: Collection[str]) -> Experience:
        """Drop all other queries and executors; keep what was learned about the cost of moves."""
        return replace(
            self,
            speeds={name: speed for name, speed in self.speeds.items() if name in executors},
            where={task: node for task, node in self.where.items() if task.query in queries},
            seen=self.seen.intersection(executors),
        )

    def bytes_per_s(self, prior: float) -> float:
        """Return the speed at which an executor loads state."""
        size = sum(size for size, _ in self.loads)
        took_s = sum(ms for _, ms in self.loads) / 1000
        enough = len(self.loads) >= _LEAST_MOVES and size >= _LEAST_BYTES and took_s > 0
        return size / took_s if enough else prior

    def sync_ms(self, prior: float) -> float:
        """Return the extra time of a batch in which anything moves, whatever its size."""
        return median(self.syncs) if len(self.syncs) >= _LEAST_MOVES else prior

    def cold_ms(self, prior: float) -> float:
        """Return the extra cost of the first state on an executor that has held none."""
        return median(self.starts) if self.starts else prior

    def _speeds(self, batch: BatchObservation) -> dict[str, float]:
        """Compare the cost of rows on each executor with their cost over all executors."""
        totals: dict[int, tuple[float, int]] = {}
        for task in batch.tasks:
            run_ms, rows = totals.get(task.task.operator, (0.0, 0))
            totals[task.task.operator] = (run_ms + task.run_ms, rows + task.rows)
        expected: dict[str, float] = {}
        actual: dict[str, float] = {}
        for task in batch.tasks:
            run_ms, rows = totals[task.task.operator]
            if rows and run_ms > 0:
                expected_ms = run_ms / rows * task.rows
                expected[task.executor] = expected.get(task.executor, 0.0) + expected_ms
                actual[task.executor] = actual.get(task.executor, 0.0) + task.run_ms
        speeds = dict(self.speeds)
        if len(actual) < 2:
            return speeds
        for executor, took_ms in actual.items():
            measured = min(max(expected[executor] / max(took_ms, 1e-3), _SLOWEST), _FASTEST)
            previous = speeds.get(executor, 1.0)
            speeds[executor] = previous + _SPEED_WEIGHT * (measured - previous)
        return speeds

    def _moved(self, batch: BatchObservation, query: Query) -> Experience:
        interval_ms = query.load.interval_ms
        moved = [
            task
            for task in batch.tasks
            if self.where.get(task.task, task.executor) != task.executor
        ]
        if not moved or interval_ms is None:
            return self
        extra_by_executor: dict[str, float] = {}
        loads, starts = list(self.loads), list(self.starts)
        cold = {task.executor for task in moved} - self.seen
        for task in moved:
            usual_ms = query.load.tasks[task.task].work * interval_ms
            extra_ms = max(0.0, task.run_ms - usual_ms)
            extra_by_executor[task.executor] = extra_by_executor.get(task.executor, 0.0) + extra_ms
            if task.executor in cold:
                cold.discard(task.executor)
                loading_ms = 1000 * task.state_bytes / max(self.bytes_per_s(50e6), 1.0)
                starts.append(max(0.0, extra_ms - loading_ms))
            else:
                loads.append((float(task.state_bytes), extra_ms))
        syncs = self.syncs
        if query.usual_ms is not None:
            sync_ms = batch.duration_ms - query.usual_ms - max(extra_by_executor.values())
            syncs = (*syncs, max(0.0, sync_ms))
        return replace(
            self,
            loads=tuple(loads[-_MOST_MOVES:]),
            syncs=syncs[-_MOST_MOVES:],
            starts=tuple(starts[-_MOST_MOVES:]),
        )
