"""What happens in an application, fetched from the driver many events at a time.

``digest.java``, a listener in the driver's JVM, keeps what Spark reports: started jobs, finished
tasks, executors that come and go, and reports of streaming queries. No event calls into Python. It
is in one queue of Spark's bus, which keeps the order: when the progress report of a batch is there,
all its work is too. One call waits for reports of queries, one fetches the work. Both answer with
lines of fields that tabs separate::

    3 1 0                                   jobs that run, executors changed, events dropped
    running <query> 1                       a query that runs, and is idle
    progress <json>                         a report; also started, terminated <query> <run> <why>

    job 4 5 <query> <batch> <own>           its stages, then its properties, where it has them
    task 90 4 2 7 1 5 9 44 0:31:135 2:40:9  id, stage, partition, executor, well, times, counters
    running 91 4 7 9 60 2 1                 id, stage, executor, launch, and the time now,
                                            partition, and the shuffle that the stage writes

Times are milliseconds of the driver's clock: when the stage of a task was submitted, when the task
was launched, when it finished. A task that has run for half a second is reported while it runs.

The lines of what ended a query are joined by vertical tabs. A counter is its number among the
names that were requested, its id, and what the task added. A line that cannot be read is passed
over, and logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from elastream.model.errors import UnsupportedSparkError
from elastream.model.words import printable
from elastream.spark.internals.java_text import compiled
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.own_work import OWN_PROPERTY

_log = logging.getLogger(__name__)

_QUEUE: Final = "streams"
_MOST: Final = 50_000
"""Jobs and tasks that may wait; a task takes some 2 kB."""
_PROPERTIES: Final = ("sql.streaming.queryId", "streaming.sql.batchId", OWN_PROPERTY)
"""Local properties by which Spark marks the jobs of a batch, and elastream its own."""


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A report of a query."""

    kind: Literal["started", "progress", "terminated"]
    fields: Mapping[str, Any]
    """Of a progress report Spark's JSON; else ``id``, ``runId``, and what ended it as
    ``exception``."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What there was to report at one moment, but for work."""

    jobs: int
    executors_changed: bool
    """Whether executors came or went since the last poll."""
    dropped: int
    """Events that were lost since the last poll: there were too many."""
    idle: Mapping[str, bool]
    """Of every query that runs, by id, whether it is idle: no batch runs, and the last look at the
    source found no rows for one."""
    events: tuple[QueryEvent, ...]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A job that started."""

    stages: tuple[int, ...]
    query: str | None
    """Id of the query that it works for; ``None`` where there is none."""
    batch: int | None
    own: bool


class Added(NamedTuple):
    """What a task added to one counter."""

    name: str
    id: int
    value: int


class TaskTimes(NamedTuple):
    """When a task had a slot, by the driver's clock, in ms."""

    submitted_ms: int
    """When its stage was submitted: from then on it may have waited for a slot."""
    launched_ms: int
    finished_ms: int


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A task that ended."""

    id: int
    """Unique in the application."""
    stage: int
    partition: int
    executor: str
    ended_well: bool
    times: TaskTimes
    added: tuple[Added, ...]


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that has not ended yet."""

    id: int
    stage: int
    executor: str
    launched_ms: int
    now_ms: int
    """When it was seen running."""
    partition: int = 0
    shuffle: int | None = None
    """The shuffle that its stage writes; ``None`` for a last stage."""


@dataclass(frozen=True, slots=True)
class Work:
    """The jobs that started and the tasks that ended since the last time."""

    jobs: tuple[JobEvent, ...]
    tasks: tuple[TaskEvent, ...]
    running: tuple[RunningTask, ...] = ()
    """Tasks that run now, and have for a while."""


