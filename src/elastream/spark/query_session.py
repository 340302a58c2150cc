"""The session of a running query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from elastream.model.errors import QueryRefusedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["named", "session_of"]


def named(query: StreamingQuery) -> str:
    """Return the query as messages call it."""
    return f"the query {query.name or query.id}"


def session_of(query: StreamingQuery) -> SparkSession:
    """Return the session of this thread, which is the query's; refuse a query that has stopped."""
    from pyspark.sql import SparkSession

    if not query.isActive:
        raise QueryRefusedError(f"{named(query)} is not running")
    session = SparkSession.getActiveSession()
    if session is None:
        raise QueryRefusedError(
            "this thread has no Spark session; call elastream where the query was made"
        )
    return session
