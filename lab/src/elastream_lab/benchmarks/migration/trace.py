"""What a run of the migration benchmark showed, and the figures that follow from it. Pure.

A trace is the committed batches of one stream and where every task ran in them; a change is the
span of it in which the number of executors was changed. All mechanisms are measured alike:

- *before*: the ten batches committed last before the change was asked for; the median batch, to
  which the worst is compared, is over the ten before the first move, as run summaries want it;
- *preparation*: from then to the first move: executors start and are warmed, nothing has moved;
- *moving*: from the batch of the first move to that of the last. For a mechanism that stops the
  query, from the stop to the first batch committed after it;
- *after*: the ten batches that follow.

A stop shows as a time without a committed batch, so that is what ``worst_batch_ms`` is for pause
and restart; the batch itself may be short. State counts as moved where an executor had to load it:
of live migrations the tasks that changed place, of a stop all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from elastream.harness.commit_log import CommittedBatch
from elastream.harness.response_time import Responses, Spread, responses, spread
from elastream.model.errors import ElastreamError
from elastream.model.migration import LOAD_TOLERANCE, Target
from elastream.model.observation import BatchObservation, TaskId, TaskObservation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["AROUND", "Resize", "ResizeFigures", "Trace", "measured", "share_on_new"]

AROUND = 10
"""So many batches before and after a change are looked at."""


@dataclass(frozen=True, slots=True)
class Resize:
    """One change of the number of executors."""

    mechanism: str
    before: int
    after: int
    asked_ms: float
    """When it was asked for, in milliseconds since the epoch."""
    ends_ms: float
    """When the next change was asked for, or the stream ended."""
    stops: bool
    """Whether the mechanism stops the query."""

    @property
    def direction(self) -> str:
        """``out`` or ``in``."""
        return "out" if self.after > self.before else "in"


@dataclass(frozen=True, slots=True)
class Trace:
    """One stream, whatever was done to it."""

    batches: tuple[CommittedBatch, ...]
    seen: Mapping[int, BatchObservation]
    """What the monitor saw, by batch; a batch may be missing."""
    due_ms: NDArray[np.int64]
    """When each row of the recording was due after ``start_ms``."""
    start_ms: float
    """When the replay started, in milliseconds since the epoch."""
    first: int
    """Position of the first row that was due at some time."""

    def responses(self, batches: Sequence[CommittedBatch]) -> Responses:
        """Return the response times of the rows of the batches."""
        return responses(self.due_ms, self.start_ms, batches, first=self.first)


@dataclass(frozen=True, slots=True)
class ResizeFigures:
    """What one change came to."""

    median_batch_ms_before: float
    worst_batch_ms: float
    worst_preparation_ms: float | None
    """The longest batch before the first move; ``None`` where there was none."""
    preparation_s: float
    moving_s: float
    response_before: Spread | None
    response: Spread | None
    """Of the rows due while the change was going on, its preparation left out."""
    response_after: Spread | None
    partitions_moved: int
    state_bytes_moved: int
    batches_until_balanced: int | None
    """Counted from the first move; ``None`` where the load limit was never met."""


def measured(trace: Trace, change: Resize, *, tau: float) -> ResizeFigures:
    """Return the figures of one change."""
    before = [b for b in trace.batches if b.finished_ms <= change.asked_ms][-AROUND:]
    within = [b for b in trace.batches if change.asked_ms < b.finished_ms <= change.ends_ms]
    if not before or not within:
        raise ElastreamError(f"{change.mechanism}: no batch was committed around the change")
    gaps = [b.finished_ms - a.finished_ms for a, b in pairwise([before[-1], *within])]
    if change.stops:
        first = last = gaps.index(max(gaps))
        begin_ms = within[first].finished_ms - gaps[first]
        loaded = _all_of(trace, within[first:])
    else:
        moves = _moves(trace, before, within)
        moved = [index for index, batch in enumerate(within) if batch.batch in moves]
        first, last = (moved[0], moved[-1]) if moved else (0, min(len(within), AROUND) - 1)
        begin_ms = within[first].began_ms if moved else change.asked_ms
        loaded = [size for sizes in moves.values() for size in sizes]
    earlier = [*before, *within[:first]][-AROUND:]
    moving, after = within[first : last + 1], within[last + 1 : last + 1 + AROUND]
    return ResizeFigures(
        median_batch_ms_before=median(b.duration_ms for b in earlier),
        worst_batch_ms=max(gaps) if change.stops else max(b.duration_ms for b in moving),
        worst_preparation_ms=max((b.duration_ms for b in within[:first]), default=None),
        preparation_s=max(0.0, begin_ms - change.asked_ms) / 1000,
        moving_s=(moving[-1].finished_ms - begin_ms) / 1000,
        response_before=spread(trace.responses(before)),
        response=spread(trace.responses(within).between(begin_ms, moving[-1].finished_ms)),
        response_after=spread(trace.responses(after)),
        partitions_moved=len(loaded),
        state_bytes_moved=sum(loaded),
        batches_until_balanced=_balanced_after(trace, change, within[first:], tau),
    )


def share_on_new(trace: Trace, change: Resize) -> tuple[tuple[float, float], ...]:
    """Return which share of the work is done by executors that came with the change.

    A batch each: seconds since the change was asked for at its end, and the share.
    """
    known: set[str] = set()
    points = []
    for batch in trace.batches:
        tasks = _tasks(trace, batch)
        total = sum(task.run_ms for task in tasks)
        if batch.finished_ms <= change.asked_ms:
            known.update(task.executor for task in tasks)
        if total and batch.finished_ms <= change.ends_ms:
            new = sum(task.run_ms for task in tasks if task.executor not in known)
            points.append(((batch.finished_ms - change.asked_ms) / 1000, new / total))
    return tuple(points)


def _moves(
    trace: Trace, before: Sequence[CommittedBatch], within: Sequence[CommittedBatch]
) -> dict[int, list[int]]:
    """Return, by batch, the state sizes of the tasks that ran on another executor than before."""
    where: dict[TaskId, str] = {}
    for batch in before:
        where.update(_places(trace, batch))
    moves: dict[int, list[int]] = {}
    for batch in within:
        for task in _tasks(trace, batch):
            if where.get(task.task, task.executor) != task.executor:
                moves.setdefault(batch.batch, []).append(task.state_bytes)
        where.update(_places(trace, batch))
    return moves


def _all_of(trace: Trace, batches: Sequence[CommittedBatch]) -> list[int]:
    """Return the state sizes of all tasks, from the first batch that tells them."""
    sizes = ([task.state_bytes for task in _tasks(trace, batch)] for batch in batches)
    return next((found for found in sizes if found), [])


def _balanced_after(
    trace: Trace, change: Resize, batches: Sequence[CommittedBatch], tau: float
) -> int | None:
    """Return after how many batches no executor holds more than its share, and none too many do.

    A task's load is its run time in all batches of the trace, which is what the loop plans with.
    """
    work: dict[TaskId, float] = {}
    for seen in trace.seen.values():
        for task in seen.tasks:
            work[task.task] = work.get(task.task, 0.0) + task.run_ms
    limit = Target(change.after, tau).limit(sum(work.values())) * (1 + LOAD_TOLERANCE)
    for number, batch in enumerate(batches, 1):
        loads: dict[str, float] = {}
        for place, executor in _places(trace, batch).items():
            loads[executor] = loads.get(executor, 0.0) + work[place]
        if loads and len(loads) <= change.after and max(loads.values()) <= limit:
            return number
    return None


def _tasks(trace: Trace, batch: CommittedBatch) -> tuple[TaskObservation, ...]:
    seen = trace.seen.get(batch.batch)
    return seen.tasks if seen is not None else ()


def _places(trace: Trace, batch: CommittedBatch) -> dict[TaskId, str]:
    return {task.task: task.executor for task in _tasks(trace, batch)}
