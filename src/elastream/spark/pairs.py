"""The (query, operator, partition) pairs of running queries: what resilient placement places.

Paper 003 calls an operator what can be placed by itself. On Spark that is a partition of a stateful
operator of a query: its state lives on one executor, and what it costs is paid there. The pairs of
several queries stand in one order: query by query as they are given, in a query by operator and
partition. Problems that are measured and plans that are carried out mean this order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from elastream.control.observation import TaskId
from elastream.model.errors import QueryRefusedError
from elastream.spark.monitor import Monitor
from elastream.spark.placement import GivenUp, StatePlacement
from elastream.spark.private_door import PrivateDoor
from elastream.spark.query_session import named, session_of
from elastream.spark.settings import advised, wrong_settings

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Pair", "WatchedQueries", "WatchedQuery", "watched"]

_log = logging.getLogger(__name__)

_FIRST_BATCH_S: Final = 120.0


class Pair(NamedTuple):
    """One partition of one stateful operator of one query."""

    query: int
    """Its place among the queries given."""
    task: TaskId


@dataclass(frozen=True, slots=True, eq=False)
class WatchedQuery:
    """A running query, heard and steered."""

    name: str
    """Its own; else its number among the queries given."""
    query: StreamingQuery
    monitor: Monitor
    placement: StatePlacement
    given_up: list[GivenUp]
    """The tasks that did not go where they were asked to."""

    def name_of(self, task: TaskId) -> str:
        """Return ``query/operator/partition``."""
        return f"{self.name}/{task.operator}/{task.partition}"


@dataclass(frozen=True, slots=True, eq=False)
class WatchedQueries:
    """Running queries of one session."""

    door: PrivateDoor
    queries: tuple[WatchedQuery, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, in order."""
        return tuple(
            Pair(number, task)
            for number, watched_query in enumerate(self.queries)
            for task in watched_query.placement.tasks
        )


@contextmanager
def watched(queries: Sequence[StreamingQuery]) -> Iterator[WatchedQueries]:
    """Give the queries with what hears and steers them; waits for their first batches.

    Raises :class:`~elastream.model.errors.ElastreamError` with one line where the session cannot
    be steered, or a query is stopped, keeps no state, or is given twice. The queries run on.
    """
    if not queries:
        raise QueryRefusedError("there is no query; give those that run")
    ids = [str(query.id) for query in queries]
    for number, query in enumerate(queries):
        if ids[number] in ids[:number]:
            raise QueryRefusedError(f"{named(query)} is given twice")
    sessions = [session_of(query) for query in queries]
    door = PrivateDoor.of(sessions[0])
    for setting in advised(wrong_settings(door.spark)):
        _log.warning("%s", setting)
    with ExitStack() as stack:
        found = []
        for number, query in enumerate(queries):
            monitor = stack.enter_context(Monitor(door, query))
            given_up: list[GivenUp] = []
            placement = StatePlacement(
                door, query, monitor, given_up=given_up.append, timeout_s=_FIRST_BATCH_S
            )
            name = query.name or f"query {number}"
            found.append(WatchedQuery(name, query, monitor, placement, given_up))
        yield WatchedQueries(door, tuple(found))