class EventTap:
    """Listens from the moment it is made until :meth:`close`.

    No more than ``most`` jobs and tasks wait to be fetched: the oldest are dropped.
    """

    def __init__(self, internals: SparkInternals, *, most: int = _MOST) -> None:
        from py4j.protocol import Py4JError

        names = "\n".join(_PROPERTIES)
        references = [internals.queries.running, internals.running_jobs, names, most]
        try:
            self._listener = compiled(internals, "digest.java", references)
        except Py4JError as error:
            why = f"this Spark does not compile the listener of its events: {first_line(error)}"
            raise UnsupportedSparkError(why) from error
        self._bus = internals.listener_bus()
        self._bus.addToQueue(self._listener, _QUEUE)

    def wait(self, timeout_s: float) -> Poll:
        """Return once a query reports something, or executors come or go, or at the timeout."""
        return poll_in(str(self._listener.hear(round(timeout_s * 1000))))

    def fetch(self, names: Sequence[str]) -> Work:
        """Return the work of all queries since the last call, with the counters of these names."""
        return work_in(str(self._listener.work("\n".join(names))), names)

    def wait_for_a_loss(self, timeout_s: float) -> bool:
        """Return ``True`` once an executor went, ``False`` at the timeout."""
        return bool(self._listener.lost(round(timeout_s * 1000)))

    def close(self) -> None:
        """Stop listening; calls that wait return."""
        self._listener.close()
        self._bus.removeListener(self._listener)


def poll_in(text: str) -> Poll:
    """Return what a text reports that was waited for."""
    first, *lines = text.split("\n")
    jobs, changed, dropped = first.split("\t")
    idle: dict[str, bool] = {}
    events: list[QueryEvent] = []

    def read(line: str) -> None:
        kind, _, rest = line.partition("\t")
        if kind == "running":
            query, _, flag = rest.partition("\t")
            idle[query] = flag == "1"
        else:
            events.append(_query_event(kind, rest))

    _each(lines, read)
    return Poll(int(jobs), changed == "1", int(dropped), idle, tuple(events))


def work_in(text: str, names: Sequence[str]) -> Work:
    """Return the work that a text reports, fetched with the counters of these names."""
    jobs: list[JobEvent] = []
    tasks: list[TaskEvent] = []
    running: list[RunningTask] = []

    def read(line: str) -> None:
        kind, *fields = line.split("\t")
        if kind == "task":
            tasks.append(_task_event(fields, names))
        elif kind == "running":
            running.append(_running_task(fields))
        else:
            jobs.append(_job_event(fields))

    _each(text.split("\n") if text else (), read)
    return Work(tuple(jobs), tuple(tasks), tuple(running))


def _each(lines: Iterable[str], read: Callable[[str], None]) -> None:
    for line in lines:
        try:
            read(line)
        except (KeyError, ValueError, IndexError):
            _log.warning(
                "an event of Spark cannot be read and is passed over: %.200s", printable(line)
            )


def _query_event(kind: str, rest: str) -> QueryEvent:
    if kind == "progress":
        return QueryEvent("progress", json.loads(rest))
    if kind == "started":
        query, run = rest.split("\t")
        return QueryEvent("started", {"id": query, "runId": run})
    if kind == "terminated":
        query, run, why = rest.split("\t", 2)
        return QueryEvent("terminated", {"id": query, "runId": run, "exception": why or None})
    raise ValueError(kind)


def _job_event(fields: Sequence[str]) -> JobEvent:
    stages, query, batch, own = fields
    numbers = tuple(int(stage) for stage in stages.split())
    return JobEvent(numbers, query or None, int(batch) if batch else None, bool(own))


def _task_event(fields: Sequence[str], names: Sequence[str]) -> TaskEvent:
    id_, stage, partition, executor, well, *times, counters = fields
    added = []
    for counter in counters.split():
        number, identity, value = counter.split(":")
        added.append(Added(names[int(number)], int(identity), int(value)))
    submitted_ms, launched_ms, finished_ms = map(int, times)
    return TaskEvent(
        int(id_),
        int(stage),
        int(partition),
        executor,
        well == "1",
        TaskTimes(submitted_ms, launched_ms, finished_ms),
        tuple(added),
    )


def _running_task(fields: Sequence[str]) -> RunningTask:
    id_, stage, executor, launched_ms, now_ms, partition, shuffle = fields
    return RunningTask(
        int(id_),
        int(stage),
        executor,
        int(launched_ms),
        int(now_ms),
        int(partition),
        int(shuffle) if shuffle else None,
    )
