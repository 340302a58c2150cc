"""What a run under one way came to: cost, waits, overload, changes, state moved. Pure.

- *executor-seconds*: every executor counts from the moment it registered until it was gone, within
  the time from the first row's being due until the last row's result was there. What an executor
  costs before it registers is paid on a real cluster too and shown nowhere: the same for all ways.
- *overloaded*: the time in which rows wait that no batch has read, and more of them than one
  trigger brings: the oldest has waited for longer than a trigger. A tenth more is let pass, since
  batches begin a little after their trigger.
- *changes*: executors that came, or went, at about the same time are one.
- *state moved*: where a task ran on another executor than before, that one loaded its state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from elastream.model.observation import BatchObservation, TaskId
from elastream_lab.harness.commit_log import CommittedBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_LATE_SHARE: Final = 0.1
"""Share of a trigger by which a batch may begin late."""
_TOGETHER_MS: Final = 5000.0
"""Executors that come or go so shortly after one another belong to one change."""


@dataclass(frozen=True, slots=True)
class ExecutorLife:
    """When an executor registered and when it was gone, in milliseconds since the epoch."""

    id: str
    came_ms: float
    went_ms: float = math.inf


def lives_of(
    came: Iterable[tuple[str, float]], went: Iterable[tuple[str, float]]
) -> tuple[ExecutorLife, ...]:
    """Return the lives that events tell: ids with times, in whatever order, some reported twice."""
    begins: dict[str, float] = {}
    for executor, at_ms in came:
        begins[executor] = min(at_ms, begins.get(executor, math.inf))
    ends: dict[str, float] = {}
    for executor, at_ms in went:
        ends[executor] = min(at_ms, ends.get(executor, math.inf))
    lives = (ExecutorLife(one, at_ms, ends.get(one, math.inf)) for one, at_ms in begins.items())
    return tuple(sorted(lives, key=lambda life: (life.came_ms, life.id)))


def executor_seconds(lives: Iterable[ExecutorLife], begin_ms: float, end_ms: float) -> float:
    """Return how many seconds the executors were there in all, from one moment to another."""
    shares = (min(life.went_ms, end_ms) - max(life.came_ms, begin_ms) for life in lives)
    return sum(share for share in shares if share > 0) / 1000


def number_alive(
    lives: Sequence[ExecutorLife], begin_ms: float, end_ms: float
) -> tuple[tuple[float, int], ...]:
    """Return how many executors there were: at the beginning, then at each change, with when."""
    events = sorted([(life.came_ms, 1) for life in lives] + [(life.went_ms, -1) for life in lives])
    alive = sum(change for at_ms, change in events if at_ms <= begin_ms)
    steps = [(begin_ms, alive)]
    for at_ms, change in events:
        if begin_ms < at_ms <= end_ms:
            alive += change
            if steps[-1][0] == at_ms:
                steps.pop()
            steps.append((at_ms, alive))
    return tuple(steps)


def changes(steps: Sequence[tuple[float, int]]) -> int:
    """Return how often the number of executors was changed, of what :func:`number_alive` shows."""
    number, last_ms, last_out = 0, -math.inf, False
    for (_, before), (at_ms, after) in pairwise(steps):
        if after != before:
            out = after > before
            number += out != last_out or at_ms - last_ms > _TOGETHER_MS
            last_ms, last_out = at_ms, out
    return number


def overloaded_s(
    due_ms: NDArray[np.int64],
    start_ms: float,
    batches: Sequence[CommittedBatch],
    *,
    first: int,
    trigger_s: float,
) -> float:
    """Return for how long more rows waited to be read than one trigger brings.

    ``due_ms`` is when each row of the recording is due after ``start_ms``; rows before ``first``
    were read before that.
    """
    patience_ms = trigger_s * 1000 * (1 + _LATE_SHARE)
    total, read, since_ms = 0.0, first, start_ms
    for batch in batches:
        if batch.began_ms < start_ms:
            continue
        if read < len(due_ms):
            oldest_ms = start_ms + float(due_ms[read])
            total += max(0.0, batch.began_ms - max(since_ms, oldest_ms + patience_ms))
        read, since_ms = max(read, batch.end), batch.began_ms
    return total / 1000


def state_bytes_moved(seen: Iterable[BatchObservation], *, since_ms: float) -> int:
    """Return how much state was loaded by executors that did not have it in the batch before.

    By batches that were done after a moment; earlier ones tell where state was.
    """
    where: dict[TaskId, str] = {}
    moved = 0
    for batch in seen:
        for task in batch.tasks:
            elsewhere = where.get(task.task, task.executor) != task.executor
            if elsewhere and batch.finished_at_ms > since_ms:
                moved += task.state_bytes
            where[task.task] = task.executor
    return moved
