"""Windows of rows over a whole stream, as a ``transformWithState`` processor.

Spark's own windows are of time only. The processor numbers the rows of the stream in the order of
their time, keeps the last ``length - 1`` of them, and gives for every row the window of ``length``
rows that starts there, once it is complete. Which of these windows are those of the query, every
``slide``-th, is chosen afterwards: a target learns only from the boundary where they start. All
rows are in one group, so one partition does the work.

Rows that come in order go into the windows at once. Where they do not, or where they are results of
a join (pairs come in the order in which Spark's batches find them), each waits until Spark's
watermark says that none before it can come any more; so their numbers depend on the rows alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LATE", "NUMBER", "ORDERED", "STARTS_AT", "windows_of_rows"]

NUMBER: Final = "number"
"""Column: the number of the window's first row, counted from the first row read."""
STARTS_AT: Final = "starts_at_ms"
"""Column: the timestamp of that row."""
LATE: Final = -1
"""The number of what is no window: it tells of a row that came too late and was dropped."""
ORDERED: Final = ("at_ms", "first", "second", "value")
"""The columns of the rows to count, all whole numbers; they are ordered by all four."""


def windows_of_rows(rows: DataFrame, *, length: int, reach_ms: int | None = None) -> DataFrame:
    """Return a window for every row: its number, its first timestamp, and the sum of ``value``.

    ``rows`` has the columns :data:`ORDERED`. With ``reach_ms`` they wait for the watermark, which
    lags behind that of the sources by so much: a join's lags by the time that its pairs may be
    apart, since the watermark bounds the earlier row of a pair. Without, they must come in order.
    """
    import pandas as pd
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    columns = list(ORDERED)

    class RowWindows(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.head = handle.getValueState("head", "number BIGINT, reached_ms BIGINT")
            self.recent = handle.getListState("recent", "at_ms BIGINT, value BIGINT")
            described = ", ".join(f"{name} BIGINT" for name in columns)
            self.waiting = handle.getListState("waiting", described)

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,  # noqa: ARG002
            rows: Iterator[Any],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[Any]:
            read = pd.concat(list(rows))[columns].to_numpy().tolist()
            yield self.advanced(read, timerValues.getCurrentWatermarkInMs())

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,  # noqa: ARG002
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            yield self.advanced([], timerValues.getCurrentWatermarkInMs())

        def advanced(self, read: list[list[int]], watermark_ms: int) -> pd.DataFrame:
            number, reached_ms = self.head.get() or (0, 0)
            new = [tuple(row) for row in read if row[0] >= reached_ms]
            late = [row[0] for row in read if row[0] < reached_ms]
            ready = sorted([*(tuple(row) for row in self.waiting.get()), *new])
            if reach_ms is not None:
                reached_ms = max(reached_ms, watermark_ms + reach_ms)
                place = bisect_left(ready, (reached_ms,))
                ready, wait = ready[:place], ready[place:]
                self.replace(self.waiting, wait)
                if wait:  # SPARK-56566: a timer at the watermark itself is never heard of
                    self.handle.registerTimer(wait[0][0] - reach_ms + 1)
            elif ready:
                reached_ms = ready[-1][0]
            recent = [*(tuple(row) for row in self.recent.get())]
            recent += [(row[0], row[3]) for row in ready]
            complete = max(0, len(recent) - length + 1)
            self.replace(self.recent, recent[complete:])
            self.head.update((number + complete, reached_ms))
            return self.windows(number, recent, complete, late)

        def windows(
            self, number: int, recent: list[Any], complete: int, late: list[int]
        ) -> pd.DataFrame:
            totals = [
                sum(value for _, value in recent[start : start + length])
                for start in range(complete)
            ]
            made = {
                "number": [*range(number, number + complete), *(LATE for _ in late)],
                "starts_at_ms": [*(at for at, _ in recent[:complete]), *late],
                "total": [*totals, *(0 for _ in late)],
            }
            return pd.DataFrame(made).astype("int64")

        def replace(self, state: Any, rows: Sequence[Any]) -> None:
            if rows:
                state.put(list(rows))
            else:  # Spark refuses to put an empty list
                state.clear()

        def close(self) -> None:
            pass

    grouped = rows.select(f.lit(0).alias("group"), *columns).groupBy("group")
    schema = f"{NUMBER} BIGINT, {STARTS_AT} BIGINT, total BIGINT"
    mode = "None" if reach_ms is None else "EventTime"
    return grouped.transformWithStateInPandas(RowWindows(), schema, "Append", mode)
