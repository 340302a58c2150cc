"""One query of a simulated cluster: rows that wait, a batch under way, tasks and their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream.testing.workload import ClusterSettings, Workload

_MIB = 1 << 20


class SimulatedQuery:
    """The state of one run of a query."""

    def __init__(self, workload: Workload, *, run: str, begins_ms: float) -> None:
        self.workload = workload
        self.run = run
        self.where: dict[TaskId, str] = {}
        """Where each task ran last, while that executor lives."""
        self.preferred: dict[TaskId, str] = {}
        """Where each task was asked to be since the last batch began."""
        self.ahead: set[TaskId] = set()
        """Which of them have their state there already."""
        self.held_up_ms = 0.0
        """How much longer the next batch takes than its tasks do."""
        self._waiting = 0.0
        self._batch = 0
        self._trigger_ms = begins_ms
        """When the next batch may begin."""
        self._committed_ms: float | None = None
        self._running: BatchObservation | None = None
        self._ends_ms = 0.0

    @property
    def idle(self) -> bool:
        """Whether no batch runs and no row waits for one."""
        return self._running is None and int(self._waiting) == 0

    def arrive(self, from_ms: float, until_ms: float) -> None:
        """Let rows arrive."""
        middle_s = (from_ms + until_ms) / 2000
        self._waiting += self.workload.rows_per_s(middle_s) * (until_ms - from_ms) / 1000

    def next_ms(self, can_run: bool) -> float:
        """Return when a batch of it commits, or may begin."""
        if self._running is not None:
            return self._ends_ms
        return self._trigger_ms if can_run and int(self._waiting) else float("inf")

    def ready(self, at_ms: float) -> bool:
        """Whether a batch begins now."""
        return self._running is None and int(self._waiting) > 0 and at_ms >= self._trigger_ms

    def committed(self, at_ms: float) -> BatchObservation | None:
        """Return the batch that commits now, if one does."""
        if self._running is None or at_ms < self._ends_ms:
            return None
        observed, self._running = self._running, None
        self._committed_ms = self._ends_ms
        return replace(observed, backlog=int(self._waiting))

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
        load = self.workload
        rows = int(self._waiting)
        if load.most_rows is not None:
            rows = min(rows, load.most_rows)
        self._waiting -= rows
        before = dict(self.where)
        tasks = self._run(rows, speeds, cold, settings, obeys)
        busy: dict[str, float] = {}
        for task in tasks:
            busy[task.executor] = busy.get(task.executor, 0.0) + task.run_ms
        outside_ms = rows * load.outside_row_ms / len(speeds)
        longest = (max(busy.values(), default=0.0) + outside_ms) / settings.cores
        travels_ms = self._transfer_ms(before, tasks, settings)
        self.ahead.clear()
        duration = load.overhead_ms + travels_ms + longest + self.held_up_ms
        self.held_up_ms = 0.0
        self._ends_ms = now_ms + duration
        self._trigger_ms = max(now_ms + load.trigger_ms, self._ends_ms)
        committed_ms = self._committed_ms
        self._running = BatchObservation(
            query=load.name,
            run=self.run,
            batch=self._batch,
            duration_ms=duration,
            rows=rows,
            backlog=None,
            finished_at_ms=round(self._ends_ms),
            interval_ms=None if committed_ms is None else self._ends_ms - committed_ms,
            tasks=tasks,
            outside_ms=dict.fromkeys(speeds, outside_ms) if outside_ms else {},
        )
        self._batch += 1

    def _run(
        self,
        rows: int,
        speeds: Mapping[str, float],
        cold: Set[str],
        settings: ClusterSettings,
        obeys: Callable[[TaskId], bool],
    ) -> tuple[TaskObservation, ...]:
        held = dict.fromkeys(speeds, 0)
        for node in self.where.values():
            held[node] += 1
        ran, freezing = [], set(cold)
        for task, each, read in zip(
            self.workload.task_ids,
            self.workload.tasks,
            self.workload.rows_of_tasks(rows),
            strict=True,
        ):
            before = self.where.get(task)
            node = self._node(task, held, obeys)
            run_ms = read * each.row_ms / speeds[node]
            if node != before:
                held[node] += 1
                if before is not None:
                    held[before] -= 1
                if task not in self.ahead or node != self.preferred.get(task):
                    self.ahead.discard(task)
                    run_ms += settings.load_ms + settings.load_ms_per_mib * each.state_bytes / _MIB
            if node in freezing:
                run_ms += settings.cold_ms
                freezing.discard(node)
            self.where[task] = node
            ran.append(TaskObservation(task, node, run_ms, read, read, each.state_bytes))
        self.preferred.clear()
        return tuple(ran)

    def _node(self, task: TaskId, held: Mapping[str, int], obeys: Callable[[TaskId], bool]) -> str:
        preferred = self.preferred.get(task)
        if preferred is not None and preferred in held and obeys(task):
            return preferred
        before = self.where.get(task)
        return before if before is not None else min(held, key=lambda node: held[node])

    def _transfer_ms(
        self,
        before: Mapping[TaskId, str],
        tasks: Iterable[TaskObservation],
        settings: ClusterSettings,
    ) -> float:
        """Return how long the state travels of tasks that were elsewhere before, or nowhere.

        State whose executor is gone comes from the checkpoint, where no link is short: only the
        executor that receives it waits.
        """
        if settings.bytes_per_s is None:
            return 0.0
        ends: dict[object, int] = {}
        volumes = [
            (
                ends.setdefault(before.get(each.task, each.task), len(ends)),
                ends.setdefault(each.executor, len(ends)),
                each.state_bytes,
            )
            for each in tasks
            if each.task not in self.ahead and before.get(each.task) != each.executor
        ]
        return 1000 * settings.transfer_s(volumes, settings.bytes_per_s)
