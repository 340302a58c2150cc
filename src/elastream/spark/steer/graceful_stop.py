"""Stopping a query at a batch boundary.

``StreamingQuery.stop()`` interrupts the batch that runs: its offsets are written, its commit is
not, and whatever looks at the checkpoint next finds a batch that was cut. Spark's loop looks after
every batch whether the query is still active. Here it is told that it is not, without the
interrupt: the running batch finishes and commits, and no other begins.

It must not be told so while it plans a batch, which would interrupt itself; when it may be is for
:mod:`~elastream.spark.internals.ending` to know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from elastream.model.errors import SparkError
from elastream.spark.internals.ending import Ending
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.query_session import session_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_LOOK_S: Final = 0.005


def stop_gracefully(query: StreamingQuery, *, timeout_s: float = 120.0) -> None:
    """Let the running batch finish, begin no other, and stop the query.

    Raises ``SparkError`` where the batch takes longer than ``timeout_s``; the query is stopped
    then too, with its batch cut.
    """
    if not query.isActive:
        return
    ending = Ending(SparkInternals.of(session_of(query)), query)
    deadline = time.monotonic() + timeout_s
    in_time = _until(ending.tell, deadline) and _until(ending.came, deadline)
    query.stop()
    if query.exception() is None and ending.is_cut():
        why = "a batch" if in_time else f"the batch did not finish within {timeout_s:g} s and"
        raise SparkError(f"{why} was cut")


def _until(done: Callable[[], bool], deadline: float) -> bool:
    """Look until it is done; ``False`` at the deadline."""
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
