"""A source for Real-time queries that needs nothing but Spark: rows kept in the driver's memory."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["LowLatencyRows"]

_SOURCES = "org.apache.spark.sql.execution.streaming.sources"
_PAUSE_S = 0.1


class LowLatencyRows:
    """Words that are added while queries read them; what was read stays, for a restart."""

    def __init__(self, spark: SparkSession, *, partitions: int = 2) -> None:
        from pyspark.sql import DataFrame

        jvm: Any = spark._jvm
        clock = jvm.org.apache.spark.sql.execution.datasources.v2.LowLatencyClock.getClock()
        text = jvm.org.apache.spark.sql.Encoders.STRING()
        make = getattr(jvm, f"{_SOURCES}.LowLatencyMemoryStream")
        self._stream = make(0, spark._jsparkSession, partitions, clock, text)
        self._to_seq = jvm.PythonUtils.toSeq
        self.frame: DataFrame = DataFrame(self._stream.toDF(), spark)
        self.added = 0

    def add(self, words: Sequence[str]) -> None:
        self._stream.addData(self._to_seq(list(words)))
        self.added += len(words)

    @contextlib.contextmanager
    def flowing(self, keys: int, rows: int = 2) -> Iterator[None]:
        """Add rows meanwhile, over and over."""
        ended = threading.Event()

        def add() -> None:
            while not ended.wait(_PAUSE_S):
                self.add([str((self.added + each) % keys) for each in range(rows)])

        thread = threading.Thread(target=add, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def rows_read(query: StreamingQuery) -> int:
    """Rows that the last batch that ended, and those before it, have read."""
    progress = query.lastProgress
    if progress is None:
        return 0
    (source,) = json.loads(progress.json)["sources"]
    return sum(source["endOffset"].values())
