"""What executors do for other work than the queries that take part, as it is done.

Spark reports the run time of a task when it ends. Booked then, a task of five minutes would look
like hundreds of busy slots for a second, and like none before. So a task is booked while it runs,
and what its end adds or was booked too much is settled then. Of a task that was launched before
this began, only what it ran since then counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from elastream.spark.internals.event_tap import RunningTask, TaskEvent


class ForeignWork:
    """Run time of tasks by executor, since the last time it was asked for. For one thread."""

    def __init__(self, since_ms: float) -> None:
        self._since_ms = since_ms
        """From when on launches are reported, by the driver's clock."""
        self._taken_ms = since_ms
        self._booked: dict[int, float] = {}
        """What was booked of tasks that run, by id."""
        self._used: dict[str, float] = {}

    def add(
        self, ended: Iterable[tuple[TaskEvent, int]], running: Iterable[RunningTask], now_ms: float
    ) -> None:
        """Book the tasks that ended, each with its run time in ms, and all that still run."""
        booked, self._booked = self._booked, {}
        for task, run_ms in ended:
            launched_ms, finished_ms = task.times.launched_ms, task.times.finished_ms
            if launched_ms < self._since_ms:  # its launch was not reported, nor that it ran
                share = (finished_ms - self._taken_ms) / max(1, finished_ms - launched_ms)
                self._use(task.executor, run_ms * min(1.0, max(0.0, share)))
            else:
                self._use(task.executor, max(0.0, run_ms - booked.get(task.id, 0.0)))
        for each in running:
            before_ms = booked.get(each.id, 0.0)
            ran_ms = max(before_ms, float(each.now_ms - each.launched_ms))
            self._use(each.executor, ran_ms - before_ms)
            self._booked[each.id] = ran_ms
        self._taken_ms = now_ms

    def take(self) -> dict[str, float]:
        """Return what was booked since the last call, in ms by executor."""
        used, self._used = self._used, {}
        return used

    def _use(self, executor: str, ms: float) -> None:
        if ms > 0:
            self._used[executor] = self._used.get(executor, 0.0) + ms
