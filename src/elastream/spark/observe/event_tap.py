"""What happens in an application, fetched from the driver many events at a time.

Bounded queues in the driver's JVM (:mod:`elastream.spark.door.listening`) collect what Spark tells
its listeners: started jobs, finished tasks, executors that come and go, and what streaming queries
tell of themselves. No event calls into Python. What queries tell is waited for; by the time the
progress report of a batch is there, everything else about the batch is in the other queues, and is
fetched with a fixed number of calls, however many tasks there were.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from elastream.spark.door.listening import Columns, EventQueue, listen, listen_to_queries
from elastream.spark.door.private_door import PrivateDoor
from elastream.spark.door.queries import RunningQuery

__all__ = ["EventTap", "JobEvent", "QueryEvent", "TaskEvent"]

_MOST_TASKS: Final = 50_000
"""Finished tasks that may wait; one takes some 10 kB."""
_MOST_OTHERS: Final = 20_000
_KINDS: Final = {
    "QueryStartedEvent": "started",
    "QueryProgressEvent": "progress",
    "QueryTerminatedEvent": "terminated",
}


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """What a query tells of itself."""

    kind: Literal["started", "progress", "terminated"]
    fields: Mapping[str, Any]
    """Spark's JSON; of a progress report the report itself."""


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

    def __init__(self, door: PrivateDoor) -> None:
        self._door = door
        self._queues: list[EventQueue] = []
        self._sessions: dict[str, Callable[[], None]] = {}
        told = door.bounded_queue(_MOST_OTHERS)
        self._told = EventQueue(told, door.counter(), lambda: None)
        self._events = Columns(door, self._told, ("class.simpleName", "json"))
        self._jobs = self._columns("onJobStart", _MOST_OTHERS, ("stageIds", "properties"))
        self._tasks = self._columns(
            "onTaskEnd", _MOST_TASKS, ("stageId", "taskInfo", "taskInfo.accumulables")
        )
        self._came = self._columns("onExecutorAdded", _MOST_OTHERS, ("executorId",))
        self._went = self._columns("onExecutorRemoved", _MOST_OTHERS, ("executorId",))

    def hear_session(self, query: RunningQuery) -> None:
        """Hear also what the queries of this one's session tell."""
        session = query.execution.sparkSession()
        key = str(session.sessionUUID())
        if key not in self._sessions:
            self._sessions[key] = listen_to_queries(self._door, session, self._told.queue)

    def wait(self, timeout_s: float) -> list[QueryEvent]:
        """Return what queries have told, as soon as there is something, or nothing in time."""
        first = self._told.queue.poll(int(timeout_s * 1000), self._door.milliseconds)
        if first is None:
            return []
        rows = [(first.getClass().getSimpleName(), first.json()), *self._events.fetch()]
        return [event for name, text in rows if (event := _query_event(name, text)) is not None]

    def fetch(self) -> tuple[list[JobEvent], list[TaskEvent]]:
        """Return the jobs and tasks, of all queries, that were told of since the last call."""
        jobs = [JobEvent(tuple(stages), properties) for stages, properties in self._jobs.fetch()]
        tasks = [TaskEvent(stage, info, tuple(adds)) for stage, info, adds in self._tasks.fetch()]
        return jobs, tasks

    def wait_for_a_loss(self, timeout_s: float) -> bool:
        """Return as soon as an executor went, or nothing happened for so long."""
        gone = self._went.counter
        return bool(gone.tryAcquire(1, int(timeout_s * 1000), self._door.milliseconds))

    def executors_changed(self) -> bool:
        """Tell whether executors came or went since the last call."""
        return bool([*self._came.fetch(), *self._went.fetch()])

    def dropped(self) -> int:
        """Return how many events were lost since the last call."""
        return self._jobs.dropped() + self._tasks.dropped()

    def close(self) -> None:
        """Hear no more."""
        for queue in self._queues:
            queue.close()
        for close in self._sessions.values():
            close()

    def _columns(self, method: str, capacity: int, values: tuple[str, ...]) -> Columns:
        queue = listen(self._door, method, capacity)
        self._queues.append(queue)
        return Columns(self._door, queue, values)


def _query_event(name: str, text: str) -> QueryEvent | None:
    """Return what an event tells; ``None`` where nobody asks, or it cannot be read."""
    kind: Any = _KINDS.get(name)
    if kind is None:
        return None
    try:
        fields = json.loads(text)
    except ValueError:
        return None
    return QueryEvent(kind, fields["progress"] if kind == "progress" else fields)
