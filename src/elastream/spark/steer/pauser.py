"""A query that pauses, and goes on where its tasks are wanted: pause-and-resume, of the product.

Stop at a batch boundary, start the query again on its checkpoint, and tell the coordinator where
its tasks shall be before the first batch is planned. Nobody can start a query again but who knows
how: a function of the user's does. What can be refused is refused while the query still runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastream.loop.clock import steady_s
from elastream.loop.ports import Paused, Ticket
from elastream.model.errors import ElastreamError, ProblemError, QueryRefusedError, SparkError
from elastream.model.observation import TaskId
from elastream.spark.door.private_door import PrivateDoor
from elastream.spark.door.repartitioning import checkpoint_location, is_temporary
from elastream.spark.observe.endings import ending
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import WatchedQuery
from elastream.spark.steer.graceful_stop import stop_gracefully
from elastream.spark.steer.resumed_placement import place_resumed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Restart", "Resumable", "SparkPauser", "resumable"]

Restart = Callable[[], "StreamingQuery"]
"""Starts a query again, on its checkpoint, and returns it."""


@dataclass(frozen=True, slots=True)
class Resumable:
    """A query that runs, and can be started again."""

    watched: WatchedQuery
    running: StreamingQuery
    location: str
    """Of its checkpoint."""
    restart: Restart

    def start(self) -> StreamingQuery:
        """Start it again; raises where something else was started."""
        resumed = self.restart()
        if str(resumed.id) != self.watched.query.id:
            name = self.watched.name
            why = f"what was started again is not query {name}: it has another checkpoint"
            raise ElastreamError(why)
        return resumed


def resumable(
    door: PrivateDoor,
    monitor: SparkMonitor,
    restart_of: Callable[[str], Restart | None],
    query: str,
) -> Resumable:
    """Return the query that the loop calls so; refuse one that could not go on after a stop."""
    watched, restart = monitor.named(query), restart_of(query)
    if watched is None:
        raise QueryRefusedError(f"query {query} does not take part")
    if restart is None:
        raise SparkError(f"nobody has said how query {query} is started again")
    running = door.queries.streaming_query(watched.query)
    if running is None:
        raise QueryRefusedError(f"query {query} has ended")
    location = checkpoint_location(watched.query)
    if is_temporary(location):
        why = "it was given no checkpointLocation, and its state would end with it"
        raise ProblemError("checkpoint", why)
    return Resumable(watched, running, location, restart)


class SparkPauser:
    """Moves the tasks of queries that a monitor watches by pause-and-resume."""

    def __init__(
        self,
        door: PrivateDoor,
        monitor: SparkMonitor,
        restart_of: Callable[[str], Restart | None],
    ) -> None:
        self._door = door
        self._monitor = monitor
        self._restart_of = restart_of
        """How a query, by its name, is started again; ``None`` where nobody has said."""

    def pause(self, query: str, places: Mapping[TaskId, str], *, ticket: Ticket) -> Paused:
        """Return when the query runs again; raise where it was not paused, and say why.

        A query whose last batch was cut, because it took too long, is started again like any
        other: Spark repeats that batch.
        """
        found = resumable(self._door, self._monitor, self._restart_of, query)
        operators = found.watched.operators
        ticket.check()
        began_ms, began = round(steady_s() * 1000), time.monotonic()
        with suppress(SparkError):
            stop_gracefully(found.running)
        if (fault := found.running.exception()) is not None:
            raise SparkError(f"query {query} has failed: {ending(fault)}")
        stopped = time.monotonic()
        resumed = found.start()
        place_resumed(self._door, resumed, operators, places)
        spent = {"stop": stopped - began, "start": time.monotonic() - stopped}
        return Paused(began_ms, spent)
