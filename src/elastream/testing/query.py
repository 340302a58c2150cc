"""One query of a simulated cluster: rows that wait, a batch under way, tasks and their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream.testing.slots import FOREVER, Slots, Stage
from elastream.testing.workload import ClusterSettings, Workload

_MIB = 1 << 20
_BEFORE = 0.5
"""Share of a batch's overhead that passes before its first stage; the rest follows its last."""
_DIGITS = 6
"""Times are sums of many, and rounded to this number of digits of a millisecond."""


class _Task(NamedTuple):
    """A stateful task of a batch."""

    id: TaskId
    executor: str
    ms: float
    """What it takes with a core of its own."""
    rows: int
    state_bytes: int


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch under way."""

    number: int
    rows: int
    begins_ms: float
    tasks: list[_Task]
    outside: Stage | None = None
    stages: list[tuple[Stage, list[int]]] = field(default_factory=list)
    """Those with state, in order, each with the places of its tasks in ``tasks``."""
    ends_ms: float = FOREVER
    """When it commits; not known before its last stage has ended."""


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
        self._running: _Batch | None = None

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
            return self._running.ends_ms
        return self._trigger_ms if can_run and int(self._waiting) else float("inf")

    def ready(self, at_ms: float) -> bool:
        """Whether a batch begins now."""
        return self._running is None and int(self._waiting) > 0 and at_ms >= self._trigger_ms

    def stop(self) -> None:
        """Run no further stage."""
        self._running = None

    def committed(self, at_ms: float, slots: int) -> BatchObservation | None:
        """Return the batch that commits now, if one does; executors have this many slots."""
        batch = self._running
        if batch is None or at_ms < batch.ends_ms:
            return None
        self._running = None
        before_ms, self._committed_ms = self._committed_ms, batch.ends_ms
        self._trigger_ms = max(batch.begins_ms + self.workload.trigger_ms, batch.ends_ms)
        held_ms = [0.0] * len(batch.tasks)
        for stage, places in batch.stages:
            for place, (_, from_ms, until_ms) in zip(places, stage.ran, strict=True):
                held_ms[place] = round(until_ms - from_ms, _DIGITS)
        ran = [stage for stage, _ in batch.stages if stage.tasks]
        ran += [batch.outside] if batch.outside else []
        outside: dict[str, float] = {}
        for executor, from_ms, until_ms in batch.outside.ran if batch.outside else ():
            spent_ms = outside.get(executor, 0.0) + until_ms - from_ms
            outside[executor] = round(spent_ms, _DIGITS)
        return BatchObservation(
            query=self.workload.name,
            run=self.run,
            batch=batch.number,
            duration_ms=round(batch.ends_ms - batch.begins_ms, _DIGITS),
            rows=batch.rows,
            backlog=int(self._waiting),
            finished_at_ms=round(batch.ends_ms),
            interval_ms=None if before_ms is None else batch.ends_ms - before_ms,
            tasks=tuple(
                TaskObservation(each.id, each.executor, ms, each.rows, each.rows, each.state_bytes)
                for each, ms in zip(batch.tasks, held_ms, strict=True)
            ),
            outside_ms=outside,
            waited_ms=round(sum(stage.waited_ms(slots) for stage in ran), _DIGITS),
        )

    def run_batch(
        self,
        now_ms: float,
        speeds: Mapping[str, float],
        settings: ClusterSettings,
        slots: Slots,
        *,
        cold: Set[str],
        obeys: Callable[[TaskId], bool],
    ) -> None:
        """Begin a batch on the executors that ``speeds`` names; its stages queue for ``slots``."""
        load = self.workload
        rows = int(self._waiting)
        if load.most_rows is not None:
            rows = min(rows, load.most_rows)
        self._waiting -= rows
        before = dict(self.where)
        tasks = self._run(rows, speeds, cold, settings, obeys)
        travels_ms = self._transfer_ms(before, tasks, settings)
        self.ahead.clear()
        batch = self._running = _Batch(self._batch, rows, now_ms, tasks)
        self._batch += 1

        def submit(number: int, at_ms: float) -> None:
            """Submit a stage; after the last the batch ends."""
            if self._running is not batch:
                return
            if number < len(stages):
                stages[number].ended = lambda ended_ms: submit(number + 1, ended_ms)
                slots.submit(stages[number], at_ms)
            else:
                batch.ends_ms = at_ms + (1 - _BEFORE) * load.overhead_ms

        places: dict[int, list[int]] = {operator: [] for operator in load.stages}
        for place, task in enumerate(tasks):
            places[task.id.operator].append(place)
        batch.stages = [
            (Stage([(tasks[place].executor, tasks[place].ms) for place in these], speeds), these)
            for these in places.values()
        ]
        stages = [stage for stage, _ in batch.stages]
        if rows and load.outside_row_ms:
            number = settings.tasks_at_once * len(speeds)
            part_ms = rows * load.outside_row_ms / number
            batch.outside = Stage([(None, part_ms)] * number, speeds)
            stages.insert(0, batch.outside)
        submit(0, now_ms + _BEFORE * load.overhead_ms + travels_ms + self.held_up_ms)
        self.held_up_ms = 0.0

    def _run(
        self,
        rows: int,
        speeds: Mapping[str, float],
        cold: Set[str],
        settings: ClusterSettings,
        obeys: Callable[[TaskId], bool],
    ) -> list[_Task]:
        held = dict.fromkeys(speeds, 0)
        for node in self.where.values():
            held[node] += 1
        ran, freezing = [], set(cold)
        load = self.workload
        for task, each, read in zip(
            load.task_ids, load.tasks, load.rows_of_tasks(rows), strict=True
        ):
            before = self.where.get(task)
            node = self._node(task, held, obeys)
            ms = (load.task_ms + read * each.row_ms) / speeds[node]
            if node != before:
                held[node] += 1
                if before is not None:
                    held[before] -= 1
                if task not in self.ahead or node != self.preferred.get(task):
                    self.ahead.discard(task)
                    ms += settings.load_ms + settings.load_ms_per_mib * each.state_bytes / _MIB
            if node in freezing:
                ms += settings.cold_ms
                freezing.discard(node)
            self.where[task] = node
            ran.append(_Task(task, node, ms, read, each.state_bytes))
        self.preferred.clear()
        return ran

    def _node(self, task: TaskId, held: Mapping[str, int], obeys: Callable[[TaskId], bool]) -> str:
        preferred = self.preferred.get(task)
        if preferred is not None and preferred in held and obeys(task):
            return preferred
        before = self.where.get(task)
        return before if before is not None else min(held, key=lambda node: held[node])

    def _transfer_ms(
        self,
        before: Mapping[TaskId, str],
        tasks: Iterable[_Task],
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
                ends.setdefault(before.get(each.id, each.id), len(ends)),
                ends.setdefault(each.executor, len(ends)),
                each.state_bytes,
            )
            for each in tasks
            if each.id not in self.ahead and before.get(each.id) != each.executor
        ]
        return 1000 * settings.transfer_s(volumes, settings.bytes_per_s)
