"""One Real-time query of a simulated cluster: batches of a set length, and boundaries between them.

All tasks of a batch, sources included, begin at once, each keeps a slot, and none changes its
executor before the batch ends. Sources are dealt to the executors in turn, beginning with another
one in each batch. Rows are worked off as they arrive while every executor has the CPU time for its
part; else they wait. At a boundary rows wait for the overhead, and for what the slowest task takes
to load its state or to start on a cold executor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Set
from typing import Final

from elastream.model.observation import (
    BatchObservation,
    LoadObservation,
    RunningTaskLoad,
    TaskId,
    TaskObservation,
)
from elastream.testing.slots import FOREVER
from elastream.testing.workload import ClusterSettings, Workload

NEAR_MS: Final = 1000.0
"""How long before the end of a batch its tasks may be placed."""
_MIB: Final = 1 << 20
_LATENCY_MS: Final = 10.0
"""What a row takes that does not wait."""


class RealTimeQuery:
    """The state of one run of a query."""

    idle: Final = False
    """Its tasks run whether rows come or not."""

    def __init__(self, workload: Workload, *, run: str, begins_ms: float) -> None:
        self.workload = workload
        self.run = run
        self.where: dict[TaskId, str] = {}
        """Where each task runs, or ran last, while that executor lives."""
        self.preferred: dict[TaskId, str] = {}
        """Where each task was asked to be since the batch began."""
        self.ahead: set[TaskId] = set()
        """Which of them have their state there already."""
        self.sources: list[str] = []
        """The executor of each source task of the batch."""
        self.held_up_ms = 0.0
        """How much later the next batch begins."""
        self._batch = -1
        self._begins_ms = begins_ms
        """When the batch under way began, or the next one will."""
        self._ends_ms = FOREVER
        """When the batch under way ends; for ever: none is."""
        self._flows_ms = begins_ms
        """From when on rows of this batch are worked off."""
        self._committed_ms: float | None = None
        self._is_near = False
        """Whether the end of the batch was reported."""
        self._looked_ms: float | None = None
        self._waiting = 0.0
        self._read = 0.0
        """Rows of the batch under way."""
        self._unseen_rows = 0.0
        """Those since the last look."""
        self._cpu_ms: dict[TaskId, float] = defaultdict(float)
        """CPU time of each task since the last look."""

    @property
    def slots(self) -> int:
        """How many slots a batch takes, all at once."""
        return self.workload.sources + len(self.workload.tasks)

    def next_ms(self, can_run: bool) -> float:
        """Return when a batch of it begins or ends, or the end is near."""
        if self._ends_ms == FOREVER:
            return self._begins_ms if can_run else FOREVER
        return self._ends_ms if self._is_near else max(self._begins_ms, self._ends_ms - NEAR_MS)

    def ready(self, at_ms: float) -> bool:
        """Whether a batch begins now."""
        return self._ends_ms == FOREVER and at_ms >= self._begins_ms

    def may_be_placed(self, at_ms: float) -> bool:
        """Whether Spark would take a placement now without unloading state in use."""
        return self._ends_ms == FOREVER or at_ms >= self._ends_ms - NEAR_MS

    def near(self, at_ms: float) -> int | None:
        """Return when the batch ends, where that is near and was not reported before."""
        if self._is_near or at_ms < self._ends_ms - NEAR_MS:
            return None
        self._is_near = True
        return round(self._ends_ms)

    def stop(self) -> None:
        """Begin no further batch."""
        self._begins_ms = self._ends_ms = FOREVER

    def run_batch(
        self,
        now_ms: float,
        speeds: Mapping[str, float],
        settings: ClusterSettings,
        *,
        cold: Set[str],
        obeys: Callable[[TaskId], bool],
    ) -> None:
        """Begin a batch on the executors that ``speeds`` names."""
        self._batch += 1
        slowest_ms = 0.0
        held = Counter(self.where.values())
        each = dict(zip(self.workload.task_ids, self.workload.tasks, strict=True))
        for task, one in each.items():
            before = self.where.get(task)
            preferred = self.preferred.get(task)
            if preferred is not None and preferred in speeds and obeys(task):
                node = preferred
            else:
                node = before or min(speeds, key=lambda name: held[name])
            if node != before:
                held[node] += 1
                if before is not None and task not in self.ahead:
                    load_ms = settings.load_ms + settings.load_ms_per_mib * one.state_bytes / _MIB
                    slowest_ms = max(slowest_ms, load_ms)
            self.where[task] = node
        names = sorted(speeds)
        first = self._batch % len(names)
        self.sources = [
            names[(first + place) % len(names)] for place in range(self.workload.sources)
        ]
        if cold & {*self.sources, *self.where.values()}:
            slowest_ms = max(slowest_ms, settings.cold_ms)
        self.preferred.clear()
        self.ahead.clear()
        self._begins_ms, self._flows_ms = now_ms, now_ms + slowest_ms
        self._ends_ms = now_ms + self.workload.trigger_ms
        self._is_near, self._read = False, 0.0

    def arrive(self, from_ms: float, until_ms: float) -> None:
        """Let rows arrive."""
        middle_s = (from_ms + until_ms) / 2000
        self._waiting += self.workload.rows_per_s(middle_s) * (until_ms - from_ms) / 1000

    def work(
        self,
        from_ms: float,
        until_ms: float,
        speeds: Mapping[str, float],
        free: Mapping[str, float],
    ) -> dict[str, float]:
        """Work off rows that wait, and return the cores that were used by each executor.

        ``free`` are the cores that each executor has for it.
        """
        span_ms = until_ms - max(from_ms, self._flows_ms)
        if self._ends_ms == FOREVER or span_ms <= 0:
            return {}
        costs: dict[str, float] = defaultdict(float)
        for task, one in zip(self.workload.task_ids, self.workload.tasks, strict=True):
            costs[self.where[task]] += one.share * one.row_ms / speeds.get(self.where[task], 1.0)
        for node in self.sources:
            part_ms = self.workload.outside_row_ms / self.workload.sources
            costs[node] += part_ms / speeds.get(node, 1.0)
        fits = [span_ms * free.get(node, 0.0) / ms for node, ms in costs.items() if ms]
        rows = min([self._waiting, *fits])
        self._waiting -= rows
        self._read += rows
        self._unseen_rows += rows
        for task, one in zip(self.workload.task_ids, self.workload.tasks, strict=True):
            self._cpu_ms[task] += rows * one.share * one.row_ms / speeds.get(self.where[task], 1.0)
        return {node: rows * ms / span_ms for node, ms in costs.items()}

    def look(self, at_ms: float) -> LoadObservation | None:
        """Return what it has done since the last look; ``None`` while no batch is under way."""
        if self._ends_ms == FOREVER:
            return None
        before_ms, self._looked_ms = self._looked_ms, at_ms
        rows, cpu_ms = self._unseen_rows, self._cpu_ms
        self._unseen_rows, self._cpu_ms = 0.0, defaultdict(float)
        is_first = before_ms is None
        outside: dict[str, float] = defaultdict(float)
        for node in () if is_first else self.sources:
            outside[node] += rows * self.workload.outside_row_ms / self.workload.sources
        rate = self.workload.rows_per_s(at_ms / 1000)
        return LoadObservation(
            query=self.workload.name,
            run=self.run,
            batch=self._batch,
            at_ms=round(at_ms),
            ends_at_ms=round(self._ends_ms),
            interval_ms=None if before_ms is None else at_ms - before_ms,
            tasks=tuple(
                RunningTaskLoad(task, node, 0.0 if is_first else cpu_ms[task])
                for task, node in self.where.items()
            ),
            outside_ms=dict(outside),
            rows=0 if is_first else round(rows),
            backlog=int(self._waiting),
            latency_ms=_LATENCY_MS + 1000 * int(self._waiting) / max(rate, 1.0),
            began_at_ms=round(self._flows_ms),
        )

    def committed(self, at_ms: float) -> BatchObservation | None:
        """Return the batch that ends now, if one does."""
        if at_ms < self._ends_ms:
            return None
        before_ms, self._committed_ms = self._committed_ms, self._ends_ms
        ended_ms, began_ms = self._ends_ms, self._begins_ms
        self._begins_ms = ended_ms + self.workload.overhead_ms + self.held_up_ms
        self._ends_ms, self.held_up_ms = FOREVER, 0.0
        rows = round(self._read)
        return BatchObservation(
            query=self.workload.name,
            run=self.run,
            batch=self._batch,
            duration_ms=ended_ms - began_ms,
            rows=rows,
            backlog=int(self._waiting),
            finished_at_ms=round(ended_ms),
            interval_ms=None if before_ms is None else ended_ms - before_ms,
            tasks=tuple(
                TaskObservation(task, self.where[task], ended_ms - began_ms, n, n, one.state_bytes)
                for task, one, n in zip(
                    self.workload.task_ids,
                    self.workload.tasks,
                    self.workload.rows_of_tasks(rows),
                    strict=True,
                )
                if task in self.where
            ),
        )
