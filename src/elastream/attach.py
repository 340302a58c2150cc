"""``attach``: a running Structured Streaming query becomes elastic in three lines.

The one place outside the command line that joins the loop of :mod:`elastream.control` to the ports
that :mod:`elastream.spark` plays. Nothing is decided here.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from elastream.control.decisions import Decision, log_writer
from elastream.control.driver import Controller
from elastream.control.policy import Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.executors import ExecutorPool
    from elastream.spark.monitor import Monitor
    from elastream.spark.placement import StatePlacement

__all__ = ["Attachment", "Detachable", "attach"]

_log = logging.getLogger(__name__)


class Detachable(ABC):
    """What is beside a running query, and can be taken away."""

    @abstractmethod
    def detach(self) -> None:
        """End it and leave the query running as it is. Harmless if repeated."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()


class Attachment(Detachable):
    """A query with its loop. Leaving the ``with`` block detaches; the query runs on."""

    def __init__(
        self,
        controller: Controller,
        monitor: Monitor,
        placement: StatePlacement,
        pool: ExecutorPool,
    ) -> None:
        self.controller = controller
        """The loop: ``scale_to``, ``move``, ``abandon``, ``state``."""
        self.monitor = monitor
        """What the query does, batch by batch: ``subscribe``."""
        self.placement = placement
        """Where its state lives: ``where``."""
        self.pool = pool
        """Its executors: ``executors``, ``warm``."""

    def detach(self) -> None:
        """End the loop and leave the query running as it is. Harmless if repeated."""
        self.controller.detach()
        self.monitor.close()


def attach(
    query: StreamingQuery,
    policy: Policy,
    *,
    log: Path | str | Callable[[Decision], None] | None = None,
    backlog: Callable[[Mapping[str, Any]], int | None] | None = None,
    warm_up_stream: Callable[[SparkSession], DataFrame] | None = None,
) -> Attachment:
    """Make a running query elastic within the bounds of ``policy``.

    ``log`` takes every decision: a file of JSON lines (``elastream log FILE`` reads it), or a
    function. ``backlog`` tells from a progress report how many rows wait in the source, where the
    source is not Kafka. ``warm_up_stream`` makes the throw-away stream that warms new executors;
    one of the query's own shape, with its own kind of source, warms best.

    Raises :class:`~elastream.model.errors.ElastreamError`, with one line that says what to do,
    where the session, its settings or the query do not allow it. The query is not touched then.
    Settings that would only make moves cheaper are advised in a warning to the log of Python.
    """
    from elastream.spark.executors import ExecutorPool
    from elastream.spark.monitor import Monitor
    from elastream.spark.placement import StatePlacement
    from elastream.spark.private_door import PrivateDoor
    from elastream.spark.query_session import session_of
    from elastream.spark.settings import advised, wrong_settings
    from elastream.spark.warm_up import aggregation_stream

    door = PrivateDoor.of(session_of(query))
    for setting in advised(wrong_settings(door.spark)):
        _log.warning("%s", setting)
    monitor = Monitor(door, query, backlog=backlog)
    try:
        placement = StatePlacement(door, query, monitor)
        stream = warm_up_stream or aggregation_stream
        pool = ExecutorPool(door, placement, monitor, stream=stream)
        controller = Controller(
            monitor, pool, placement, policy, log_writer(log), query=str(query.runId)
        )
        controller.start()
    except BaseException:
        monitor.close()
        raise
    attachment = Attachment(controller, monitor, placement, pool)
    ending = (attachment, query)
    threading.Thread(
        target=_detach_at_the_end, args=ending, name="elastream-end", daemon=True
    ).start()
    return attachment


def _detach_at_the_end(attachment: Attachment, query: StreamingQuery) -> None:
    attachment.monitor.ended.wait()
    if not query.isActive:
        attachment.controller.detach("the query has ended")
    attachment.detach()
