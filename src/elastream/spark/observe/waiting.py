"""How long the stages of a batch waited because other work held their executors' slots.

Tasks of one stage also wait for each other; that is work of the batch, and no wait. What counts is
the time in which tasks of other queries, or of other jobs, held slots of an executor while tasks of
the stage had still to be launched there::

    waited(executor) = sum over other tasks of |held a slot and a task of ours waited| / slots
    waited(stage)    = max of end(executor) - max of (end(executor) - waited(executor))

The stage ends with its last executor, so a wait elsewhere counts only as far as it made the stage
end later. Stages that run at the same time are taken together.

O(t log t + u) a batch, t its tasks, u the tasks of others on their executors meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from elastream.spark.internals.event_tap import RunningTask, TaskTimes

_MOST: Final = 512
"""How many tasks an executor are remembered."""


class SlotUse(NamedTuple):
    """A task that had a slot."""

    stage: int
    executor: str
    times: TaskTimes


class SlotHistory:
    """Who held the slots of executors lately. For one thread."""

    def __init__(self) -> None:
        self._held: dict[str, deque[tuple[str | None, int, int]]] = {}
        """By executor: owner, launch and finish of each task."""
        self._running: dict[str, list[tuple[str | None, int, int]]] = {}

    def add(self, owner: str | None, use: SlotUse) -> None:
        """Note a task of a query, by id; ``None`` for any other."""
        held = self._held.setdefault(use.executor, deque(maxlen=_MOST))
        held.append((owner, use.times.launched_ms, use.times.finished_ms))

    def set_running(self, tasks: Iterable[tuple[str | None, RunningTask]]) -> None:
        """Note which tasks run now, each with its owner."""
        self._running = {}
        for owner, task in tasks:
            span = (owner, task.launched_ms, task.now_ms)
            self._running.setdefault(task.executor, []).append(span)

    def forget_before(self, at_ms: int) -> None:
        """Forget what finished before, and executors of which nothing is left."""
        for executor, held in tuple(self._held.items()):
            while held and held[0][2] < at_ms:
                held.popleft()
            if not held:
                del self._held[executor]

    def keep(self, executors: Collection[str]) -> None:
        """Forget all executors but these."""
        self._held = {name: held for name, held in self._held.items() if name in executors}

    def waited_ms(self, owner: str, batch: Sequence[SlotUse], slots: Mapping[str, int]) -> float:
        """Return how much later the stages of a batch ended because of the work of others."""
        return sum(self._waited(owner, stage, slots) for stage in _in_order(batch))

    def _waited(self, owner: str, stage: Sequence[SlotUse], slots: Mapping[str, int]) -> float:
        submitted_ms = min(use.times.submitted_ms for use in stage)
        last_ms: dict[str, int] = {}
        ends_ms: dict[str, int] = {}
        for use in stage:
            last_ms[use.executor] = max(last_ms.get(use.executor, 0), use.times.launched_ms)
            ends_ms[use.executor] = max(ends_ms.get(use.executor, 0), use.times.finished_ms)
        without_ms = [
            end_ms
            - self._held_by_others(owner, executor, submitted_ms, last_ms[executor])
            / slots.get(executor, 1)
            for executor, end_ms in ends_ms.items()
        ]
        return max(0.0, max(ends_ms.values()) - max(without_ms))

    def _held_by_others(self, owner: str, executor: str, from_ms: int, until_ms: int) -> int:
        spans = (*self._held.get(executor, ()), *self._running.get(executor, ()))
        return sum(
            max(0, min(finished_ms, until_ms) - max(launched_ms, from_ms))
            for other, launched_ms, finished_ms in spans
            if other != owner
        )


def _in_order(batch: Sequence[SlotUse]) -> Iterator[list[SlotUse]]:
    """Yield the tasks of each stage in the order of time, those of stages that overlap together."""
    stages: dict[int, list[SlotUse]] = {}
    for use in batch:
        stages.setdefault(use.stage, []).append(use)
    together: list[SlotUse] = []
    for stage in sorted(stages.values(), key=lambda uses: min(u.times.submitted_ms for u in uses)):
        begin_ms = min(use.times.submitted_ms for use in stage)
        if together and begin_ms >= max(use.times.finished_ms for use in together):
            yield together
            together = []
        together = together + stage
    if together:
        yield together
