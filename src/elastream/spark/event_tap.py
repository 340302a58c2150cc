"""What happens in a query, fetched from the driver a batch at a time.

Three queues in the driver's JVM (see :mod:`elastream.spark.private_door`) collect what Spark tells
its listeners: started jobs, finished tasks, and progress reports. No event calls into Python. The
progress report of a batch is waited for; by then everything else about the batch is in the other
queues, and is fetched with a fixed number of calls, however many tasks there were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from elastream.spark.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["EventTap", "JobEvent", "TaskEvent"]

_CONSUMER: Final = "java.util.function.Consumer"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A job that started."""

    stages: tuple[int, ...]
    properties: Mapping[str, str]
    """The local properties of the thread that started it."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A task that ended."""

    stage: int
    info: Mapping[str, Any]
    """Spark's ``TaskInfo``."""
    accumulables: tuple[Mapping[str, Any], ...]
    """What it added to each accumulator: ``id``, ``name``, ``update``."""


class EventTap:
    """Listens from the moment it is made until :meth:`close`."""

    def __init__(self, door: PrivateDoor, query: StreamingQuery) -> None:
        self._door = door
        self._queues = (
            jobs := door.listen("onJobStart"),
            tasks := door.listen("onTaskEnd"),
            progress := door.listen_to_progress(query),
        )
        self._progress = progress.queue
        self._jobs = _Columns(door, jobs.queue, ("stageIds", "properties"))
        self._tasks = _Columns(door, tasks.queue, ("stageId", "taskInfo", "taskInfo.accumulables"))

    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next progress report of any query, or ``None`` where none came in time."""
        progress = self._progress.poll(int(timeout_s * 1000), self._door.milliseconds)
        return None if progress is None else dict(json.loads(progress.json()))

    def fetch(self) -> tuple[list[JobEvent], list[TaskEvent]]:
        """Return the jobs and tasks, of all queries, that were told of since the last call."""
        jobs = [JobEvent(tuple(stages), properties) for stages, properties in self._jobs.fetch()]
        tasks = [TaskEvent(stage, info, tuple(adds)) for stage, info, adds in self._tasks.fetch()]
        return jobs, tasks

    def close(self) -> None:
        """Hear no more."""
        for queue in self._queues:
            queue.close()


class _Columns:
    """The values of some properties of the events in a queue, a row an event."""

    def __init__(self, door: PrivateDoor, queue: Any, values: tuple[str, ...]) -> None:
        self._door = door
        self._queue = queue
        self._events = door.java_list()
        self._nothing = door.java_list()
        self._columns = [door.java_list() for _ in values]
        self._table = door.java_list()
        for column in self._columns:
            self._table.add(column)
        self._fillers = [
            door.handler(_CONSUMER, column, "add", value, "accept")
            for column, value in zip(self._columns, values, strict=True)
        ]

    def fetch(self) -> list[tuple[Any, ...]]:
        """Return the rows, and empty the queue."""
        if self._queue.drainTo(self._events) == 0:
            return []
        for fill in self._fillers:
            self._events.forEach(fill)
        rows = list(zip(*self._door.json(self._table), strict=True))
        for java_list in (self._events, *self._columns):
            java_list.retainAll(self._nothing)  # py4j's own clear() takes a call an element
        return rows
