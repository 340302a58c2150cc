"""What a simulated query does: its tasks, what a row costs each, and how rows arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastream.control.observation import TaskId

__all__ = ["SimulatedTask", "Workload", "even_workload"]


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """One partition of a stateful operator."""

    id: TaskId
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

    def rows_of_tasks(self, rows: int) -> list[int]:
        """Return how many of ``rows`` each task reads: shares, rounded so that none is lost.

        The shares of one operator sum to 1.
        """
        read = []
        passed: dict[int, tuple[float, int]] = {}
        for task in self.tasks:
            share, given = passed.get(task.id.operator, (0.0, 0))
            share += task.share
            upto = round(share * rows)
            read.append(upto - given)
            passed[task.id.operator] = (share, upto)
        return read


def even_workload(
    tasks: int,
    rows_per_s: Callable[[float], float],
    *,
    row_ms: float = 1.0,
    state_bytes: int = 1 << 20,
) -> Workload:
    """Return a query of one operator whose tasks are all alike."""
    return Workload(
        tuple(SimulatedTask(TaskId(0, j), 1 / tasks, row_ms, state_bytes) for j in range(tasks)),
        rows_per_s,
    )
