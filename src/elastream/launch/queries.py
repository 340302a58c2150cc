"""The queries of a program: how each is started again, and what the program sees of that.

A query that gets more partitions is stopped and started again. The program shall notice nothing:
its handle of the query becomes one of the new run, a query that is stopped for that moment counts
as active, and whoever waits for its end waits on. A query is started again with the call that
started it, in the same pool and job group.

Only the program's own calls are known here. A query cannot be started again once its writer has
started another one, because the writer holds what was set last. Real-time queries get no more
partitions, and are left out.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import QueryStoppedError
from elastream.spark.internals.triggers import is_realtime
from elastream.spark.observe.own_work import OWN_NAME

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
    from pyspark.sql.streaming.readwriter import DataStreamWriter


Start = Callable[..., "StreamingQuery"]
_POLL_S: Final = 0.1
_MOST: Final = 1000
"""Queries that are known at a time."""


class ProgramQuery:
    """One query that the program has started."""

    def __init__(self, handle: StreamingQuery, writer: DataStreamWriter, call: Start) -> None:
        self.handle = handle
        self.name: str = handle.name or handle.id
        self.writer = writer
        self.manager = writer._spark._jsparkSession.streams()
        self.restarted = False
        """Whether it was ever stopped and started again for a change."""
        self._call = call
        self._context = writer._spark.sparkContext._jsc.sc()
        self._properties = self._context.getLocalProperties().clone()

    def restart(self) -> StreamingQuery:
        """Start it again as the program did; the program's handle becomes one of this run."""
        self.restarted = True
        own = self._context.getLocalProperties()
        self._context.setLocalProperties(self._properties.clone())
        try:
            resumed = self._call()
        finally:
            self._context.setLocalProperties(own)
        self.handle._jsq = resumed._jsq
        return resumed


