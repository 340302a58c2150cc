"""The listener that Spark registers for the session of every query, and never takes back.

A ``StreamExecution`` clones a session for itself. As soon as the clone is asked for its queries, as
any stateful batch does, a bus of its own listens to the application's events, and keeps the clone
in memory, for as long as the application lives. Nobody can have registered anything there: the
clone is known to nobody but the query. Once a query of ours has ended, its bus is taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.internals.spark_internals import SparkInternals


_BUS: Final = "listenerBus"


def forget_session_of(internals: SparkInternals, query: StreamingQuery) -> None:
    """Take the listener of an ended query's own session off the bus."""
    from py4j.protocol import Py4JError

    try:
        manager: Any = query._jsq.streamingQuery().sparkSessionForStream().streams()
        field = manager.getClass().getDeclaredField(_BUS)
        field.setAccessible(True)
        internals.listener_bus().removeListener(field.get(manager))
    except Py4JError:  # a Spark that keeps it elsewhere: then it stays, as with any query
        return
