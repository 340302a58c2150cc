"""Starting a query again that was stopped for a change.

A function of the user's does it. It may fail where the next call would not: storage cannot be
reached for a moment, or the run before has not quite ended. So it is called again, with longer and
longer waits, for five minutes. A query that stays stopped is reported with its checkpoint and what
starts it. Spark returns from a start before the query has opened its sources: a run that fails at
that has not started either.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from elastream.core.clock import steady_s
from elastream.model.errors import (
    ElastreamError,
    ProblemError,
    QueryRefusedError,
    QueryStoppedError,
    SparkError,
)
from elastream.model.observation import TaskId
from elastream.model.words import pluralize, printable
from elastream.spark.internals.queries import StatefulOperator
from elastream.spark.internals.repartitioning import checkpoint_location, is_temporary
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.endings import ending
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import WatchedQuery
from elastream.spark.steer.placement import place_resumed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_log = logging.getLogger(__name__)
T = TypeVar("T")

Restart = Callable[[], "StreamingQuery"]

BOUND_S: Final = 300.0
"""For how long starts are tried."""
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
_INITIALIZED_S: Final = 60.0
"""How long a run may take to open its sources; after that it counts as started."""


def try_for_a_while(
    attempt: Callable[[], T],
    *,
    is_hopeless: Callable[[Exception], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> T:
    """Return what the first attempt returns that does not raise.

    Waits double from a second to half a minute. Raises what the last attempt raised: the first one
    that ``is_hopeless``, or that of the attempt at ``BOUND_S``.
    """
    ends_s, wait_s = clock() + BOUND_S, _FIRST_WAIT_S
    while True:
        try:
            return attempt()
        except Exception as error:
            left_s = ends_s - clock()
            if left_s <= 0 or is_hopeless(error):
                raise
            _log.warning("%s; tried again in %.0f s", printable(str(error)), min(wait_s, left_s))
        sleep(min(wait_s, left_s))
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


@dataclass(frozen=True, slots=True)
class Resumable:
    """A query that runs, and can be started again."""

    watched: WatchedQuery
    running: StreamingQuery
    location: str
    """Of its checkpoint."""
    restart: Restart

    def check(self) -> None:
        """Raise where it has failed of itself: that is the user's to see, and ends it."""
        if (fault := self.running.exception()) is not None:
            raise self.stays_stopped(f"it has failed of itself: {ending(fault)}")

    def stays_stopped(self, why: str, *, partitions: int | None = None) -> QueryStoppedError:
        """Return and log the error that says so, with what starts it."""
        now = "" if partitions is None else f", which has {partitions} partitions now"
        error = QueryStoppedError(
            f"query {self.watched.name} is STOPPED: {why}; its checkpoint is {self.location}{now}; "
            f"start it there with {_call(self.restart)}, or run its program again"
        )
        _log.error("%s", printable(str(error)))
        return error


@dataclass(frozen=True, slots=True)
class Failed:
    """A query that has failed, and can be started again."""

    watched: WatchedQuery
    restart: Restart