class ProgramQueries(Mapping[str, Callable[[], "StreamingQuery"]]):
    """How the program's queries are started again, by name."""

    def __init__(self, is_stopping: Callable[[str], bool]) -> None:
        self._is_stopping = is_stopping
        """Whether a query is stopped at the moment, and will be started again."""
        self._queries: dict[str, ProgramQuery] = {}
        """By id; the latest run of each."""

    def __getitem__(self, name: str) -> Callable[[], StreamingQuery]:
        for query in self._all():
            if query.name == name:
                return query.restart
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([query.name for query in self._all()])

    def __len__(self) -> int:
        return len(self._queries)

    def clear(self) -> None:
        """Forget all: their application has ended."""
        self._queries.clear()

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """Return what replaces methods of PySpark: the class, the name and the method."""
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        query, manager, writer = StreamingQuery, StreamingQueryManager, DataStreamWriter
        active, actives = vars(query)["isActive"].fget, vars(manager)["active"].fget
        return [
            (writer, "start", self._starts(writer.start)),
            (writer, "toTable", self._starts(writer.toTable)),
            (query, "awaitTermination", self._awaits(query.awaitTermination)),
            (query, "processAllAvailable", self._processes(query.processAllAvailable)),
            (query, "isActive", property(self._is_active(active))),
            (query, "stop", self._stops(query.stop)),
            (manager, "active", property(self._lists(actives))),
            (manager, "get", self._gets(manager.get)),
            (manager, "awaitAnyTermination", self._awaits_any(manager.awaitAnyTermination)),
            (manager, "resetTerminated", self._resets(manager.resetTerminated)),
        ]

    def _starts(self, start: Start) -> Start:
        @functools.wraps(start)
        def starts(writer: DataStreamWriter, *arguments: Any, **named: Any) -> StreamingQuery:
            self._forget(writer)
            handle = start(writer, *arguments, **named)
            with suppress(Exception):  # it gets no more partitions then
                if not (handle.name or "").startswith(OWN_NAME) and not is_realtime(handle):
                    call = functools.partial(start, writer, *arguments, **named)
                    self._queries.pop(handle.id, None)
                    self._queries[handle.id] = ProgramQuery(handle, writer, call)
            return handle

        return starts

    def _awaits(self, wait: Callable[..., bool | None]) -> Callable[..., bool | None]:
        @functools.wraps(wait)
        def awaits(handle: StreamingQuery, timeout: float | None = None) -> bool | None:
            began_s, run = time.monotonic(), handle._jsq
            ended = wait(handle, timeout)
            ends_s = None if timeout is None else began_s + timeout
            while ended is not False and self._goes_on(handle, run, ends_s):
                if _is_over(ends_s):
                    return False
                run = handle._jsq
                ended = wait(handle, _left_s(ends_s))
            return ended

        return awaits

    def _processes(self, process: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(process)
        def processes(handle: StreamingQuery) -> None:
            run = handle._jsq
            process(handle)
            while self._goes_on(handle, run, None):
                run = handle._jsq
                process(handle)

        return processes

    def _is_active(self, ask: Callable[[Any], bool]) -> Callable[[Any], bool]:
        @functools.wraps(ask)
        def is_active(handle: StreamingQuery) -> bool:
            run = handle._jsq
            return ask(handle) or self._pauses(handle) or (handle._jsq is not run and ask(handle))

        return is_active

    def _stops(self, stop: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(stop)
        def stops(handle: StreamingQuery) -> None:
            while self._pauses(handle):
                time.sleep(_POLL_S)
            stop(handle)

        return stops

    def _lists(self, ask: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        @functools.wraps(ask)
        def lists(manager: StreamingQueryManager) -> list[StreamingQuery]:
            found = {query.id: query for query in ask(manager)}
            for key, query in self._of(manager).items():
                if key in found or self._pauses(query.handle):
                    found[key] = query.handle
            return list(found.values())

        return lists

    def _gets(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(ask)
        def gets(manager: StreamingQueryManager, id: str) -> StreamingQuery | None:  # noqa: A002
            found: StreamingQuery | None = ask(manager, id)
            known = self._of(manager).get(id)
            if known is not None and (found is not None or self._pauses(known.handle)):
                return known.handle
            return found

        return gets

    def _awaits_any(self, wait: Callable[..., bool | None]) -> Callable[..., bool | None]:
        @functools.wraps(wait)
        def awaits(manager: StreamingQueryManager, timeout: float | None = None) -> bool | None:
            began_s = time.monotonic()
            ended = wait(manager, timeout)
            ends_s = None if timeout is None else began_s + timeout
            while ended is not False and self._ended_for_a_change(manager):
                if _is_over(ends_s):
                    return False
                time.sleep(_POLL_S)
                ended = wait(manager, _left_s(ends_s))
            return ended

        return awaits

    def _resets(self, reset: Callable[[Any], None]) -> Callable[[Any], None]:
        @functools.wraps(reset)
        def resets(manager: StreamingQueryManager) -> None:
            for key, query in self._of(manager).items():
                if not query.handle.isActive:
                    self._queries.pop(key, None)
            reset(manager)

        return resets

    def _goes_on(self, handle: StreamingQuery, run: Any, ends_s: float | None) -> bool:
        """Whether a run that has ended was stopped for a change; returns when the next one runs.

        Raises ``QueryStoppedError`` where there is none.
        """
        pauses = False
        while self._pauses(handle):
            pauses = True
            if _is_over(ends_s):
                return True
            time.sleep(_POLL_S)
        if handle._jsq is not run:
            return self._is_ours(handle)
        if pauses and handle.exception() is None:
            why = f"query {handle.name or handle.id} was stopped for a change and did not start"
            raise QueryStoppedError(f"{why} again; see the log of elastream")
        return False

    def _ended_for_a_change(self, manager: StreamingQueryManager) -> bool:
        """Whether nothing has ended but runs that were stopped for a change."""
        known = self._of(manager).values()
        if not any(query.restarted or self._pauses(query.handle) for query in known):
            return False
        manager._jsqm.resetTerminated()
        for query in known:
            if not query.handle.isActive:
                if (fault := query.handle.exception()) is not None:
                    raise fault
                return False
        return True

    def _pauses(self, handle: StreamingQuery) -> bool:
        """Whether a query of the program is stopped at the moment; elastream has its own handle."""
        return self._is_ours(handle) and self._is_stopping(handle.name or handle.id)

    def _is_ours(self, handle: StreamingQuery) -> bool:
        return any(each.handle is handle for each in self._all())

    def _forget(self, writer: DataStreamWriter) -> None:
        """Forget what the writer has started before, and the oldest where there are many."""
        for key, known in tuple(self._queries.items()):
            if known.writer is writer or len(self._queries) > _MOST:
                del self._queries[key]

    def _all(self) -> tuple[ProgramQuery, ...]:
        return tuple(self._queries.values())

    def _of(self, manager: StreamingQueryManager) -> dict[str, ProgramQuery]:
        found = tuple(self._queries.items())
        return {key: query for key, query in found if query.manager == manager._jsqm}


def _is_over(ends_s: float | None) -> bool:
    return ends_s is not None and time.monotonic() >= ends_s


def _left_s(ends_s: float | None) -> float | None:
    return None if ends_s is None else max(0.001, ends_s - time.monotonic())
