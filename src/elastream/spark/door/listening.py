"""Spark's events without a jar and without a call into Python: bounded queues in the driver's JVM.

The JDK's ``java.beans.EventHandler`` makes an object of any listener interface that hands one
property of an event to one method of a target. With a queue as target, Spark's events wait in the
JVM until Python fetches them, many in one call. A queue that nobody empties does not grow for ever:
it takes so many events and no more, and a counter beside it tells how many there were, so that what
was lost is known.

All listeners share one place on Spark's bus with those of streaming queries: an event is in its
queue before any later one is in another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from elastream.spark.door.private_door import PrivateDoor

_log = logging.getLogger(__name__)

__all__ = ["Columns", "EventQueue", "listen", "listen_to_queries"]

LISTENER: Final = "org.apache.spark.scheduler.SparkListenerInterface"
QUERY_LISTENER: Final = "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
_STREAMS_QUEUE: Final = "streams"
_CONSUMER: Final = "java.util.function.Consumer"


@dataclass(frozen=True, slots=True)
class EventQueue:
    """Events of one kind, waiting in the JVM."""

    queue: Any
    """A ``java.util.concurrent.LinkedBlockingQueue`` of bounded size."""
    counter: Any
    """A ``java.util.concurrent.Semaphore`` with a permit for every event that came."""
    close: Callable[[], None]
    """Hear no more."""


def listen(door: PrivateDoor, method: str, capacity: int) -> EventQueue:
    """Return a queue of the events that Spark hands to ``method`` of a listener, in order."""
    queue, counter = door.bounded_queue(capacity), door.counter()
    listeners = (  # counted after it is there, so that none seems lost that is not
        door.handler(LISTENER, queue, "offer", "", method),
        door.handler(LISTENER, counter, "release", None, method),
    )
    bus = door.listener_bus()
    for listener in listeners:
        bus.addToQueue(listener, _STREAMS_QUEUE)

    def close() -> None:
        for listener in listeners:
            bus.removeListener(listener)

    return EventQueue(queue, counter, close)


def listen_to_queries(door: PrivateDoor, session: Any, queue: Any) -> Callable[[], None]:
    """Put all that a session tells of its streaming queries into ``queue``; return how to stop.

    ``session`` is the JVM's. Queries that run already are heard too.
    """
    listener = door.query_listener(door.handler(QUERY_LISTENER, queue, "offer", "", None))
    streams = session.streams()
    streams.addListener(listener)
    return lambda: streams.removeListener(listener)


class Columns:
    """The values of some properties of the events in a queue, a row an event."""

    def __init__(self, door: PrivateDoor, events: EventQueue, values: tuple[str, ...]) -> None:
        self._door = door
        self._source = events
        self._came = self._drained = self._lost = 0
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

    @property
    def counter(self) -> Any:
        """A semaphore of the JVM with a permit for every event that came."""
        return self._source.counter

    def fetch(self) -> list[tuple[Any, ...]]:
        """Return the rows, and empty the queue; an event that cannot be read is passed over."""
        number = self._source.queue.drainTo(self._events)
        if number == 0:
            return []
        self._drained += number
        try:
            for fill in self._fillers:
                self._events.forEach(fill)
            return self._rows()
        except Exception:  # of one event among many: read the others
            return self._one_by_one()
        finally:
            self._empty(self._events, *self._columns)

    def dropped(self) -> int:
        """Return how many events found the queue full since the last call."""
        self._came += self._source.counter.drainPermits()
        lost = self._came - self._drained - self._source.queue.size()
        fresh = max(0, int(lost) - self._lost)
        self._lost += fresh
        return fresh

    def _rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*self._door.json(self._table), strict=True))

    def _one_by_one(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for index in range(self._events.size()):
            self._empty(*self._columns)
            try:
                for fill in self._fillers:
                    fill.accept(self._events.get(index))
                rows += self._rows()
            except Exception:
                _log.warning("an event of Spark cannot be read and is passed over", exc_info=True)
        return rows

    def _empty(self, *java_lists: Any) -> None:
        for java_list in java_lists:
            java_list.retainAll(self._nothing)  # py4j's own clear() takes a call an element
