"""The queries that a caller gives, checked, and their session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from elastream.model.checks import abbreviate
from elastream.model.errors import QueryRefusedError, UnsupportedSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def named(query: StreamingQuery) -> str:
    """Return the query as messages call it."""
    return f"the query {query.name or query.id}"


def is_session(target: object) -> bool:
    """Return whether the target is a session, of any kind."""
    return hasattr(target, "readStream") and hasattr(target, "streams")


def queries_of(target: Any) -> list[StreamingQuery]:
    """Return the queries; refuse what is none, has stopped, or is given twice."""
    queries = list(target) if isinstance(target, Sequence) else [target]
    if not queries:
        raise QueryRefusedError("there is no query; give those that run, or the session")
    for number, query in enumerate(queries):
        if not hasattr(query, "runId"):
            why = "is neither a streaming query nor a session"
            raise QueryRefusedError(f"{abbreviate(query)} {why}")
        if not hasattr(query, "_jsq"):
            raise UnsupportedSparkError(
                "the query is of a Spark Connect client, which cannot reach the driver that "
                "places state: run elastream in the driver's own process, with a classic session"
            )
        if not query.isActive:
            raise QueryRefusedError(f"{named(query)} is not running")
        if any(query.id == other.id for other in queries[:number]):
            raise QueryRefusedError(f"{named(query)} is given twice")
    return queries


def session_of(query: StreamingQuery) -> SparkSession:
    """Return the session that the query was started in."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is None:
        raise QueryRefusedError(f"{named(query)} belongs to no running Spark context")
    return SparkSession(context, query._jsq.sparkSession())
