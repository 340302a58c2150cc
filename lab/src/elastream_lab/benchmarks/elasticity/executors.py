"""The executors of an application as it pays for them, as Spark's own status store tells."""

from __future__ import annotations

from elastream.spark.internals.spark_internals import SparkInternals
from elastream_lab.benchmarks.elasticity.figures import ExecutorLife, lives_of


class ExecutorWatch:
    """Remembers who came and who went, also those that Spark has forgotten since."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals
        self._comings: dict[str, float] = {}
        self._goings: dict[str, float] = {}

    def lives(self) -> tuple[ExecutorLife, ...]:
        """Return the life of every executor so far."""
        for executor, came_ms, went_ms in self._internals.executor_times():
            self._comings[executor] = float(came_ms)
            if went_ms is not None:
                self._goings[executor] = float(went_ms)
        return lives_of(self._comings.items(), self._goings.items())
