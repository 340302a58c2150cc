"""The executors of an application as it pays for them, heard from Spark's own events."""

from __future__ import annotations

from typing import Final

from elastream.spark.door.listening import Columns, listen
from elastream.spark.door.private_door import PrivateDoor
from elastream_lab.benchmarks.elasticity.figures import ExecutorLife, lives_of

__all__ = ["ExecutorWatch"]

_MOST_EVENTS: Final = 20_000


class ExecutorWatch:
    """Hears who comes and who goes, from the moment it is made."""

    def __init__(self, door: PrivateDoor) -> None:
        self._came = Columns(door, listen(door, "onExecutorAdded", _MOST_EVENTS), _VALUES)
        self._went = Columns(door, listen(door, "onExecutorRemoved", _MOST_EVENTS), _VALUES)
        self._comings = [(entry.id, float(entry.added_ms)) for entry in door.executors()]
        self._goings: list[tuple[str, float]] = []

    def lives(self) -> tuple[ExecutorLife, ...]:
        """Return the life of every executor so far."""
        for told, events in ((self._came, self._comings), (self._went, self._goings)):
            events += [(executor, float(at_ms)) for executor, at_ms in told.fetch()]
        return lives_of(self._comings, self._goings)


_VALUES: Final = ("executorId", "time")
