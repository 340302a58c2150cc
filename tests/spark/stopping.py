"""A query that is stopped and started again, as a repartitioning does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from elastream.model.observation import TaskId
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.steer.restarting import QueryRestarter

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["stop_and_start"]


def stop_and_start(
    restarter: QueryRestarter,
    query: str = "counting",
    *,
    places: Mapping[TaskId, str] | None = None,
    stop: Callable[[StreamingQuery], object] = stop_gracefully,
) -> None:
    found = restarter.resumable(query)
    operators = found.watched.operators
    with restarter.stopping(query):
        stop(found.running)
        restarter.start(found, operators, places)
