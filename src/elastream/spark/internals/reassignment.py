"""Tasks of a running batch that wait for an executor that is gone, given other places.

The work is done by ``reassign.java`` beside this file, in the driver's JVM, under the scheduler's
own lock. Its text says why and how.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from elastream.model.words import printable
from elastream.spark.internals.java_text import compiled

if TYPE_CHECKING:
    from elastream.spark.internals.spark_internals import SparkInternals


_log = logging.getLogger(__name__)


class Reassignment:
    """Asks anew where tasks should be that wait for a lost executor."""

    def __init__(self, internals: SparkInternals) -> None:
        self._internals = internals
        self._compiled: Any = None

    def away_from(self, executor: str) -> int:
        """Give other places to the tasks that wait for this executor; return how many they were.

        Where this Spark has another scheduler, they wait as Spark lets them: 0.
        """
        from py4j.protocol import Py4JError

        try:
            if self._compiled is None:
                self._compiled = self._compile()
            return int(self._compiled.apply(executor))
        except Py4JError as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            _log.warning(
                "tasks wait for executor %s though it is gone: %s", executor, printable(first)
            )
            return 0

    def _compile(self) -> Any:
        context = self._internals.context
        references = [context.taskScheduler(), context.dagScheduler()]
        return compiled(self._internals, "reassign.java", references)
