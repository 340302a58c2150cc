"""What a run with a change of executors showed, and the figures that follow from it. Pure.

A trace is the committed batches of one stream and where every task ran in them; a change is the
span of it in which the number of executors was changed. It is measured as whoever waits for results
feels it, and all mechanisms alike:

- *steady*: the ten batches committed last before the change was asked for; ``steady_batch_ms`` is
  the median of their durations, and their rows are those that everything is compared with. One in
  ten batches, where Spark makes a snapshot of all states, is longer without any change: so
  ``steady_worst_batch_ms``, the longest of the ten, is reported as well.
- *the change*: from the moment it was asked for until the query is steady again. That is the end of
  the first three batches in a row, none longer than 1.2 of the steady one, of those that ended
  after the last move and after the mechanism said that it was done. Where there are no such three
  for as long as was watched (two executors may well need longer than three), it is the end of the
  third batch after that, and ``steady_again`` is false. The rows of the change are those due in
  this span, whenever their batch was committed.
- *preparation*: from then to the first move: executors start and are warmed, nothing has moved.
  Where nothing moves at all, until the mechanism said that it was done.
- *moving*: from the beginning of the batch of the first move to the end of that of the last. Where
  the query was stopped, from the last batch before the stop to the end of the first after it.
- *after*: the ten batches that follow the change.

A batch lasts from its offsets to its commit, and a stop shows as a time without a commit: so
``worst_batch_ms`` is the longest batch of the change, ``longest_gap_ms`` the longest time between
two commits that ends in it. A row is late if it waited more than twice the 99th percentile of the
steady rows. A query has been stopped where its run is another than before. State counts as moved
where an executor got it: the tasks that changed place, after a stop all of it. What executors had
taken over of that before its batch is not in ``bytes_loaded_in_batches``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

from elastream.model.errors import ElastreamError
from elastream.model.migration import LOAD_TOLERANCE, Target
from elastream.model.observation import BatchObservation, TaskId, TaskObservation
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.harness.response_time import Responses, Spread, responses, spread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


AROUND: Final = 10
"""This many batches before and after a change are looked at."""
_IN_A_ROW: Final = 3
_WITHIN: Final = 1.2
"""A query is steady whose last batches, this many, are within this of the steady one."""
LATE: Final = 2.0
"""Over the 99th percentile of the steady rows: a row that waits longer is late."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What executors had of the state before the tasks came that moved to them."""

    tasks: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Resize:
    """One change of the number of executors."""

    mechanism: str
    before: int
    after: int
    asked_ms: float
    """When it was asked for, in milliseconds since the epoch."""
    done_ms: float
    """When the mechanism said that it was done."""
    ends_ms: float
    """Until when it was watched: the next change was asked for, or the stream ended."""
    ahead: Ahead = Ahead()

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
class Phase:
    """A part of a change."""

    seconds: float
    worst_batch_ms: float | None
    """The longest batch that ended in it; ``None`` where none did."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return {"seconds": round(self.seconds, 1), "worst_batch_ms": _whole(self.worst_batch_ms)}


@dataclass(frozen=True, slots=True)
class ResizeFigures:
    """What one change came to."""

    steady_batch_ms: float
    steady_worst_batch_ms: float
    worst_batch_ms: float
    asked_to_settled_s: float
    steady_again: bool
    """Whether three batches in a row were within 1.2 of the steady one."""
    steady: Spread | None
    """Of the rows of the steady batches."""
    change: Spread | None
    """Of the rows due from the moment it was asked for until the query was steady again."""
    after: Spread | None
    """Of the rows of the batches after that."""
    longest_gap_ms: float
    rows_late: int
    preparation: Phase
    moving: Phase
    partitions_moved: int
    state_bytes_moved: int
    bytes_loaded_in_batches: int
    batches_until_balanced: int | None
    """Counted from the first move; ``None`` where the load limit was never met."""

    @property
    def added_p99_ms(self) -> float | None:
        """What the change adds to the wait of a row, at the 99th percentile."""
        if self.change is None or self.steady is None:
            return None
        return self.change.p99 - self.steady.p99

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries."""
        return {
            "steady_batch_ms": round(self.steady_batch_ms),
            "steady_worst_batch_ms": round(self.steady_worst_batch_ms),
            "worst_batch_ms": round(self.worst_batch_ms),
            "asked_to_settled_s": round(self.asked_to_settled_s, 1),
            "steady_again": self.steady_again,
            "response_ms": {
                "steady": _as_json(self.steady, "median", "p99"),
                "change": _as_json(self.change, "median", "p99", "worst"),
                "after": _as_json(self.after, "median", "p99"),
            },
            "added_p99_ms": _whole(self.added_p99_ms),
            "longest_gap_ms": round(self.longest_gap_ms),
            "rows_late": self.rows_late,
            "preparation": self.preparation.as_json(),
            "moving": self.moving.as_json(),
            "state_bytes_moved": self.state_bytes_moved,
            "bytes_loaded_in_batches": self.bytes_loaded_in_batches,
            "partitions_moved": self.partitions_moved,
            "batches_until_balanced": self.batches_until_balanced,
        }


@dataclass(frozen=True, slots=True)
class _Moves:
    """When state moved among the batches of a change, and how much."""

    first: int
    """Index of the first batch that ran on moved state; where nothing moved, of the first batch
    after the mechanism was done."""
    last: int
    """Index of the last such batch; below ``first`` where nothing moved."""
    begin_ms: float
    loaded: Sequence[int]
    """State of each task that was loaded."""