class QueryRestarter:
    """Finds out how queries are started again, and does it; knows which are stopped meanwhile."""

    def __init__(
        self,
        internals: SparkInternals,
        monitor: SparkMonitor,
        restart_of: Callable[[str], Restart | None],
        *,
        clock: Callable[[], float] = steady_s,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self._internals = internals
        self._monitor = monitor
        self._restart_of = restart_of
        """How a query, by its name, is started again; ``None`` where that is not known."""
        self._clock = clock
        self._given_up = threading.Event()
        self._sleep = self._given_up.wait if sleep is None else sleep
        self._lock = threading.Lock()
        self._stopped: tuple[str, ...] = ()

    def is_stopping(self, query: str | None = None) -> bool:
        """Tell whether a query, or any, is being stopped and started again now."""
        return bool(self._stopped) if query is None else query in self._stopped

    def give_up(self) -> None:
        """Let a start that is under way be the last: the program ends."""
        self._given_up.set()

    def go_on(self) -> None:
        """Let starts that fail be tried again, as before."""
        self._given_up.clear()

    @contextmanager
    def stopping(self, query: str) -> Iterator[None]:
        """Mark the query meanwhile as stopped and to be started again."""
        with self._lock:
            self._stopped = (*self._stopped, query)
        try:
            yield
        finally:
            with self._lock:
                self._stopped = tuple(other for other in self._stopped if other != query)

    def resumable(self, query: str) -> Resumable:
        """Return the query of this name; refuse one that could not go on after a stop."""
        watched, restart = self._monitor.named(query), self._restart_of(query)
        if watched is None:
            raise QueryRefusedError(f"query {query} does not take part")
        if restart is None:
            raise SparkError(f"how query {query} is started again is not known")
        running = self._internals.queries.streaming_query(watched.query)
        if running is None:
            raise QueryRefusedError(f"query {query} has ended")
        location = checkpoint_location(watched.query)
        if is_temporary(location):
            why = "it was given no checkpointLocation, and its state would end with it"
            raise ProblemError("checkpoint", why)
        return Resumable(watched, running, location, restart)

    def start(
        self,
        stopped: Resumable,
        operators: Sequence[StatefulOperator] = (),
        places: Mapping[TaskId, str] | None = None,
        *,
        partitions: int | None = None,
    ) -> None:
        """Start a query again, with its tasks in these places; nothing is done where it runs.

        ``partitions``: what its checkpoint has now, where that was changed. Raises
        ``QueryStoppedError`` where the query stays stopped. One that had failed is not started.
        """
        stopped.check()
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            resumed = self._start_once(stopped)
            if operators:
                self._place(stopped, resumed, operators, places or {})
            self._internals.queries.await_initialized(resumed, _INITIALIZED_S)
            if (fault := resumed.exception()) is not None:
                name = stopped.watched.name
                raise SparkError(f"query {name} failed when it was started again: {ending(fault)}")

        try:
            try_for_a_while(
                attempt,
                is_hopeless=lambda error: (
                    isinstance(error, _HopelessError) or self._given_up.is_set()
                ),
                clock=self._clock,
                sleep=self._sleep,
            )
        except Exception as error:
            why = f"it was not started again in {pluralize(tries, 'try', 'tries')}: {_line(error)}"
            raise stopped.stays_stopped(why, partitions=partitions) from error

    def start_failed(
        self,
        watched: WatchedQuery,
        restart: Restart,
        check: Callable[[], None],
        *,
        after_s: float,
    ) -> int:
        """Start a query again that failed, with its tasks where they were; return the tries.

        ``check`` raises while it cannot run; ``after_s`` is waited first. Raises what the last try
        raised. To be called while it is marked as :meth:`stopping`.
        """
        location = checkpoint_location(watched.query)
        if is_temporary(location):
            raise SparkError("it was given no checkpointLocation, so its state is gone")
        failed = Failed(watched, restart)
        tries = 0

        def attempt() -> None:
            nonlocal tries
            check()
            tries += 1
            resumed = self._start_once(failed)
            self._place(failed, resumed, watched.operators, watched.places.now.observed)
            self._internals.queries.await_initialized(resumed, _INITIALIZED_S)
            if (fault := resumed.exception()) is not None:
                raise SparkError(f"it failed when it was started again: {ending(fault)}")

        def is_hopeless(error: Exception) -> bool:
            return isinstance(error, _HopelessError) or self._given_up.is_set()

        self._sleep(after_s)
        try_for_a_while(attempt, is_hopeless=is_hopeless, clock=self._clock, sleep=self._sleep)
        return tries

    def _place(
        self,
        stopped: Resumable | Failed,
        resumed: StreamingQuery,
        operators: Sequence[StatefulOperator],
        places: Mapping[TaskId, str],
    ) -> None:
        try:
            place_resumed(self._internals, resumed, operators, places)
        except Exception:  # its first batch shows where they are
            name = printable(stopped.watched.name)
            _log.warning("the tasks of query %s go where Spark puts them", name, exc_info=True)

    def _start_once(self, stopped: Resumable | Failed) -> StreamingQuery:
        """Return the query when it runs, also where something else has started it."""
        name = stopped.watched.name
        if not self._internals.is_alive():  # the function might begin another application
            raise _HopelessError("the application has ended")
        running = self._running(stopped)
        if running is not None:
            return running
        try:
            resumed = stopped.restart()
        except Exception as error:
            running = self._running(stopped)
            if running is None:
                raise SparkError(f"query {name} did not start again: {_line(error)}") from error
            return running
        running = self._running(stopped)
        if running is not None:
            return running
        identity = getattr(resumed, "id", None)
        if identity is None:
            raise SparkError(f"query {name} did not start again: its function returned {resumed!r}")
        if str(identity) != stopped.watched.query.id:
            raise _HopelessError("what was started is another query: it has another checkpoint")
        return resumed  # it has ended: it had nothing left to do, or it has failed

    def _running(self, stopped: Resumable | Failed) -> StreamingQuery | None:
        for query in self._internals.queries.active():
            if query.id == stopped.watched.query.id and query.execution.isActive():
                return self._internals.queries.streaming_query(query)
        return None


class _HopelessError(SparkError):
    """The next attempt would fail like this one."""


def _call(restart: Restart) -> str:
    name = getattr(restart, "__name__", "")
    return f"{name}()" if name.isidentifier() else "the function that attach was given as restart"


def _line(error: Exception) -> str:
    text = ending(error)
    return text if isinstance(error, ElastreamError) else f"{type(error).__name__}: {text}"
