"""Spark's events without a jar and without a call into Python: a digest in the driver's JVM.

``digest.java`` is a listener. What it receives waits in the JVM until Python polls: one call waits
for queries, one fetches what all tasks did. Both answer with one short text, whose lines
:mod:`elastream.spark.observe.event_tap` reads.

It is in one queue of Spark's bus, which keeps the order: what happened before a query's report is
in the digest before the report is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.java_text import compiled
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.internals.spark_internals import SparkInternals

_STREAMS_QUEUE: Final = "streams"


class Digest:
    """Listens from the moment it is made until :meth:`close`."""

    def __init__(self, internals: SparkInternals, properties: Sequence[str], most: int) -> None:
        """Report these local properties of jobs, and keep at most ``most`` of anything."""
        from py4j.protocol import Py4JError

        names = "\n".join(properties)
        references = [internals.queries.running, internals.running_jobs, names, most]
        try:
            self._listener = compiled(internals, "digest.java", references)
        except Py4JError as error:
            why = f"this Spark does not compile the listener of its events: {first_line(error)}"
            raise UnsupportedSparkError(why) from error
        self._bus: Any = internals.listener_bus()
        self._bus.addToQueue(self._listener, _STREAMS_QUEUE)

    def hear(self, timeout_s: float) -> str:
        """Return what there is but for work, once there is something or at the timeout."""
        return str(self._listener.hear(round(timeout_s * 1000)))

    def lost(self, timeout_s: float) -> bool:
        """Return whether an executor was lost, as soon as one is, or at the timeout."""
        return bool(self._listener.lost(round(timeout_s * 1000)))

    def work(self, names: Sequence[str]) -> str:
        """Return the jobs and tasks since the last call, with the counters of these names."""
        return str(self._listener.work("\n".join(names)))

    def close(self) -> None:
        """Stop listening; calls that wait return."""
        self._listener.close()
        self._bus.removeListener(self._listener)
