"""What past batches teach: how fast each executor is, and what a move costs.

*Speed.* An operator's rows cost every executor the same in a model of equal machines. What they
really cost each, beside the mean of all that ran the operator in the same batch, is its speed.

*Moves.* A task that has changed its executor loaded its state in that batch. What its run took
beyond its usual one, over the bytes of its state, is the speed of loading; what the batch took
beyond its usual time and the longest load is ``sync``; what the first task of an executor took
beyond loading its bytes is the cold start. Each is used once enough moves were seen; before that
the settings hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from elastream.core.application import Query
from elastream.model.observation import BatchObservation, TaskId

__all__ = ["Experience"]

_MOST_MOVES: Final = 60
_LEAST_MOVES: Final = 3
_LEAST_BYTES: Final = 4 << 20
"""Less state than this tells nothing about the speed of loading."""
_SPEED_WEIGHT: Final = 0.15
_SLOWEST, _FASTEST = 0.25, 4.0
"""Measured speeds are kept within this: one odd batch must not rule an executor out."""


@dataclass(frozen=True, slots=True)
class Experience:
    """What was seen of executors and moves so far."""

    speeds: Mapping[str, float] = field(default_factory=dict)
    """How fast each executor is, beside the others; 1 for those not named."""
    where: Mapping[TaskId, str] = field(default_factory=dict)
    """Where each task ran last."""
    seen: frozenset[str] = frozenset()
    """Executors that have had state."""
    loads: tuple[tuple[float, float], ...] = ()
    """Of tasks that moved: bytes, and milliseconds beyond the usual run."""
    syncs: tuple[float, ...] = ()
    """Of batches with moves: milliseconds beyond the usual batch and the longest load."""
    starts: tuple[float, ...] = ()
    """Of executors' first tasks: milliseconds beyond loading."""

    def with_batch(self, batch: BatchObservation, query: Query, *, disturbed: bool) -> Experience:
        """Return what is known after a batch of ``query``, which its load has taken in."""
        after = self._moved(batch, query)
        if not disturbed and after.loads == self.loads:
            after = replace(after, speeds=self._speeds(batch))
        places = {task.task: task.executor for task in batch.tasks}
        return replace(after, where={**self.where, **places}, seen=self.seen | set(places.values()))

    def of_those(self, queries: Collection[str], executors: Collection[str]) -> Experience:
        """Return what is known of these; the rest is forgotten, but not what moves cost."""
        return replace(
            self,
            speeds={name: speed for name, speed in self.speeds.items() if name in executors},
            where={task: node for task, node in self.where.items() if task.query in queries},
            seen=self.seen.intersection(executors),
        )

    def bytes_per_s(self, prior: float) -> float:
        """Return how fast an executor loads state."""
        size = sum(size for size, _ in self.loads)
        took_s = sum(ms for _, ms in self.loads) / 1000
        known = len(self.loads) >= _LEAST_MOVES and size >= _LEAST_BYTES and took_s > 0
        return size / took_s if known else prior

    def sync_ms(self, prior: float) -> float:
        """Return what a batch takes longer because something moves in it, whatever its size."""
        return median(self.syncs) if len(self.syncs) >= _LEAST_MOVES else prior

    def cold_ms(self, prior: float) -> float:
        """Return what the first state of an executor costs that has had none."""
        return median(self.starts) if self.starts else prior

    def _speeds(self, batch: BatchObservation) -> dict[str, float]:
        """Compare what rows cost each executor with what they cost all of them."""
        totals: dict[int, tuple[float, int]] = {}
        for task in batch.tasks:
            run_ms, rows = totals.get(task.task.operator, (0.0, 0))
            totals[task.task.operator] = (run_ms + task.run_ms, rows + task.rows)
        expected: dict[str, float] = {}
        actual: dict[str, float] = {}
        for task in batch.tasks:
            run_ms, rows = totals[task.task.operator]
            if rows and run_ms > 0:
                due = run_ms / rows * task.rows
                expected[task.executor] = expected.get(task.executor, 0.0) + due
                actual[task.executor] = actual.get(task.executor, 0.0) + task.run_ms
        speeds = dict(self.speeds)
        if len(actual) < 2:
            return speeds
        for executor, took_ms in actual.items():
            seen = min(max(expected[executor] / max(took_ms, 1e-3), _SLOWEST), _FASTEST)
            before = speeds.get(executor, 1.0)
            speeds[executor] = before + _SPEED_WEIGHT * (seen - before)
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
        longer: dict[str, float] = {}
        loads, starts = list(self.loads), list(self.starts)
        fresh = {task.executor for task in moved} - self.seen
        for task in moved:
            usual_ms = query.load.tasks[task.task].work * interval_ms
            extra_ms = max(0.0, task.run_ms - usual_ms)
            longer[task.executor] = longer.get(task.executor, 0.0) + extra_ms
            if task.executor in fresh:
                fresh.discard(task.executor)
                loading_ms = 1000 * task.state_bytes / max(self.bytes_per_s(50e6), 1.0)
                starts.append(max(0.0, extra_ms - loading_ms))
            else:
                loads.append((float(task.state_bytes), extra_ms))
        syncs = self.syncs
        if query.recent_ms:
            held_up = batch.duration_ms - median(query.recent_ms) - max(longer.values())
            syncs = (*syncs, max(0.0, held_up))
        return replace(
            self,
            loads=tuple(loads[-_MOST_MOVES:]),
            syncs=syncs[-_MOST_MOVES:],
            starts=tuple(starts[-_MOST_MOVES:]),
        )
