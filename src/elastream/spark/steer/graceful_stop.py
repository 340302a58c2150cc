"""Stopping a query at a batch boundary.

``StreamingQuery.stop()`` interrupts the batch that runs: its offsets are written, its commit is
not, and whatever looks at the checkpoint next finds a batch that was cut. Spark's loop looks after
every batch whether the query is still active. Here it is told that it is not, without the
interrupt: the running batch finishes and commits, and no other begins.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import SparkError, UnsupportedSparkError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["stop_gracefully"]

_TERMINATED: Final = "org.apache.spark.sql.execution.streaming.runtime.TERMINATED$"


def stop_gracefully(query: StreamingQuery, *, timeout_s: float = 120.0) -> None:
    """Let the running batch finish, begin no other, and stop the query.

    Raises ``SparkError`` where the batch takes longer than ``timeout_s``; the query is stopped
    then too, with its batch cut.
    """
    execution = query._jsq.streamingQuery()
    execution.state().set(_terminated())
    deadline = time.monotonic() + timeout_s
    while query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.02)
    cut = query.status["isTriggerActive"]
    query.stop()
    if cut:
        raise SparkError(f"the batch did not finish within {timeout_s:g} s and was cut")


def _terminated() -> Any:
    """Return the JVM's constant for a query that shall not go on."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    try:
        jvm: Any = SparkContext._jvm
        found = jvm.java.lang.Class.forName(_TERMINATED)
        return found.getField("MODULE$").get(None)
    except (AttributeError, Py4JError) as error:
        raise UnsupportedSparkError(
            "this Spark version has no door to stop a query at a batch boundary"
        ) from error
