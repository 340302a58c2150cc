"""A Real-time query while its batches run: where its tasks are, what they use, when a batch ends.

Such a batch lasts for minutes and reports nothing before its end. What is known meanwhile is which
tasks run where, from their starts; the CPU time of their threads (:class:`Gauges`); and until when
its sources read, which is in its plan.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from elastream.core.clock import steady_s
from elastream.model.observation import LoadObservation, RunningTaskLoad, TaskId
from elastream.spark.internals.event_tap import RunningTask
from elastream.spark.internals.queries import RunningBatch, RunningQuery, StatefulOperator
from elastream.spark.internals.realtime import CpuTimes, Gauges, count_slots, rows_read
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.task_events import lead_of, tasks_of

_EVERY_S: Final = 2.0
"""How often a batch under way is reported."""
NEAR_S: Final = 1.0
"""How long before the end of a batch it counts as near."""
_HEARTBEAT_S: Final = 10.0
"""How often executors report the rows of running tasks, with Spark's defaults."""
_CALM_S: Final = 3.0
"""A task of our own is not begun later than this before the end of a batch."""


class RowRate:
    """Rows that the sources of a batch read per second, from counts a heartbeat apart."""

    def __init__(self) -> None:
        self.rows_per_s: float | None = None
        self._batch = -1
        self._rows = 0
        self._at_s = 0.0

    def is_due(self, batch: int, now_s: float) -> bool:
        """Whether a count would say something new."""
        return batch != self._batch or now_s - self._at_s >= _HEARTBEAT_S

    def count(self, batch: int, rows: int, now_s: float) -> None:
        """Take in how many rows the batch has read so far."""
        if batch == self._batch and now_s > self._at_s:
            self.rows_per_s = max(0, rows - self._rows) / (now_s - self._at_s)
        self._batch, self._rows, self._at_s = batch, rows, now_s