def steady_batches(batches: Sequence[CommittedBatch], asked_ms: float) -> list[CommittedBatch]:
    """Return the batches that a change asked for at ``asked_ms`` is compared with."""
    return [batch for batch in batches if batch.finished_ms <= asked_ms][-AROUND:]


def batches_until_steady(
    batches: Sequence[CommittedBatch], steady: Sequence[CommittedBatch]
) -> int | None:
    """Return how many batches it took until three in a row were as the steady ones, or ``None``."""
    limit_ms = _WITHIN * _median_ms(steady)
    in_a_row = 0
    for number, batch in enumerate(batches, 1):
        in_a_row = in_a_row + 1 if batch.duration_ms <= limit_ms else 0
        if in_a_row == _IN_A_ROW:
            return number
    return None


def measured(trace: Trace, change: Resize, *, tau: float) -> ResizeFigures:
    """Return the figures of one change."""
    before = steady_batches(trace.batches, change.asked_ms)
    within = [b for b in trace.batches if change.asked_ms < b.finished_ms <= change.ends_ms]
    if not before or not within:
        raise ElastreamError(f"{change.mechanism}: no batch was committed around the change")
    gaps = [b.finished_ms - a.finished_ms for a, b in pairwise([before[-1], *within])]
    moves = _moved(trace, change, before, within, gaps)
    calm = max(moves.last + 1, sum(b.finished_ms <= change.done_ms for b in within))
    settled = batches_until_steady(within[calm:], before)
    end = min(calm + (settled or _IN_A_ROW), len(within))
    settled_ms = within[end - 1].finished_ms
    steady = spread(trace.responses(before))
    rows = trace.responses(trace.batches).between(change.asked_ms, settled_ms)
    late_ms = float("inf") if steady is None else LATE * steady.p99
    moving = within[moves.first : moves.last + 1]
    return ResizeFigures(
        steady_batch_ms=_median_ms(before),
        steady_worst_batch_ms=max(batch.duration_ms for batch in before),
        worst_batch_ms=max(b.duration_ms for b in within[:end]),
        asked_to_settled_s=(settled_ms - change.asked_ms) / 1000,
        steady_again=settled is not None,
        steady=steady,
        change=spread(rows),
        after=spread(trace.responses(within[end : end + AROUND])),
        longest_gap_ms=max(gaps[:end]),
        rows_late=int((rows.response_ms > late_ms).sum()),
        preparation=_phase(change.asked_ms, moves.begin_ms, within[: moves.first]),
        moving=_phase(moves.begin_ms, moving[-1].finished_ms if moving else moves.begin_ms, moving),
        partitions_moved=len(moves.loaded),
        state_bytes_moved=sum(moves.loaded),
        bytes_loaded_in_batches=_loaded(moves.loaded, change.ahead),
        batches_until_balanced=_balanced_after(trace, change, within[moves.first :], tau),
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


def _moved(
    trace: Trace,
    change: Resize,
    before: Sequence[CommittedBatch],
    within: Sequence[CommittedBatch],
    gaps: Sequence[float],
) -> _Moves:
    stop = _stop(trace, before, within, gaps)
    if stop is not None:
        begin_ms = within[stop].finished_ms - gaps[stop]
        return _Moves(stop, stop, begin_ms, _all_of(trace, within[stop:]))
    moves = _moves(trace, before, within)
    moved = [index for index, batch in enumerate(within) if batch.batch in moves]
    if not moved:
        done = sum(batch.finished_ms <= change.done_ms for batch in within)
        return _Moves(done, -1, change.done_ms, ())
    loaded = [size for sizes in moves.values() for size in sizes]
    return _Moves(moved[0], moved[-1], within[moved[0]].began_ms, loaded)


def _stop(
    trace: Trace,
    before: Sequence[CommittedBatch],
    within: Sequence[CommittedBatch],
    gaps: Sequence[float],
) -> int | None:
    """Return the index of the first batch after the query was stopped; ``None``: it was not.

    Where the batches around the stop were not seen, it is the one after the longest gap of them.
    """
    runs = [_run(trace, batch) for batch in within]
    old = next((run for batch in reversed(before) if (run := _run(trace, batch))), None)
    new = next((index for index, run in enumerate(runs) if run not in (None, old)), None)
    if old is None or new is None:
        return None
    known = [index for index, run in enumerate(runs[:new]) if run == old]
    return max(range(known[-1] + 1 if known else 0, new + 1), key=lambda index: gaps[index])


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
    """Return the state sizes of all tasks, from the first batch that shows them."""
    sizes = ([task.state_bytes for task in _tasks(trace, batch)] for batch in batches)
    return next((found for found in sizes if found), [])


def _loaded(moved: Sequence[int], ahead: Ahead) -> int:
    """Return what of the moved state was loaded in batches: all but what was there before."""
    return 0 if ahead.tasks >= len(moved) else max(0, sum(moved) - ahead.bytes)


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


def _run(trace: Trace, batch: CommittedBatch) -> str | None:
    seen = trace.seen.get(batch.batch)
    return None if seen is None else seen.run


def _phase(begin_ms: float, end_ms: float, batches: Sequence[CommittedBatch]) -> Phase:
    worst_ms = max((batch.duration_ms for batch in batches), default=None)
    return Phase(max(0.0, end_ms - begin_ms) / 1000, worst_ms)


def _median_ms(batches: Sequence[CommittedBatch]) -> float:
    return median(batch.duration_ms for batch in batches)


def _as_json(spread: Spread | None, *names: str) -> dict[str, int] | None:
    return None if spread is None else {name: spread.as_json()[name] for name in names}


def _whole(ms: float | None) -> int | None:
    return None if ms is None else round(ms)
