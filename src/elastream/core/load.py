"""The load of a query: from single batches to the figures that decisions are made on.

Batches are unequal and noisy, so every figure is an exponentially weighted mean over the time of
the stream: a batch that covered ``t`` seconds weighs ``1 - 2 ** (-t / half_life)`` against all
before it. A cut of one batch into two leaves the mean where it was. Time in which a query is idle
counts as a batch without work. Figures of a batch are means over batches, not over their time, in
which long ones would count more: what a second of the stream has of them, over its batches.

A Real-time query's work is the CPU time of its tasks, observed while its batches run
(:func:`smooth_running`). Its boundaries show state sizes and rows (:func:`smooth_boundary`).

Left out are batches seen before (replays); the rates of a batch whose stream time is unknown (the
first one seen); and the run time of a task that has just changed its executor, for loading state is
not its work. A task that a batch does not mention keeps its figures.

O(m) a batch, m the tasks of the query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from elastream.model.batch import stage_length
from elastream.model.observation import (
    BatchObservation,
    Executor,
    LoadObservation,
    TaskId,
    TaskObservation,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_IDLE_STEP = 0.2
"""Idle time counts once it is this share of the half-life: every second would be too often."""
SIZE_STEP: Final = 1.1
"""Tasks are classed by their work, each class this many times the one below it."""
_HELD_ON: Final = "_held_on"
_NOTHING = 1e-9
"""Fewer cores than this are none."""


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """What one task costs."""

    executor: str
    """Id of the executor that last ran it, not smoothed."""
    work: float
    """Cores it keeps busy: executor run time over stream time (w_j of the papers)."""
    rows_per_s: float
    """Rows it reads per second of stream time."""
    state_bytes: float
    """Size of its state (\\|s_j\\| of the papers)."""
    measured: bool
    """Whether its rates come from at least one batch."""
    store_memory_bytes: int = 0
    """Memory that its state stores use, native memory included, not smoothed."""


@dataclass(frozen=True, slots=True)
class BatchCost:
    """What one batch cost, not smoothed."""

    duration_ms: float
    overhead_ms: float
    """Time during which none of its stages ran."""
    waited_ms: float
    """Time for which its stages waited for slots that others held."""
    work_ms: float
    """Run time of its stateful tasks together."""
    rows: int
    """Input rows."""
    outside_ms: float = 0.0
    """Run time of its tasks without state together."""
    outside_length_ms: float = 0.0
    """The same over the slots of the executors where they ran."""


@dataclass(frozen=True)
class QueryLoad:
    """What a query costs, as far as its batches have shown."""

    tasks: Mapping[TaskId, TaskLoad] = field(default_factory=dict)
    """Every task seen so far, in the order of task ids."""
    realtime: bool = False
    """Whether all its stages run at once: then ``work`` and ``outside`` are CPU time, and the
    capacity of an executor is its cores, however many slots it has."""
    outside: Mapping[str, float] = field(default_factory=dict)
    """Cores that its tasks without state keep busy, by executor."""
    run: str | None = None
    batch: int | None = None
    """The last batch taken in, and the run it belongs to."""
    until_ms: int | None = None
    """Up to when the figures cover the stream: the last commit, later where it has been idle."""
    rows_per_s: float | None = None
    """Input rows worked off per second."""
    arrivals_per_s: float | None = None
    """Input rows that arrive per second: worked off plus growth of the backlog; ``None`` where the
    source does not report its backlog."""
    backlog: int | None = None
    """Rows waiting at the source after the last batch, not smoothed."""
    limit_rows: int | None = None
    """Most input rows of a batch of this run, where batches left rows that were there before they
    began: the source gives a batch no more, as by ``maxOffsetsPerTrigger``. ``None`` where no such
    batch was seen, or one with more rows has taken all."""
    batch_ms: float | None = None
    """How long the last batch took, not smoothed."""
    interval_ms: float | None = None
    """Stream time per batch."""
    overhead_ms: float | None = None
    """Time per batch during which none of its stages ran: its fixed cost."""
    waited_ms: float | None = None
    """Time per batch for which its stages waited for slots that others held."""
    latency_ms: float | None = None
    """Of a Real-time query, from a row's arrival to its result, as it was seen last; ``None`` where
    neither the data nor the rows that wait say it."""

    @cached_property
    def work(self) -> float:
        """Cores that its stateful tasks keep busy."""
        return sum(task.work for task in self.tasks.values())

    @cached_property
    def heaviest(self) -> float:
        """The most cores that one of its tasks keeps busy."""
        return max((task.work for task in self.tasks.values()), default=0.0)

    @cached_property
    def held(self) -> Mapping[str, float]:
        """Cores that its stateful tasks keep busy, by executor."""
        held: dict[str, float] = {}
        for task in self.tasks.values():
            held[task.executor] = held.get(task.executor, 0.0) + task.work
        return held

    def held_on(self, executors: tuple[Executor, ...]) -> HeldOn:
        """Return :attr:`held` in the order of these executors; kept until others are named."""
        known: HeldOn | None = self.__dict__.get(_HELD_ON)
        if known is None or known.executors != executors:
            known = self.__dict__[_HELD_ON] = HeldOn.of(self.held, executors)
        return known

    @cached_property
    def sizes(self) -> Mapping[int, float]:
        """Cores that its stateful tasks keep busy, by the power of ``SIZE_STEP`` they reach to."""
        sizes: dict[int, float] = {}
        for task in self.tasks.values():
            if task.work > 0:
                size = math.ceil(math.log(task.work, SIZE_STEP))
                sizes[size] = sizes.get(size, 0.0) + task.work
        return sizes

    @cached_property
    def stages(self) -> Mapping[int, Mapping[TaskId, TaskLoad]]:
        """Its stateful tasks by operator: the stages of a batch, which run one after another.

        In Real-time Mode they run at once, and so are one.
        """
        stages: dict[int, dict[TaskId, TaskLoad]] = {}
        for task, known in self.tasks.items():
            stages.setdefault(self._stage(task), {})[task] = known
        return stages

    def _stage(self, task: TaskId) -> int:
        return 0 if self.realtime else task.operator

    @cached_property
    def held_by_stage(self) -> tuple[Mapping[str, float], ...]:
        """Of each stage the cores that its tasks keep busy, by executor."""
        held: dict[int, dict[str, float]] = {}
        for task, known in self.tasks.items():
            stage = held.setdefault(self._stage(task), {})
            stage[known.executor] = stage.get(known.executor, 0.0) + known.work
        return tuple(held.values())

    @cached_property
    def fullest_by_stage(self) -> tuple[float, ...]:
        """Of each stage the cores that it keeps busy on the executor with most of it."""
        return tuple(max(held.values()) for held in self.held_by_stage)

    @cached_property
    def longest_by_stage(self) -> tuple[float, ...]:
        """Of each stage the cores that its heaviest task keeps busy."""
        longest: dict[int, float] = {}
        for task, known in self.tasks.items():
            stage = self._stage(task)
            longest[stage] = max(longest.get(stage, 0.0), known.work)
        return tuple(longest.values())

    @cached_property
    def longest(self) -> float:
        """The cores that the heaviest tasks of all stages together keep busy."""
        return sum(self.longest_by_stage)

    @cached_property
    def state_bytes(self) -> float:
        """State of all its tasks."""
        return sum(task.state_bytes for task in self.tasks.values())

    @cached_property
    def measured(self) -> bool:
        """Whether the rate of any of its tasks is known."""
        return any(task.measured for task in self.tasks.values())


@dataclass(frozen=True, slots=True, eq=False)
class HeldOn:
    """Cores that the stateful tasks of a query keep busy on certain executors."""

    executors: tuple[Executor, ...]
    work: NDArray[np.float64]
    """In their order."""
    whole: bool
    """Whether no task is on another executor."""

    @classmethod
    def of(cls, held: Mapping[str, float], executors: tuple[Executor, ...]) -> HeldOn:
        """Return it from the cores by executor. O(executors)."""
        import numpy as np

        work = np.array([held.get(executor.id, 0.0) for executor in executors])
        alive = {executor.id for executor in executors}
        return cls(executors, work, held.keys() <= alive)


def smooth(
    load: QueryLoad, batch: BatchObservation, cost: BatchCost, *, half_life_s: float
) -> QueryLoad:
    """Return ``load`` with ``batch`` taken in, which has this ``cost``."""
    if load.run == batch.run and load.batch is not None and batch.batch <= load.batch:
        return load
    interval_s = _covered_s(load, batch)
    weight = 0.0 if interval_s is None else weight_of(interval_s, half_life_s)
    tasks = dict(load.tasks)
    for seen in batch.tasks:
        tasks[seen.task] = _task(load.tasks.get(seen.task), seen, interval_s, weight)
    if len(tasks) > len(load.tasks):
        tasks = dict(sorted(tasks.items()))
    seen_now = replace(
        load,
        tasks=tasks,
        run=batch.run,
        batch=batch.batch,
        until_ms=batch.finished_at_ms,
        backlog=batch.backlog,
        limit_rows=_limit(load, batch),
        batch_ms=batch.duration_ms,
    )
    if interval_s is None:
        return seen_now
    used = {executor: ms / 1000 / interval_s for executor, ms in batch.outside_ms.items()}
    first = load.rows_per_s is None
    known_ms, now_ms = load.interval_ms, interval_s * 1000
    interval_ms = 1 / mean(None if known_ms is None else 1 / known_ms, 1 / now_ms, weight)

    def a_batch(known: float | None, now: float) -> float:
        share = None if known is None or known_ms is None else known / known_ms
        return interval_ms * mean(share, now / now_ms, weight)

    return replace(
        seen_now,
        outside=used if first else _mean_of_each(load.outside, used, weight),
        rows_per_s=mean(load.rows_per_s, batch.rows / interval_s, weight),
        arrivals_per_s=_arrivals(load, batch, interval_s, weight),
        interval_ms=interval_ms,
        overhead_ms=a_batch(load.overhead_ms, cost.overhead_ms),
        waited_ms=a_batch(load.waited_ms, cost.waited_ms),
    )


def cost_of(batch: BatchObservation, executors: Sequence[Executor]) -> BatchCost:
    """Return what a batch cost on these executors."""
    outside_ms = sum(batch.outside_ms.values())
    slots = {each.id: each.slots for each in executors}
    return BatchCost(
        duration_ms=batch.duration_ms,
        overhead_ms=_overhead_ms(batch, executors),
        waited_ms=batch.waited_ms,
        work_ms=sum(task.run_ms for task in batch.tasks),
        rows=batch.rows,
        outside_ms=outside_ms,
        outside_length_ms=outside_ms / sum(slots.get(each, 1) for each in batch.outside_ms)
        if outside_ms
        else 0.0,
    )


def smooth_running(load: QueryLoad, seen: LoadObservation, *, half_life_s: float) -> QueryLoad:
    """Return ``load`` with a look at a batch under way of a Real-time query taken in."""
    tasks = dict(load.tasks)
    interval_s = None if not seen.interval_ms or seen.interval_ms <= 0 else seen.interval_ms / 1000
    weight = 0.0 if interval_s is None else weight_of(interval_s, half_life_s)
    for each in seen.tasks:
        known = load.tasks.get(each.task) or TaskLoad(each.executor, 0.0, 0.0, 0.0, measured=False)
        if interval_s is None:
            tasks[each.task] = replace(known, executor=each.executor)
            continue
        now = each.cpu_ms / 1000 / interval_s
        work = mean(known.work if known.measured else None, now, weight)
        tasks[each.task] = replace(known, executor=each.executor, work=work, measured=True)
    if len(tasks) > len(load.tasks):
        tasks = dict(sorted(tasks.items()))
    after = replace(
        load,
        tasks=tasks,
        run=seen.run,
        until_ms=seen.at_ms,
        backlog=seen.backlog,
        latency_ms=load.latency_ms if seen.latency_ms is None else seen.latency_ms,
    )
    if interval_s is None:
        return after
    used = {executor: ms / 1000 / interval_s for executor, ms in seen.outside_ms.items()}
    outside = _mean_of_each(load.outside, used, weight) if load.measured else used
    after = replace(after, outside=outside)
    if seen.rows is None:
        return after
    return replace(after, rows_per_s=mean(load.rows_per_s, seen.rows / interval_s, weight))


def smooth_boundary(load: QueryLoad, batch: BatchObservation, *, half_life_s: float) -> QueryLoad:
    """Return ``load`` with a Real-time batch taken in that has ended: rows and sizes alone.

    Where its tasks ran is of the past already, unless nothing newer is known.
    """
    if load.run == batch.run and load.batch is not None and batch.batch <= load.batch:
        return load
    tasks = dict(load.tasks)
    for seen in batch.tasks:
        known = tasks.get(seen.task) or TaskLoad(seen.executor, 0.0, 0.0, 0.0, measured=False)
        rows_per_s = seen.rows / max(batch.duration_ms, 1.0) * 1000
        tasks[seen.task] = replace(
            known,
            rows_per_s=rows_per_s,
            state_bytes=seen.state_bytes,
            store_memory_bytes=seen.store_memory_bytes,
        )
    if len(tasks) > len(load.tasks):
        tasks = dict(sorted(tasks.items()))
    covered_s = max(batch.duration_ms, 1.0) / 1000
    rows_per_s = mean(load.rows_per_s, batch.rows / covered_s, weight_of(covered_s, half_life_s))
    backlog = load.backlog if batch.backlog is None else batch.backlog
    latency_ms = load.latency_ms
    able = max(rows_per_s, batch.rows / covered_s)  # after a quiet hour the mean says nothing
    if batch.backlog is not None and able > 0:  # what waits is done after so long
        latency_ms = 1000 * batch.backlog / able
    return replace(
        load,
        tasks=tasks,
        run=batch.run,
        batch=batch.batch,
        backlog=backlog,
        rows_per_s=rows_per_s,
        latency_ms=latency_ms,
    )


def pass_idle(load: QueryLoad, at_ms: int, *, half_life_s: float) -> QueryLoad:
    """Return ``load`` after idle time up to ``at_ms``: time in which it did no work."""
    if load.until_ms is None:
        return load
    passed_s = (at_ms - load.until_ms) / 1000
    if passed_s < _IDLE_STEP * half_life_s:
        return load
    left = 2 ** (-passed_s / half_life_s)
    tasks = {
        task: replace(known, work=known.work * left, rows_per_s=known.rows_per_s * left)
        for task, known in load.tasks.items()
    }
    return replace(
        load,
        tasks=tasks,
        outside=_mean_of_each(load.outside, {}, 1 - left),
        until_ms=at_ms,
        backlog=None if load.backlog is None else 0,
        rows_per_s=None if load.rows_per_s is None else load.rows_per_s * left,
        arrivals_per_s=None if load.arrivals_per_s is None else load.arrivals_per_s * left,
    )


def weight_of(seconds: float, half_life_s: float) -> float:
    """Return how much a span weighs against all before it."""
    return 1 - 2 ** (-seconds / half_life_s)


def mean(before: float | None, now: float, weight: float) -> float:
    """Return the weighted mean; what is seen first counts whole."""
    return now if before is None else before + weight * (now - before)


def _covered_s(load: QueryLoad, batch: BatchObservation) -> float | None:
    """Return how much time of the stream a batch covers; ``None`` where that is not known.

    Not the idle time before it, which counted already; a restart covers its own batch alone.
    """
    if load.run != batch.run and load.run is not None:
        return batch.duration_ms / 1000 or None
    if batch.interval_ms is None or batch.interval_ms <= 0:
        return None
    passed_ms = batch.interval_ms
    if load.until_ms is not None and load.batch is not None:
        passed_ms = min(passed_ms, batch.finished_at_ms - load.until_ms)
    return max(passed_ms, batch.duration_ms, 1.0) / 1000


def _task(
    known: TaskLoad | None, seen: TaskObservation, interval_s: float | None, weight: float
) -> TaskLoad:
    work = rows = 0.0
    state_bytes: float = seen.state_bytes
    measured = known is not None and known.measured
    if interval_s is not None:
        work, rows = seen.run_ms / 1000 / interval_s, seen.rows / interval_s
    if known is not None and measured:
        moved = seen.executor != known.executor
        work = known.work if moved else mean(known.work, work, weight)
        rows = mean(known.rows_per_s, rows, weight)
        state_bytes = mean(known.state_bytes, state_bytes, weight)
    return TaskLoad(
        seen.executor,
        work,
        rows,
        state_bytes,
        measured or interval_s is not None,
        seen.store_memory_bytes,
    )


def _mean_of_each(
    before: Mapping[str, float], now: Mapping[str, float], weight: float
) -> dict[str, float]:
    found = {
        name: mean(before.get(name, 0.0), now.get(name, 0.0), weight)
        for name in before.keys() | now.keys()
    }
    return {name: found[name] for name in sorted(found) if found[name] > _NOTHING}


def _arrivals(
    load: QueryLoad, batch: BatchObservation, interval_s: float, weight: float
) -> float | None:
    if batch.backlog is None:
        return None
    if load.backlog is None:
        return load.arrivals_per_s
    arrived = max(0, batch.rows + batch.backlog - load.backlog)
    return mean(load.arrivals_per_s, arrived / interval_s, weight)


def _limit(load: QueryLoad, batch: BatchObservation) -> int | None:
    """Return the limit of a batch's rows that is known after this one.

    Rows that neither were read nor wait still were never rows: compacted topics have such offsets.
    """
    if load.run != batch.run:
        return None
    known = load.limit_rows or 0
    if load.backlog is not None and batch.backlog is not None and batch.rows > 0:
        left = load.backlog - batch.rows
        if 0 < left <= batch.backlog:
            return max(known, batch.rows)
    return load.limit_rows if batch.rows <= known else None


def _overhead_ms(batch: BatchObservation, executors: Sequence[Executor]) -> float:
    slots = {executor.id: executor.slots for executor in executors}
    stages: dict[int, list[tuple[str, float]]] = {}
    for task in batch.tasks:
        stages.setdefault(task.task.operator, []).append((task.executor, task.run_ms))
    for tasks in stages.values():
        for executor, _ in tasks:
            slots.setdefault(executor, 1)
    busy = sum(stage_length(tasks, slots) for tasks in stages.values())
    return max(0.0, batch.duration_ms - batch.waited_ms - busy)
