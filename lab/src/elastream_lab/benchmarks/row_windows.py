"""What a row costs in a window of rows, next to Spark's own windows of time.

The same rows, groups and aggregates (count, sum, mean, greatest), in windows that hold the same
number of rows: each batch has one time and as many rows of every group, so that a window over so
many batches is also one over this many rows. Three ways: Spark's windowed aggregate as it is, the
same as a query that can be handed over, and windows of rows. Batches follow each other without a
pause; reported are what a row took on the clock and in CPU time of the whole application, which is
one process with two threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from elastream.handover.model import QueryShape, Window
from elastream.handover.spark.application_session import application_session
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.row_windows import RowWindows
from elastream.handover.spark.sinks import Sink, Writer
from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.benchmarks._row_costs import BATCHES, row_cost

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.group import GroupedData
    from pyspark.sql.streaming.query import StreamingQuery


ROWS_A_BATCH: Final = 20_000
PARTITIONS: Final = 4
_BATCH_MS: Final = 1000
"""How far the rows' time goes on with every batch."""


@dataclass(frozen=True, slots=True)
class Load:
    """Windows over this many batches, of this many groups."""

    groups: int
    batches: int
    every: int

    @property
    def rows(self) -> Window:
        """The windows, counted in rows of a group."""
        each = ROWS_A_BATCH // self.groups
        return Window.of("rows", self.batches * each, self.every * each)

    @property
    def time(self) -> Window:
        """The windows, counted in milliseconds."""
        return Window.of("time", self.batches * _BATCH_MS, self.every * _BATCH_MS)


LOADS: Final = (Load(100, 1, 1), Load(100, 4, 1), Load(5_000, 4, 1))


def run() -> None:
    """Print what a row costs in each way, under each load."""
    table = Table(
        title=f"{ROWS_A_BATCH:,} rows a batch, {BATCHES} batches, {PARTITIONS} partitions"
    )
    for name in ("groups", "rows of a window", "way"):
        table.add_column(name)
    for name in ("batch, median ms", "µs a row", "CPU µs a row"):
        table.add_column(name, justify="right")
    with application_session(master="local[2]", partitions=PARTITIONS) as spark:
        for load in LOADS:
            for way, started in _WAYS.items():
                report = row_cost(partial(started, spark, load), ROWS_A_BATCH).cells()
                window = f"{load.rows.length} every {load.rows.slide}"
                table.add_row(f"{load.groups:,}", window, way, *report)
                print(load.groups, window, way, *report, flush=True)
    console = Console(width=120)
    console.print(table)
    console.print(f"load of the last five minutes: {os.getloadavg()[1]:.1f}")


@contextmanager
def _own_windows(spark: SparkSession, load: Load, folder: Path) -> Iterator[StreamingQuery]:
    """Spark's windowed aggregate as anybody would write it."""
    rows = _rows(spark, load).withWatermark("at", "1 millisecond")
    writer = _in_time(rows, load).writeStream.format("noop").outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def _handed(query: WindowedQuery, spark: SparkSession, folder: Path) -> Iterator[StreamingQuery]:
    stream = OriginStream(query, _to_nowhere, folder)
    stream.start(spark, trigger_s=0)
    try:
        assert stream.streaming is not None
        yield stream.streaming
    finally:
        stream.stop()


def _time_windows(spark: SparkSession, load: Load, folder: Path) -> Any:
    shape = QueryShape("time", load.time, 1)
    query = WindowedQuery(
        shape, lambda s, _: (_rows(s, load),), lambda inputs: _in_time(inputs[0], load)
    )
    return _handed(query, spark, folder)


def _row_windows(spark: SparkSession, load: Load, folder: Path) -> Any:
    def of(windows: GroupedData) -> DataFrame:
        return windows.agg(*_aggregates())

    shape = QueryShape("rows", load.rows, 1)
    windows = RowWindows(of, by=("group",), order=("value",))
    query = WindowedQuery(
        shape, lambda s, _: (_rows(s, load),), lambda inputs: inputs[0], rows=windows
    )
    return _handed(query, spark, folder)


_WAYS: Final[dict[str, Callable[[SparkSession, Load, Path], Any]]] = {
    "Spark's windows of time": _own_windows,
    "… that can be handed over": _time_windows,
    "windows of rows": _row_windows,
}


def _rows(spark: SparkSession, load: Load) -> DataFrame:
    from pyspark.sql import functions as f

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH)
    timed = source.option("advanceMillisPerBatch", _BATCH_MS).option("startTimestamp", _BATCH_MS)
    group = (f.col("value") % load.groups).alias("group")
    return timed.load().select(f.col("timestamp").alias("at"), group, "value")


def _to_nowhere(_: Writer) -> Sink:
    def write(results: DataFrame, number: int) -> None:
        del number
        results.write.format("noop").mode("append").save()

    return write


def _in_time(rows: DataFrame, load: Load) -> DataFrame:
    from pyspark.sql import functions as f

    length, slide = (f"{each} milliseconds" for each in (load.time.length, load.time.slide))
    span = f.window("at", length, slide).alias("span")
    found = rows.groupBy(span, "group").agg(*_aggregates())
    return found.select(f.unix_millis("span.start").alias("coordinate"), *found.columns[1:])


def _aggregates() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.count(f.lit(1)).alias("rows"),
        f.sum("value").alias("total"),
        f.avg("value").alias("mean"),
        f.max("value").alias("greatest"),
    ]