class RealtimeBatches:
    """The batches of one run, as they run. For the monitor's thread, but for :attr:`slots`."""

    def __init__(
        self, internals: SparkInternals, query: RunningQuery, name: str, gauges: Gauges
    ) -> None:
        self.slots = 0
        """What a batch needs, by its plan and by the tasks that were seen at once; 0 before one was
        seen."""
        self.stages: frozenset[int] = frozenset()
        """Those of the batch under way."""
        self.ends_at_ms: int | None = None
        """When the batch under way ends, by the loop's clock; ``None`` where that is not known."""
        self._internals = internals
        self._query = query
        self._name = name
        self._gauges = gauges
        self._batch: RunningBatch | None = None
        self._is_near = False
        self._reported: int | None = None
        """The last batch that was reported."""
        self._reported_ms: int | None = None
        self._rate = RowRate()
        self._cpu: dict[str, CpuTimes] = {}
        """What each executor had used when it was reported last."""

    def look(
        self,
        operators: Sequence[StatefulOperator],
        running: Sequence[tuple[int, RunningTask]],
    ) -> LoadObservation | None:
        """Return the load of the batch under way; ``None`` where nothing is due.

        ``running``: its tasks with their batch, as far as they are known to run.
        """
        now_ms = round(steady_s() * 1000)
        number = max((batch for batch, _ in running), default=None)
        if number is None or not self._know(number):
            return None
        tasks = [task for batch, task in running if batch == number]
        self.stages = frozenset(task.stage for task in tasks)
        placed = self._placed(operators, tasks)
        whole = len(placed) == len(tasks_of(self._name, operators))
        first = number != self._reported
        if not whole or not (first or self._is_due(now_ms)):
            return None
        if first:  # its sources may not run yet
            planned = self._internals.queries.slots_of_plan(self._query) or 0
            self.slots = max(self.slots, planned)
        self.slots = max(self.slots, len(tasks))
        self._start_gauges({task.executor for task in tasks}, now_ms)
        used, covered = self._used_ms(tasks, now_ms)
        outside: dict[str, float] = {}
        others = set(tasks) - set(placed.values())
        for each in others:
            outside[each.executor] = outside.get(each.executor, 0.0) + used.get(each.id, 0.0)
        now_s = now_ms / 1000
        if self._rate.is_due(number, now_s):
            stages = {each.stage for each in others}
            self._rate.count(number, rows_read(self._internals, stages), now_s)
        rate = self._rate.rows_per_s
        self._reported, self._reported_ms = number, now_ms
        assert self.ends_at_ms is not None  # noqa: S101 - known with the batch
        return LoadObservation(
            query=self._name,
            run=self._query.run_id,
            batch=number,
            at_ms=now_ms,
            ends_at_ms=self.ends_at_ms,
            interval_ms=covered,
            tasks=tuple(
                RunningTaskLoad(task, each.executor, used.get(each.id, 0.0))
                for task, each in sorted(placed.items())
            ),
            outside_ms=outside if covered else {},
            rows=None if rate is None or not covered else round(rate * covered / 1000),
            began_at_ms=max(map(_launched_ms, tasks)),
        )

    def is_near(self) -> bool:
        """Whether the end of the batch has come near; once for each batch."""
        if self.near_in_s() > 0 or self._is_near:
            return False
        self._is_near = True
        return True

    def near_in_s(self) -> float:
        """Return after what time the end of the batch is near; long where that is not known."""
        if self.ends_at_ms is None or self._is_near:
            return 1e9
        return self.ends_at_ms / 1000 - NEAR_S - steady_s()

    def ended(self, batch: int) -> None:
        """Forget a batch that has ended."""
        if self._batch is not None and self._batch.number <= batch:
            self._batch, self.ends_at_ms = None, None
            self.stages = frozenset()

    def _know(self, number: int) -> bool:
        """Return whether the plan of the batch is known, after reading it where it is not."""
        if self._batch is None or self._batch.number != number:
            found = self._internals.queries.running_batch(self._query)
            if found is None or found.number != number:
                return False
            self._batch, self._is_near = found, False
            self.ends_at_ms = round(found.ends_ms + 1000 * (steady_s() - time.time()))
        return True

    def _placed(
        self, operators: Sequence[StatefulOperator], tasks: Sequence[RunningTask]
    ) -> dict[TaskId, RunningTask]:
        """Return the tasks with state, by what they are."""
        leads, batch = lead_of(operators), self._batch
        assert batch is not None  # noqa: S101 - known before
        lead_of_group = {each.group: leads[each.id] for each in operators}
        found = {}
        for task in tasks:
            group = batch.groups.get(task.shuffle)
            if group is not None and group in lead_of_group:
                found[TaskId(self._name, lead_of_group[group], task.partition)] = task
        known = set(tasks_of(self._name, operators))
        return {key: task for key, task in found.items() if key in known}

    def _is_due(self, now_ms: int) -> bool:
        return self._reported_ms is None or now_ms - self._reported_ms >= 1000 * _EVERY_S

    def _used_ms(
        self, tasks: Sequence[RunningTask], now_ms: int
    ) -> tuple[dict[int, float], float | None]:
        """Return the CPU time of each task since the last report, and what time that covers.

        Executors report by their own clocks, so their rates are taken for the time in between.
        """
        executors = {task.executor for task in tasks}
        before, self._cpu = self._cpu, {}
        for executor in executors:
            if self._gauges.has(executor) and (now := self._gauges.read(executor)) is not None:
                self._cpu[executor] = now
        if self._reported_ms is None or not executors <= before.keys() & self._cpu.keys():
            return {}, None
        covered_ms = float(now_ms - self._reported_ms)
        used: dict[int, float] = {}
        for task in tasks:
            then, now = before[task.executor], self._cpu[task.executor]
            span_ms = now.at_ms - then.at_ms
            if (
                span_ms <= 0 or now.gauge != then.gauge
            ):  # nothing new from there: the next report counts both
                return {}, None
            spent_ms = now.tasks.get(task.id, 0) - then.tasks.get(task.id, 0)
            used[task.id] = max(0, spent_ms) * covered_ms / span_ms
        return used, covered_ms

    def _start_gauges(self, executors: set[str], now_ms: int) -> None:
        """Let executors report CPU times that do not yet, if the end of the batch is far enough."""
        missing = {name for name in executors if not self._gauges.has(name)}
        if missing and self.ends_at_ms is not None and self.ends_at_ms - now_ms > 1000 * _CALM_S:
            count = count_slots(self._internals, self.stages)
            if count.total - count.taken - self.slots < len(missing):
                return  # a task of ours that waits for a slot would count against the next batch
            entries = [each for each in self._internals.executors() if each.id in missing]
            self._gauges.begin(entries)


def _launched_ms(task: RunningTask) -> int:
    """Return when a task was launched, by the loop's clock."""
    return round(1000 * steady_s()) - (task.now_ms - task.launched_ms)
