"""The application as the loop knows it: its queries, its executors, and what keeps them busy.

An executor's work is a sum over all queries, and what its cores do outside stateful tasks (reading,
parsing, stateless stages, jobs of others).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Final

from elastream.core.load import BatchCost, QueryLoad, TaskLoad
from elastream.model.observation import Executor, OperatorGraph, TaskId

RECENT_BATCHES: Final = 10
"""A change is compared with the median of this many batches of a query before it."""
_LATE_INTERVALS: Final = 4.0
_LEAST_LATE_MS: Final = 30_000.0


@dataclass(frozen=True)
class Query:
    """One query that takes part."""

    name: str
    run: str
    """Its run; another after a restart."""
    graph: OperatorGraph = field(default_factory=OperatorGraph)
    tasks: int = 0
    """How many tasks a whole batch of it shows."""
    trigger_ms: float | None = None
    """How often its batches shall begin; ``None``: as soon as the one before has ended."""
    slots: int = 0
    """How many slots a batch takes all at once, in Real-time Mode; else 0."""
    ends_at_ms: int | None = None
    """When the batch under way will end, in Real-time Mode; ``None`` where that is not known."""
    ended_at_ms: int | None = None
    """When the sources of the batch before it stopped."""
    gap_ms: float | None = None
    """From then until all tasks of the batch under way were launched: no source read a row. What
    its tasks take to load their state comes on top."""
    load: QueryLoad = field(default_factory=QueryLoad)
    idle_since_ms: int | None = None
    """Since when no batch runs and none has rows to run on; ``None`` where one does."""
    heard_ms: int | None = None
    """When it last showed that it goes on: a batch, or idle time."""
    recent: tuple[BatchCost, ...] = ()
    """Its last batches since the last change, while nothing moved; at most ``RECENT_BATCHES``."""
    believed: Mapping[TaskId, str] = field(default_factory=dict)
    """Where tasks were asked to be while it was idle; no batch has shown them there yet."""
    strays: Mapping[TaskId, str] = field(default_factory=dict)
    """Tasks that a batch has shown elsewhere than where they were asked to be in idle time."""
    verifications: int = 0
    """How many times those were asked for again."""
    fewer_tasks: int | None = None
    """How many tasks its batches show where that is too few; ``None`` where all are seen."""

    @property
    def realtime(self) -> bool:
        """Whether it runs in Real-time Mode; see :class:`~elastream.core.events.QueryJoined`."""
        return self.load.realtime

    @property
    def idle(self) -> bool:
        """Whether no batch runs and none has rows to run on."""
        return self.idle_since_ms is not None

    @property
    def usual_ms(self) -> float | None:
        """Median duration of its recent batches; ``None`` where there are none."""
        return median(each.duration_ms for each in self.recent) if self.recent else None

    def where(self, task: TaskId) -> str:
        """Return the executor of a task: where it ran, or was asked to be in idle time."""
        return self.believed.get(task) or self.load.tasks[task].executor

    def late(self, now_ms: int) -> bool:
        """Whether a batch has been running, or overdue, for much longer than usual."""
        if self.idle or self.heard_ms is None:
            return False
        usual_ms = max(self.load.interval_ms or 0.0, self.trigger_ms or 0.0)
        if self.realtime:  # it is seen in the middle of its batches too
            usual_ms = 0.0
        return now_ms - self.heard_ms > max(_LEAST_LATE_MS, _LATE_INTERVALS * usual_ms)


@dataclass(frozen=True, slots=True)
class GoalBounds:
    """Between what a goal may choose."""

    least: int
    """Fewest executors."""
    most: int
    """Most executors."""
    tau: float
    """An executor may hold ``(1 + tau)`` times the mean load."""
    contiguous: bool = False
    """Whether every executor shall hold consecutive tasks."""
    minimum: str = "the minimum"
    """What ``least`` is."""
    idle_s: float = 60.0
    """How long nothing must have run before the last executor is given back."""


@dataclass(frozen=True)
class Observed:
    """All that a goal sees."""

    now_ms: int | None
    """By the loop's clock, which is never set: spans are differences of it."""
    bounds: GoalBounds
    executors: tuple[Executor, ...] = ()
    """Those at work, oldest first: all that are alive, but the spares."""
    queries: Mapping[str, Query] = field(default_factory=dict)
    other: Mapping[str, float] = field(default_factory=dict)
    """Cores that work of no query that takes part keeps busy, by executor."""
    busy_ms: int | None = None
    """When the application was last seen to run a job."""
    jobs: int = 0
    """Jobs that run in the application now, of whatever query."""
    wall_ahead_ms: int = 0
    """The machine's clock minus the loop's."""

    @property
    def wall_ms(self) -> int | None:
        """What the machine's clock says: the time of day."""
        return None if self.now_ms is None else self.now_ms + self.wall_ahead_ms

    @cached_property
    def alive(self) -> frozenset[str]:
        """Ids of the executors at work."""
        return frozenset(executor.id for executor in self.executors)

    def tasks(self) -> Iterator[tuple[TaskId, TaskLoad]]:
        """Yield every task of every query, in order."""
        for query in self.queries.values():
            yield from query.load.tasks.items()

    def where(self, task: TaskId) -> str:
        """Return the executor of a task."""
        return self.queries[task.query].where(task)

    def homeless(self) -> int:
        """Return how many tasks are on no executor that is alive."""
        alive = self.alive
        return sum(self.where(task) not in alive for task, _ in self.tasks())

    def holders(self) -> set[str]:
        """Return the executors that hold tasks."""
        return {self.where(task) for task, _ in self.tasks()}

    def outside(self, executor: str) -> float:
        """Return the slots that an executor's work outside stateful tasks keeps busy."""
        return self._outside.get(executor, 0.0)

    @cached_property
    def _outside(self) -> Mapping[str, float]:
        used: dict[str, float] = {}
        for query in self.queries.values():
            for executor, work in query.load.outside.items():
                used[executor] = used.get(executor, 0.0) + self.slots_busy(query, work)
        for executor, work in self.other.items():
            used[executor] = used.get(executor, 0.0) + work
        return used

    def slots_busy(self, query: Query, work: float) -> float:
        """Return the slots that work of a query keeps busy.

        In Real-time Mode work is CPU time. A core is busy then, and with it all its slots.
        """
        if not query.realtime or not self.executors:
            return work
        return work / self.executors[0].task_cpus

    @property
    def slots_at_once(self) -> int:
        """How many slots the batches of all Real-time queries take, all at once."""
        return sum(query.slots for query in self.queries.values())

    @property
    def idle(self) -> bool:
        """Whether no query has anything to do, nor anybody else."""
        return not self.jobs and all(query.idle for query in self.queries.values())

    @property
    def idle_s(self) -> float:
        """For how many seconds the application has been idle; 0 where it is not."""
        if not self.idle or self.now_ms is None:
            return 0.0
        since = [query.idle_since_ms for query in self.queries.values()]
        last_ms = max((ms for ms in (*since, self.busy_ms) if ms is not None), default=self.now_ms)
        return max(0.0, (self.now_ms - last_ms) / 1000)
