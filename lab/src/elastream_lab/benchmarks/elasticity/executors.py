"""The executors of an application as it pays for them, as Spark's own status store shows."""

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
        store = self._internals.context.statusStore()
        for entry in self._internals.json(store.executorList(False)):
            if entry["id"] != "driver":
                self._comings[entry["id"]] = float(entry["addTime"])
                if entry["removeTime"] is not None:
                    self._goings[entry["id"]] = float(entry["removeTime"])
        return lives_of(self._comings.items(), self._goings.items())
