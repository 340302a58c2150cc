"""Queries of a program that pauses without knowing it: caught where they start, followed after.

Pause-and-resume stops a query and starts it again. A program that was not written for that holds a
handle of the query, waits for its end, and takes a pause for it. So while the program runs, the
methods that start a query note how it was started; the handle they gave the program is led over to
every next run; and whoever asks whether the query has ended, or waits for that, is told only when
it has, and not when it is paused. Every next run begins with the local properties (scheduler pool,
job group, tags) of the thread that started the query.

A handle that the program gets in another way (``spark.streams.active``) is of one run alone, and
``processAllAvailable`` of a query that pauses meanwhile is not taken care of.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.steer.restarting import Restart

__all__ = ["CaughtQueries"]

_LOOK_S: Final = 0.05


class CaughtQueries:
    """The queries that a program has started, and how each is started again."""

    def __init__(self, paused: Callable[[str], bool]) -> None:
        self._paused = paused
        """Whether a query, by its name, is stopped and will go on."""
        self.restarts: dict[str, Restart] = {}
        """How each is started again, by its name, or its id where it has none."""
        self._names: dict[StreamingQuery, str] = {}
        """The handles that the program has."""
        self._faults: dict[str, Exception] = {}
        """Why a query did not start again when that was last tried."""

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """Return the methods of PySpark to replace: owner, name, what to put there."""
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        return [
            (DataStreamWriter, "start", self._starts(DataStreamWriter.start)),
            (DataStreamWriter, "toTable", self._starts(DataStreamWriter.toTable)),
            (StreamingQuery, "awaitTermination", self._awaits(StreamingQuery.awaitTermination)),
            (StreamingQuery, "isActive", property(self._is_active(StreamingQuery.isActive))),
            (StreamingQuery, "stop", self._stops(StreamingQuery.stop)),
            (
                StreamingQueryManager,
                "awaitAnyTermination",
                self._awaits_any(
                    StreamingQueryManager.awaitAnyTermination,
                    StreamingQueryManager.resetTerminated,
                ),
            ),
            (
                StreamingQueryManager,
                "resetTerminated",
                self._forgets(StreamingQueryManager.resetTerminated),
            ),
        ]

    def _starts(self, start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
        @functools.wraps(start)
        def starts(writer: Any, *arguments: Any, **named: Any) -> StreamingQuery:
            query = start(writer, *arguments, **named)
            name = query.name or str(query.id)
            spark = writer._spark
            at_start = _ThreadLocals.of(spark)

            @functools.wraps(start)
            def restart() -> StreamingQuery:
                self._faults.pop(name, None)
                with at_start.held(spark):
                    try:
                        resumed = start(writer, *arguments, **named)
                    except Exception as error:
                        self._faults[name] = error
                        running = spark.streams.get(query.id)
                        if running is None:
                            raise
                        resumed = running  # an earlier call did start it
                        del self._faults[name]
                    query._jsq = resumed._jsq
                return resumed

            self._names[query] = name
            self._faults.pop(name, None)
            self.restarts[name] = restart
            return query

        return starts

    def _awaits(self, wait: Callable[..., bool | None]) -> Callable[..., bool | None]:
        from pyspark.errors import StreamingQueryException

        @functools.wraps(wait)
        def awaits(query: StreamingQuery, timeout: int | None = None) -> bool | None:
            left = _Left(timeout)
            while True:
                run = query._jsq
                try:
                    ended = wait(query) if timeout is None else wait(query, left.seconds)
                except StreamingQueryException:
                    if self._goes_on(query, run):  # a start that is followed by another
                        continue
                    raise
                if not self._goes_on(query, run):
                    self._check_started(query)
                    return ended
                if left.over:
                    return False

        return awaits

    def _is_active(self, is_active: Any) -> Callable[[StreamingQuery], bool]:
        def asked(query: StreamingQuery) -> bool:
            run = query._jsq
            active: bool = is_active.fget(query)
            return active or self._goes_on(query, run, wait=False)

        return asked

    def _stops(self, stop: Callable[[StreamingQuery], None]) -> Callable[[StreamingQuery], None]:
        @functools.wraps(stop)
        def stops(query: StreamingQuery) -> None:
            self._goes_on(query, query._jsq)
            stop(query)

        return stops

    def _awaits_any(
        self, wait: Callable[..., bool | None], reset: Callable[[Any], None]
    ) -> Callable[..., bool | None]:
        from pyspark.errors import StreamingQueryException

        @functools.wraps(wait)
        def awaits(manager: Any, timeout: int | None = None) -> bool | None:
            left = _Left(timeout)
            while True:
                try:
                    ended = wait(manager) if timeout is None else wait(manager, left.seconds)
                except StreamingQueryException as error:
                    if not self._is_followed(str(error)):
                        raise
                    ended = True
                over = [query for query in tuple(self._names) if not query.isActive]
                if over:
                    for query in over:
                        self._check_started(query)
                    return ended
                if left.over:
                    return False
                reset(manager)  # it was a pause

        return awaits

    def _forgets(self, reset: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(reset)
        def forgets(manager: Any) -> None:
            self._names = {query: name for query, name in self._names.items() if query.isActive}
            reset(manager)

        return forgets

    def _goes_on(self, query: StreamingQuery, run: Any, *, wait: bool = True) -> bool:
        """Tell whether a run that has ended is followed by another; wait for that one."""
        name = self._names.get(query)
        if name is None:
            return False
        while wait and self._paused(name):
            time.sleep(_LOOK_S)
        # A pause is over only when the handle leads to the next run
        return self._paused(name) or query._jsq is not run

    def _is_followed(self, fault: str) -> bool:
        """Tell whether it is of a start that is followed by another: Spark names the query's id."""
        failed = [query for query in tuple(self._names) if str(query.id) in fault]
        return bool(failed) and all(query.isActive for query in failed)

    def _check_started(self, query: StreamingQuery) -> None:
        """Raise where a query has ended because it did not start again after a pause."""
        from pyspark.errors import StreamingQueryException

        name = self._names.get(query, "")
        fault = self._faults.get(name)
        if fault is not None:
            why = f"query {name} was stopped for a change and did not start again: {fault}"
            raise StreamingQueryException(why) from fault


