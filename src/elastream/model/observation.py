"""What the loop sees of a running application: executors, and of each query a value a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_ROUNDING: Final = 1e-9
"""Spark divides decimals exactly: three cores have ten slots of 0.3."""


class TaskId(NamedTuple):
    """A task in the papers' sense: one partition of one stateful operator of one query.

    All state stores of the pair (a stream-stream join has four) live and move together.
    """

    query: str
    """Name of the query, or its id where it has none: both outlive a restart."""
    operator: int
    partition: int

    def __str__(self) -> str:
        return f"{self.query}/{self.operator}/{self.partition}"


@dataclass(frozen=True, slots=True)
class Executor:
    """A node in the papers' sense: one executor process."""

    id: str
    host: str
    since_ms: int
    """When it registered, in milliseconds since the epoch."""
    warm: bool
    """Whether it has run stateful tasks before, so that a move to it costs no cold start."""
    cores: int = 1
    task_cpus: float = 1.0
    """Cores that Spark sets aside for a task (``spark.task.cpus``), a fraction too."""
    slots: int = field(init=False)
    """How many tasks it runs at once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", slots_of(self.cores, self.task_cpus))


@dataclass(frozen=True, slots=True)
class ExecutorMemory:
    """What one executor has used of memory at its peak, and what it may use; bytes.

    ``None`` where Spark does not say: before the first heartbeat, or without the setting.
    """

    heap_peak: int | None = None
    """Of the heap, garbage included."""
    heap_limit: int | None = None
    process_peak: int | None = None
    """Of the whole process: heap, native memory of state stores, and all else. Spark measures it
    with ``spark.executor.processTreeMetrics.enabled``."""
    limit: int | None = None
    """What the cluster manager allows the process before it ends it; ``None`` where none does."""


def slots_of(cores: int, task_cpus: float) -> int:
    """Return how many tasks run at once on this number of cores: at least one."""
    return max(1, math.floor(cores / task_cpus + _ROUNDING))


@dataclass(frozen=True, slots=True)
class TaskObservation:
    """What one task did in one batch."""

    task: TaskId
    executor: str
    """Id of the executor that ran it and now holds its state."""
    run_ms: float
    """Executor run time."""
    rows: int
    """Rows it read from the shuffle."""
    state_rows: int
    state_bytes: int
    rows_out: int | None = None
    """Rows it put out; ``None`` where that is not known."""
    sides: tuple[int, int] | None = None
    """Rows that a join of two streams read of each; ``None`` for all others."""
    rows_fetched: float = 0.0
    """Rows it read that were on another executor: its rows by their share of the bytes."""
    fetch_ms: float = 0.0
    """Run time in which it waited for those."""
    store_memory_bytes: int = 0
    """Memory that its state stores report to use, the native memory of RocksDB included."""


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """What one micro-batch of one query did."""

    query: str
    run: str
    """The run of the query: another after every restart."""
    batch: int
    duration_ms: float
    """From trigger to commit."""
    rows: int
    """Input rows."""
    backlog: int | None
    """Rows the source holds that no batch has read yet; ``None`` where the source cannot say."""
    finished_at_ms: int
    """When it committed, in milliseconds since the epoch."""
    interval_ms: float | None
    """Time since the batch before committed; ``None`` for the first batch seen."""
    tasks: tuple[TaskObservation, ...]
    outside_ms: Mapping[str, float] = field(default_factory=dict)
    """Executor run time of its tasks without state (source, parsing, sink), by executor."""
    source_rows: tuple[int, ...] = ()
    """Input rows of each source, in Spark's order; empty where that is not known."""
    waited_ms: float = 0.0
    """How much later its stages ended because tasks of other work held slots that its tasks waited
    for; part of the duration, and of no task's run time."""


@dataclass(frozen=True, slots=True)
class RunningTaskLoad:
    """What a stateful task of a batch under way has done since the last look at it."""

    task: TaskId
    executor: str
    """Where it runs now: in this batch it does not move any more."""
    cpu_ms: float
    """CPU time of its thread, the streaming shuffle's and the state store's share included where
    they run in it."""


@dataclass(frozen=True, slots=True)
class LoadObservation:
    """What a Real-time query has done since the last look, in the middle of a batch.

    All tasks of such a batch run at once and for as long as the batch lasts. Its duration and the
    tasks' run times say nothing; CPU time does.
    """

    query: str
    run: str
    batch: int
    """The batch under way."""
    at_ms: int
    ends_at_ms: int
    """When its sources will stop reading, by the loop's clock; the boundary follows at once."""
    interval_ms: float | None
    """Time that the figures cover; ``None`` for the first look at a run: they are zero then."""
    tasks: tuple[RunningTaskLoad, ...]
    """All stateful tasks of the batch."""
    outside_ms: Mapping[str, float] = field(default_factory=dict)
    """CPU time of its tasks without state (sources), by executor."""
    rows: int | None = None
    """Rows its sources read; ``None`` where that is not known."""
    backlog: int | None = None
    """Rows that wait in the sources; ``None`` where they cannot say."""
    latency_ms: float | None = None
    """From a row's arrival to its result; ``None`` where the data does not say."""
    began_at_ms: int | None = None
    """When the last of the batch's tasks was launched; ``None`` where that is not known."""


class Side(NamedTuple):
    """What one side of an operator's tasks reads."""

    sources: tuple[int, ...]
    """Sources with no stateful operator between, by number."""
    operators: tuple[int, ...]
    """Operators whose rows it reads."""


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Which stateful operator's rows go where.

    Operators with no shuffle between them are one, named by the lowest id among them.
    """

    feeds: Mapping[int, int | None] = field(default_factory=dict)
    """The operator that each operator's rows go to; ``None``: out of the query."""
    sides: Mapping[int, tuple[Side, ...]] = field(default_factory=dict)
    """What each operator reads: two sides if it joins two streams, none if it joins more in one
    task; an operator whose inputs are not known is missing."""

    def sources_of(self, operator: int) -> tuple[int, ...]:
        """Return the operators whose rows go to ``operator``."""
        return tuple(sorted(one for one, other in self.feeds.items() if other == operator))
