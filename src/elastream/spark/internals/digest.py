"""Spark's events without a jar and without a call into Python: a digest in the driver's JVM.

``digest.java`` beside this file is a listener, compiled by Spark's own compiler. What it hears
waits in the JVM until Python asks: one call waits for queries to tell something, one fetches what
all tasks did. Both answer with one short text, whose lines
:mod:`elastream.spark.observe.event_tap` reads.

It sits in one queue of Spark's bus, which keeps the order: what happened before a query's report is
in the digest before the report is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.java_text import compiled

if TYPE_CHECKING:
    from elastream.spark.internals.spark_internals import SparkInternals


_STREAMS_QUEUE: Final = "streams"


class Digest:
    """Hears from the moment it is made until :meth:`close`."""

    def __init__(self, internals: SparkInternals, properties: Sequence[str], most: int) -> None:
        """Tell these local properties of jobs, and keep no more than ``most`` of anything."""
        from py4j.protocol import Py4JError

        told = "\n".join(properties)
        references = [internals.queries.running, internals.running_jobs, told, most]
        try:
            self._listener = compiled(internals, "digest.java", references)
        except Py4JError as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            raise UnsupportedSparkError(
                f"this Spark does not compile what hears its events: {first}"
            ) from error
        self._bus: Any = internals.listener_bus()
        self._bus.addToQueue(self._listener, _STREAMS_QUEUE)

    def hear(self, timeout_s: float) -> str:
        """Return what there is to tell, but for work, once there is something or after so long."""
        return str(self._listener.hear(round(timeout_s * 1000)))

    def lost(self, timeout_s: float) -> bool:
        """Tell whether an executor was lost, as soon as one is, or after so long."""
        return bool(self._listener.lost(round(timeout_s * 1000)))

    def work(self, names: Sequence[str]) -> str:
        """Return the jobs and tasks since the last call, with the counters of these names."""
        return str(self._listener.work("\n".join(names)))

    def close(self) -> None:
        """Hear no more; whoever waits, returns."""
        self._listener.close()
        self._bus.removeListener(self._listener)
