"""A query told to end with the batch that runs, in a moment when that cuts nothing.

The work is done by ``ending.java`` beside this file, in the driver's JVM, under the query's own
lock. Its text says why and how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastream.model.errors import UnsupportedSparkError
from elastream.spark.internals.java_text import compiled

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.internals.spark_internals import SparkInternals


class Ending:
    """The end of one query, at a batch boundary."""

    def __init__(self, internals: SparkInternals, query: StreamingQuery) -> None:
        from py4j.protocol import Py4JError

        execution = query._jsq.streamingQuery()
        try:
            state = internals.jvm.java.lang.Class.forName(internals.variant.terminated)
            references = [
                execution.queryExecutionThread(),
                execution.awaitProgressLock(),
                execution.state(),
                state.getField("MODULE$").get(None),
            ]
            self._compiled: Any = compiled(internals, "ending.java", references)
        except Py4JError as error:
            raise UnsupportedSparkError(
                "this Spark version has no door to stop a query at a batch boundary"
            ) from error
        self._logs = (execution.offsetLog(), execution.commitLog())

    def tell(self) -> bool:
        """Tell the query to begin no other batch; ``False`` where this is not the moment for it."""
        return bool(self._compiled.get())

    def came(self) -> bool:
        """Tell whether the query's thread has ended, or only sleeps between two batches."""
        return bool(self._compiled.getAsBoolean())

    def is_cut(self) -> bool:
        """Tell whether a batch was begun that has not committed."""
        begun, done = (log.getLatestBatchId() for log in self._logs)
        return not begun.isEmpty() and (done.isEmpty() or done.get() < begun.get())
