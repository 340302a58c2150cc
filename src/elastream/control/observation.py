"""What the loop sees of a running query, one value a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["BatchObservation", "Executor", "TaskId", "TaskObservation"]


class TaskId(NamedTuple):
    """A task in the papers' sense: one partition of one stateful operator of the query.

    All state stores of the pair (a stream-stream join has four) live and move together.
    """

    operator: int
    partition: int


@dataclass(frozen=True, slots=True)
class Executor:
    """A node in the papers' sense: one executor process."""

    id: str
    host: str
    age_s: float
    """Seconds since it registered."""
    warm: bool
    """Whether it has run stateful tasks before, so that a move to it costs no cold start."""
    cores: int = 1


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
    """Rows it put out; ``None`` where that is not told."""


@dataclass(frozen=True, slots=True)
class BatchObservation:
    """What one micro-batch did."""

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
