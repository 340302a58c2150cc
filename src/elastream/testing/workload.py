"""What a simulated cluster is like, and what a query on it does: its tasks, its rows, its rate."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.observation import OperatorGraph, TaskId, slots_of
from elastream.placement.transfer.transfer_phases import least_length

Volume = tuple[int, int, float]
"""Numbers of two executors, or of a checkpoint and an executor, and the bytes between them."""


def in_phases_s(volumes: Sequence[Volume], bytes_per_s: float) -> float:
    """Return how long state travels in phases, the least time that any schedule takes."""
    return float(least_length(volumes)) / bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What the cluster is like."""

    executors: int = 2
    """Alive at the start."""
    slots: int = 1000
    """Most executors it has room for."""
    cores: int = 1
    """Of each executor."""
    task_cpus: float = 1.0
    """What a task reserves of them, ``spark.task.cpus``: an executor runs ``cores / task_cpus``
    tasks at a time, rounded down. With more tasks than cores, all share those evenly."""
    memory_bytes: int | None = None
    """Most state an executor holds, copies included: with more it is killed when the batch ends."""
    hosts: tuple[str, ...] = ("simulated",)
    """Executors are put on them in turn."""
    speeds: Mapping[str, float] | None = None
    """How fast each host is, 1 for those not named."""
    cold_ms: float = 0.0
    """What the first task of a cold executor takes on top."""
    load_ms_per_mib: float = 1.0
    """What loading state takes."""
    load_ms: float = 0.0
    """What it takes besides, however little state a task has."""
    bytes_per_s: float | None = None
    """What the link of each executor carries, in and as much out; ``None`` for no limit."""
    transfer_s: Callable[[Sequence[Volume], float], float] = in_phases_s
    """How long state that moves together travels over such links."""
    copy_s: float | None = None
    """How long it takes to copy state ahead of tasks that will move; ``None``: it cannot, and
    tasks load their state in the batch that moves them."""
    pool_s: float = 0.0
    """How long it takes to bring executors, to warm them, and to take them away, each."""
    status_s: float = 1.0
    """How often a status is reported; seldom makes long runs short."""
    round_trips_ms: Mapping[tuple[str, str], float] | None = None
    """How far hosts are from each other, by pairs in either order; ``None``: not known."""

    def __post_init__(self) -> None:
        if self.bytes_per_s is not None:
            positive("bytes_per_s", self.bytes_per_s)
        count("cores", self.cores, least=1)
        positive("task_cpus", self.task_cpus)
        non_negative("pool_s", self.pool_s)
        non_negative("load_ms", self.load_ms)
        non_negative("copy_s", self.copy_s or 0.0)
        positive("status_s", self.status_s)

    @property
    def tasks_at_once(self) -> int:
        """How many tasks an executor runs at a time."""
        return slots_of(self.cores, self.task_cpus)


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """One partition of a stateful operator."""

    operator: int
    partition: int
    share: float
    """Share of the input rows that it reads, between 0 and 1."""
    row_ms: float
    """Service time of a row."""
    state_bytes: int
    """Size of its state, which does not grow."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A query and its stream."""

    tasks: tuple[SimulatedTask, ...]
    rows_per_s: Callable[[float], float]
    """The rate of arrival, by the seconds since the start."""
    name: str = "query"
    outside_row_ms: float = 0.0
    """What a row takes outside stateful tasks: a stage of its own, which begins the batch, with as
    many tasks as there are slots. They run wherever one is free."""
    task_ms: float = 0.0
    """What a stateful task takes besides its rows."""
    feeds: Mapping[int, int | None] | None = None
    """The operator that each operator's rows go to; ``None``: none reads another. Each is a stage
    of the batch, in order of their ids, but after all whose rows it reads."""
    trigger_ms: float = 1000.0
    """A batch begins at most this often."""
    overhead_ms: float = 100.0
    """What every batch takes besides its tasks."""
    most_rows: int | None = None
    """Most rows a batch reads; ``None`` for all that wait."""
    real_time: bool = False
    """Whether it runs in Real-time Mode: batches last for ``trigger_ms`` and all tasks run at once,
    each in a slot of its own. Rows take CPU time, the boundary between batches ``overhead_ms``."""
    sources: int = 2
    """Its source tasks, in Real-time Mode."""

    def __post_init__(self) -> None:
        for task in self.tasks if self.feeds is not None else ():
            if task.operator not in self.graph.feeds:
                raise ProblemError("feeds", f"operator {task.operator} is missing")

    @property
    def task_ids(self) -> tuple[TaskId, ...]:
        """Its tasks, as the loop calls them."""
        return tuple(TaskId(self.name, task.operator, task.partition) for task in self.tasks)

    @property
    def graph(self) -> OperatorGraph:
        """Which operator's rows go where."""
        alone = dict.fromkeys(sorted({task.operator for task in self.tasks}))
        return OperatorGraph(alone if self.feeds is None else self.feeds)

    @property
    def stages(self) -> tuple[int, ...]:
        """Its operators in the order in which a batch runs them."""
        graph = self.graph

        def depth(operator: int) -> int:
            return max((1 + depth(each) for each in graph.sources_of(operator)), default=0)

        return tuple(sorted(graph.feeds, key=lambda operator: (depth(operator), operator)))

    def rows_of_tasks(self, rows: int) -> list[int]:
        """Return how many of ``rows`` each task reads: shares, rounded so that none is lost.

        The shares of one operator sum to 1.
        """
        read = []
        passed: dict[int, tuple[float, int]] = {}
        for task in self.tasks:
            share, given = passed.get(task.operator, (0.0, 0))
            share += task.share
            upto = round(share * rows)
            read.append(upto - given)
            passed[task.operator] = (share, upto)
        return read


