"""A query that pauses, and goes on where its tasks are wanted: pause-and-resume, of the product.

Stop at a batch boundary, start the query again on its checkpoint (:mod:`.restarting`), and tell the
coordinator where its tasks shall be before the first batch is planned. What can be refused is
refused while the query still runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from elastream.core.clock import steady_s
from elastream.core.ports import Paused, Ticket
from elastream.model.errors import SparkError
from elastream.model.observation import TaskId
from elastream.spark.steer.graceful_stop import stop_gracefully
from elastream.spark.steer.restarting import QueryRestarter

__all__ = ["SparkPauser"]


class SparkPauser:
    """Moves the tasks of queries that a monitor watches by pause-and-resume."""

    def __init__(self, restarter: QueryRestarter) -> None:
        self._restarter = restarter

    def pause(self, query: str, places: Mapping[TaskId, str], *, ticket: Ticket) -> Paused:
        """Return when the query runs again; raise where it was not paused, and say why.

        A query whose last batch was cut, because it took too long, is started again like any
        other: Spark repeats that batch.
        """
        found = self._restarter.resumable(query)
        operators = found.watched.operators
        ticket.check()
        with self._restarter.stopping(query):
            began_ms, began = round(steady_s() * 1000), time.monotonic()
            try:
                stop_gracefully(found.running)
            except Exception as error:
                if found.running.isActive or not isinstance(error, SparkError):
                    self._restarter.start(found)
                    raise
            stopped = time.monotonic()
            self._restarter.start(found, operators, places)
            spent = {"stop": stopped - began, "start": time.monotonic() - stopped}
        return Paused(began_ms, spent)
