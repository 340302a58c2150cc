"""Which executors are alive, and which of them are warm."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from elastream.model.observation import Executor, ExecutorMemory
from elastream.spark.internals.spark_internals import SparkInternals


class ExecutorRegistry:
    """The executors of an application, and which of them are warm. For any thread."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals
        self._lock = threading.Lock()
        self.warm: frozenset[str] = frozenset()
        """The executors that have had state, or were warmed; none is ever taken out."""
        self.memory: Mapping[str, ExecutorMemory] = {}
        """Of the executors that were alive when they were last counted."""

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first, and note what they use of memory."""
        entries = self._internals.executors()
        self.memory = {entry.id: entry.memory for entry in entries}
        return tuple(
            Executor(
                entry.id,
                entry.host,
                entry.added_ms,
                entry.id in self.warm,
                entry.cores,
                entry.task_cpus,
            )
            for entry in entries
        )

    def warmed(self, ids: Iterable[str]) -> bool:
        """Note that these are warm; return whether that is news."""
        with self._lock:
            before, self.warm = self.warm, self.warm.union(ids)
            return self.warm != before