@dataclass(frozen=True, slots=True)
class _ThreadLocals:
    """What Spark keeps for a thread, and passes on to a query that the thread starts."""

    properties: Any
    """Java's, with the scheduler pool, the job group and the tags of jobs."""
    tags: frozenset[str]
    """Of the session."""

    @staticmethod
    def of(spark: SparkSession) -> _ThreadLocals:
        """Return a copy of those of this thread."""
        properties = spark.sparkContext._jsc.sc().getLocalProperties().clone()
        return _ThreadLocals(properties, frozenset(spark.getTags()))

    @contextmanager
    def held(self, spark: SparkSession) -> Iterator[None]:
        """Let this thread have them for a while."""
        before = _ThreadLocals.of(spark)
        self._put(spark)
        try:
            yield
        finally:
            before._put(spark)

    def _put(self, spark: SparkSession) -> None:
        spark.sparkContext._jsc.sc().setLocalProperties(self.properties.clone())
        spark.clearTags()
        for tag in self.tags:
            spark.addTag(tag)


class _Left:
    """What is left of a timeout in whole seconds, as PySpark takes it."""

    def __init__(self, timeout: int | None) -> None:
        self._ends_s = None if timeout is None else time.monotonic() + timeout

    @property
    def seconds(self) -> int:
        assert self._ends_s is not None  # noqa: S101 - asked for only where there is one
        return max(1, round(self._ends_s - time.monotonic()))

    @property
    def over(self) -> bool:
        return self._ends_s is not None and time.monotonic() >= self._ends_s
