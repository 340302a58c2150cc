"""Windows of rows over a whole stream, as a ``transformWithState`` processor.

Spark's own windows are of time only. The processor numbers the rows of the stream in the order of
their time (rows of equal time by position), keeps the last ``length - 1`` of them, and gives for
every row the window of ``length`` rows that starts there, once it is complete. Which of these
windows are those of the query, every ``slide``-th, is chosen afterwards: a target learns only from
the boundary where they start. All rows are in one group, so one partition does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["NUMBER", "STARTS_AT", "windows_of_rows"]

NUMBER = "number"
"""Column: the number of the window's first row, counted from the first row read."""
STARTS_AT = "starts_at_ms"
"""Column: the timestamp of that row."""


def windows_of_rows(rows: DataFrame, *, length: int, value: str) -> DataFrame:
    """Return a window for every row: its number, its first timestamp, and the sum of ``value``.

    ``rows`` has the columns ``at`` and ``position``; rows of a batch are no older than those of
    the batches before.
    """
    import pandas as pd
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class RowWindows(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.first = handle.getValueState("first", "number BIGINT")
            self.recent = handle.getListState("recent", "at_ms BIGINT, value BIGINT")

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,  # noqa: ARG002
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            read = pd.concat(list(rows)).sort_values(["at_ms", "position"])
            recent = [(int(at), int(each)) for at, each in self.recent.get()]
            recent += [
                (int(at), int(each)) for at, each in zip(read["at_ms"], read["value"], strict=True)
            ]
            kept = self.first.get()
            first = 0 if kept is None else int(kept[0])
            complete = max(0, len(recent) - length + 1)
            starts = range(complete)
            made = pd.DataFrame(
                {
                    "number": [first + start for start in starts],
                    "starts_at_ms": [recent[start][0] for start in starts],
                    "total": [
                        sum(each for _, each in recent[start : start + length]) for start in starts
                    ],
                }
            )
            self.first.update((first + complete,))
            self.recent.put(recent[complete:])
            yield made.astype("int64")

        def close(self) -> None:
            pass

    narrow = rows.select(
        f.lit(0).alias("group"),
        "position",
        f.unix_millis("at").alias("at_ms"),
        f.col(value).cast("bigint").alias("value"),
    )
    schema = f"{NUMBER} BIGINT, {STARTS_AT} BIGINT, total BIGINT"
    return narrow.groupBy("group").transformWithStateInPandas(
        RowWindows(), schema, "Append", "None"
    )
