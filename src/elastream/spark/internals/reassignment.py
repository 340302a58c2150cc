"""Tasks of a running batch that wait for an executor that is gone, given other places.

``reassign.java`` does it in the driver's JVM, under the scheduler's own lock, and says why and how.
"""

from __future__ import annotations

import logging

from elastream.model.words import printable
from elastream.spark.internals.java_text import compiled
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.internals.spark_internals import SparkInternals

_log = logging.getLogger(__name__)


def reassign_from(internals: SparkInternals, executor: str) -> int:
    """Give other places to the tasks that wait for this executor; return their number.

    Where this Spark has another scheduler, they wait as Spark lets them: 0.
    """
    from py4j.protocol import Py4JError

    references = [internals.context.taskScheduler(), internals.context.dagScheduler()]
    try:
        return int(compiled(internals, "reassign.java", references).apply(executor))
    except Py4JError as error:
        why = printable(first_line(error))
        _log.warning("tasks wait for executor %s though it is gone: %s", executor, why)
        return 0