def even_workload(
    tasks: int,
    rows_per_s: Callable[[float], float] | float,
    *,
    name: str = "query",
    row_ms: float = 1.0,
    state_bytes: int = 1 << 20,
    outside_row_ms: float = 0.0,
    trigger_ms: float = 1000.0,
    most_rows: int | None = None,
    real_time: bool = False,
) -> Workload:
    """Return a query of one operator whose tasks are all alike; a number is a steady rate."""
    rate = rows_per_s if callable(rows_per_s) else rate_steps({0: rows_per_s})
    return Workload(
        tuple(SimulatedTask(0, j, 1 / tasks, row_ms, state_bytes) for j in range(tasks)),
        rate,
        name=name,
        outside_row_ms=outside_row_ms,
        trigger_ms=trigger_ms,
        most_rows=most_rows,
        real_time=real_time,
    )


def rate_steps(rates: Mapping[float, float]) -> Callable[[float], float]:
    """Return the rate that changes at once at each of these seconds, and is 0 before the first."""
    seconds, held = _curve(rates)

    def rows_per_s(second: float) -> float:
        place = bisect_right(seconds, second)
        return held[place - 1] if place else 0.0

    return rows_per_s


def rate_ramp(rates: Mapping[float, float]) -> Callable[[float], float]:
    """Return the rate that changes evenly between these seconds; before and after it is steady."""
    seconds, passed = _curve(rates)

    def rows_per_s(second: float) -> float:
        place = bisect_right(seconds, second)
        if place in (0, len(seconds)):
            return passed[0 if place == 0 else -1]
        share = (second - seconds[place - 1]) / (seconds[place] - seconds[place - 1])
        return passed[place - 1] + share * (passed[place] - passed[place - 1])

    return rows_per_s


def _curve(rates: Mapping[float, float]) -> tuple[list[float], list[float]]:
    """Return the seconds in order, and the rate at each."""
    if not rates:
        raise ProblemError("rates", "is empty; give the rate at one second at least")
    seconds = sorted(rates)
    return seconds, [float(non_negative(f"rates[{second:g}]", rates[second])) for second in seconds]
