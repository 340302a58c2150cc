"""Stopping a query at a batch boundary.

``StreamingQuery.stop()`` interrupts the batch that runs, and whatever looks at the checkpoint next
finds a batch that was cut. Spark's loop looks after every batch whether the query is still active.
Here that state is set without the interrupt: the running batch commits, and no other begins.
``ending.java`` does it under the query's own lock, and says why and how.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import SparkError, UnsupportedSparkError
from elastream.spark.internals.java_text import compiled
from elastream.spark.internals.query_session import session_of
from elastream.spark.internals.spark_internals import SparkInternals

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_POLL_S: Final = 0.005


def stop_gracefully(query: StreamingQuery, *, timeout_s: float = 120.0) -> None:
    """Let the running batch finish, begin no other, and stop the query.

    Raises ``SparkError`` where the batch takes longer than ``timeout_s``; the query is stopped
    then too, with its batch cut.
    """
    if not query.isActive:
        return
    execution = query._jsq.streamingQuery()
    ending = _ending(SparkInternals.of(session_of(query)), execution)
    deadline = time.monotonic() + timeout_s
    # first it is set to begin no other batch, in a moment when that cuts nothing; then its thread
    # ends, or only sleeps between two batches
    in_time = _until(ending.get, deadline) and _until(ending.getAsBoolean, deadline)
    query.stop()
    begun, done = (log.getLatestBatchId() for log in (execution.offsetLog(), execution.commitLog()))
    is_cut = not begun.isEmpty() and (done.isEmpty() or done.get() < begun.get())
    if is_cut and query.exception() is None:
        why = "a batch" if in_time else f"the batch did not finish within {timeout_s:g} s and"
        raise SparkError(f"{why} was cut")


def _ending(internals: SparkInternals, execution: Any) -> Any:
    from py4j.protocol import Py4JError

    try:
        state = internals.jvm.java.lang.Class.forName(internals.variant.terminated)
        references = [
            execution.queryExecutionThread(),
            execution.awaitProgressLock(),
            execution.state(),
            state.getField("MODULE$").get(None),
        ]
        return compiled(internals, "ending.java", references)
    except Py4JError as error:
        why = "this Spark version cannot stop a query at a batch boundary"
        raise UnsupportedSparkError(why) from error


def _until(done: Callable[[], Any], deadline: float) -> bool:
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
