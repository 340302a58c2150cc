"""Real-time queries of a program that are started again when an executor is lost.

Such a query ends with the executor, and the program would end with it: what it holds is a handle of
a run that has failed. So it is kept how each query was started, and handles are given the next run.
A program that waits for the query, or asks whether it is active, sees one query all the time. Any
other failure reaches the program as it always did.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from elastream.spark.internals.triggers import is_realtime
from elastream.spark.steer.restarting import Restart
from elastream.spark.steer.supervising import is_supervised

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

    from elastream.attachment import Attachment


_POLL_S: Final = 0.2


class RestartedQueries:
    """The Real-time queries that a program has started."""

    def __init__(self, attachment: Callable[[], Attachment | None]) -> None:
        self.starts: dict[str, Restart] = {}
        """How each is started again, by its label."""
        self._attachment = attachment
        self._newest: dict[str, StreamingQuery] = {}
        """The last run of each, by the query's id."""

    def clear(self) -> None:
        """Forget all: their application has ended."""
        self.starts.clear()
        self._newest.clear()

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """Return what is replaced in PySpark: the owner, the name, and what takes its place."""
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        manager = StreamingQueryManager
        return [
            (DataStreamWriter, "start", self._started(DataStreamWriter.start)),
            (DataStreamWriter, "toTable", self._started(DataStreamWriter.toTable)),
            (StreamingQuery, "awaitTermination", self._awaited(StreamingQuery.awaitTermination)),
            (StreamingQuery, "isActive", self._active(StreamingQuery.isActive)),
            (manager, "awaitAnyTermination", self._any_awaited(manager.awaitAnyTermination)),
        ]

    def _started(self, start: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
        @functools.wraps(start)
        def starts(*arguments: Any, **named: Any) -> StreamingQuery:
            def begin() -> StreamingQuery:
                query = start(*arguments, **named)
                with suppress(Exception):  # it is not started again then
                    if is_realtime(query):
                        self._newest[query.id] = query
                        self.starts[_label(query)] = begin
                return query

            return begin()

        return starts

    def _awaited(self, wait: Callable[..., bool | None]) -> Callable[..., bool | None]:
        @functools.wraps(wait)
        def awaits(query: StreamingQuery, timeout: float | None = None) -> bool | None:
            def healed(_: str, deadline: float) -> bool | None:
                again = self._run_again([query.id], deadline)
                if again:
                    query._jsq = self._newest[query.id]._jsq
                return again

            if not self._newest:
                return wait(query, timeout)
            return _awaited(functools.partial(wait, query), timeout, healed)

        return awaits

    def _any_awaited(self, wait: Callable[..., bool | None]) -> Callable[..., bool | None]:
        @functools.wraps(wait)
        def awaits(manager: StreamingQueryManager, timeout: float | None = None) -> bool | None:
            def healed(fault: str, deadline: float) -> bool | None:
                failed = [each for each in self._newest if each in fault]
                again = self._run_again(failed, deadline) if failed else False
                if again:
                    manager._jsqm.resetTerminated()
                return again

            if not self._newest:
                return wait(manager, timeout)
            return _awaited(functools.partial(wait, manager), timeout, healed)

        return awaits

    def _active(self, active: Any) -> property:
        def is_active(query: StreamingQuery) -> bool:
            if active.fget(query):
                return True
            if not self._newest:
                return False
            fault = query.exception()  # a run that ended as it should has no next one
            if fault is None or not is_supervised(str(fault)) or query.id not in self._newest:
                return False
            restarting = self._restarts(query.id)
            newest = self._newest[query.id]  # as it is after the question
            if newest._jsq.isActive():
                query._jsq = newest._jsq
                return True
            return restarting

        return property(is_active, doc=active.__doc__)

    def _run_again(self, ids: Sequence[str], deadline: float) -> bool | None:
        """Wait while queries that have failed are started again; return whether all run.

        ``None``: the deadline came before that was clear.
        """
        while time.monotonic() < deadline:
            restarting = {each: self._restarts(each) for each in ids}
            idle = [each for each in ids if not self._runs(each)]  # as it is after the question
            if not all(restarting[each] for each in idle):
                return False
            if not idle:
                return True
            time.sleep(_POLL_S)
        return None

    def _restarts(self, identity: str) -> bool:
        attachment, newest = self._attachment(), self._newest.get(identity)
        if attachment is None or newest is None:
            return False
        return attachment.is_restarting(_label(newest))

    def _runs(self, identity: str) -> bool:
        return identity in self._newest and bool(self._newest[identity]._jsq.isActive())


def _awaited(
    wait: Callable[[float | None], bool | None],
    timeout: float | None,
    healed: Callable[[str, float], bool | None],
) -> bool | None:
    """Wait, and go on waiting after a failure that was ``healed``, as long as there is time.

    ``healed`` gets what failed, and a deadline; it returns ``None`` where that came first.
    """
    began, left = time.monotonic(), timeout
    while True:
        try:
            return wait(left)
        except Exception as error:
            if not is_supervised(str(error)):
                raise
            again = healed(str(error), math.inf if timeout is None else began + timeout)
            if again is False:
                raise
        if timeout is not None:
            left = timeout - (time.monotonic() - began)
            if left <= 0:
                return False


def _label(query: StreamingQuery) -> str:
    return query.name or query.id
