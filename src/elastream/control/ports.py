"""What the loop asks of a runtime. Each port is a role; Spark and the simulation play them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from elastream.control.observation import BatchObservation, Executor, TaskId

__all__ = ["DelayProbe", "ExecutorPool", "Monitor", "StatePlacement"]


class Monitor(Protocol):
    """Tells what the query does."""

    def subscribe(self, heard: Callable[[BatchObservation], None]) -> Callable[[], None]:
        """Call ``heard`` once after every batch, between batches; return how to unsubscribe."""


class ExecutorPool(Protocol):
    """Brings executors and takes them away."""

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""

    def grow(self, total: int, *, timeout_s: float) -> tuple[Executor, ...]:
        """Ask for ``total`` executors and return those alive when they came, or at the timeout."""

    def warm(self, ids: Sequence[str]) -> None:
        """Make the executors ready for state, so that the first move to them costs no start."""

    def release(self, ids: Sequence[str]) -> None:
        """Take the executors away; refused while one of them still holds state."""


class StatePlacement(Protocol):
    """Knows and sets where state lives."""

    def where(self) -> Mapping[TaskId, str]:
        """Return the executor id of every task that has one."""

    def place(self, wanted: Mapping[TaskId, str]) -> None:
        """Prefer these executors for these tasks from the next batch on."""


class DelayProbe(Protocol):
    """Measures how far hosts are from each other."""

    def round_trips_ms(self, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
        """Return the round trip from the first host of each pair to the second.

        A pair that gave no answer is left out.
        """
