"""Which shapes run in Real-time Mode, and how soon a row's result comes: in the JVM, and in Python.

One executor, 50 rows a second for 20 seconds, batches of 5 seconds, one shape after another. The
latency of a result is from the moment at which its last row was due until it was written.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.errors import PySparkException
from rich.console import Console
from rich.table import Table

from elastream.demo.timed_lines import TimedLines, TimedRow, TimedRows, read, write
from elastream.spark.sessions.settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ROWS_PER_S, SECONDS, WORDS = 50, 20, 37
PATIENCE_S = 90.0
"""How long the first row may take, and all others."""
ALLOWLIST = "spark.sql.streaming.realTimeMode.allowlistCheck"


def run() -> None:
    """Print the table."""
    from elastream.spark.sessions.embedded_cluster import (
        EmbeddedCluster,
        embedded_session,
        scratch_folder,
    )

    table = Table(title=f"shapes in Real-time Mode, load {os.getloadavg()[0]:.0f}")
    for column in ("shape", "refused with", "rows", "counted", "median ms", "90 % ms"):
        table.add_column(column, justify="right")
    settings = {**session_settings(realtime=True), "spark.sql.shuffle.partitions": "2"}
    with embedded_session(EmbeddedCluster(executors=1, max_executors=1, config=settings)) as spark:
        for name, shape in SHAPES.items():
            row = _measured(spark, name, shape, scratch_folder(spark) / name)
            print(*row, flush=True)
            table.add_row(*row)
    Console(width=100).print(table)


def _measured(
    spark: SparkSession, name: str, shape: Callable[[DataFrame], DataFrame], folder: Path
) -> tuple[str, ...]:
    lines = TimedLines(folder / "in", partitions=1)
    (folder / "out").mkdir()
    rows = shape(read(spark, folder / "in"))
    lines.add("word0", 1000 * time.time())
    refused = "-"
    for allowlist in ("true", "false"):
        spark.conf.set(ALLOWLIST, allowlist)
        seen = TimedRows(folder / "out")
        try:
            query = _writer(name, rows, folder, allowlist).start()
            rows_out = _awaited(query, seen, bool)
            if (failure := query.exception()) is not None:
                raise failure
        except PySparkException as error:
            refused = _condition(error)
        else:
            break
    else:
        return name, refused, str(lines.lines), "", "", ""
    begin_ms = 1000 * (time.time() + 1)
    for number in range(ROWS_PER_S * SECONDS):
        lines.add(f"word{number % WORDS}", begin_ms + 1000 * number / ROWS_PER_S)
    lines.close()
    rows_out += _awaited(query, seen, lambda found: _counted(rows_out + found) == lines.lines)
    query.stop()
    dues_ms = ((row.at_ms, int(row.values[2])) for row in rows_out)
    late_ms = [at_ms - due_ms for at_ms, due_ms in dues_ms if due_ms >= begin_ms - 1]
    median, most = np.percentile(late_ms, [50, 90]) if late_ms else (np.nan, np.nan)
    counted = str(_counted(rows_out))
    return name, refused, str(lines.lines), counted, f"{median:.0f}", f"{most:.0f}"


def _writer(name: str, rows: DataFrame, folder: Path, run: str) -> DataStreamWriter:
    """Return the writer of a shape; the path of its rows is the same in all runs."""
    if name == "foreach in Python":
        writer = rows.writeStream.foreach(partial(_write_row, str(folder / "out" / "rows")))
    elif name == "foreachBatch":
        writer = rows.writeStream.foreachBatch(_count_batch)
    else:
        writer = write(rows, folder / "out")
    trigger: Mapping[str, Any] = {"realTime": "5 seconds"}
    writer = writer.outputMode("update").option("checkpointLocation", str(folder / run))
    return writer.trigger(**trigger)


def _count_batch(rows: DataFrame, _: int) -> None:
    rows.count()


def _condition(error: PySparkException) -> str:
    """Return the name of Spark's error: the last one, which is the cause."""
    named = re.findall(r"\[([A-Z_]+(?:\.[A-Z_]+)*)\]", str(error))
    return named[-1] if named else str(error).splitlines()[0][:60]


def _awaited(
    query: StreamingQuery, seen: TimedRows, reached: Callable[[list[TimedRow]], bool]
) -> list[TimedRow]:
    """Return the rows that came until it was reached, or for as long as it may take."""
    found = seen.more()
    deadline = time.monotonic() + PATIENCE_S
    while query.isActive and not reached(found) and time.monotonic() < deadline:
        time.sleep(0.2)
        found += seen.more()
    return found


def _counted(rows: list[TimedRow]) -> int:
    """Return the sum of the last counts of all words."""
    counts: Counter[str] = Counter()
    for row in rows:
        word, count, _ = row.values
        counts[word] = max(counts[word], int(count))
    return counts.total()


def _write_row(path: str, row: Any) -> None:
    with Path(path).open("a") as file:
        due_ms = 1000 * row.due.timestamp()
        file.write(f"{1000 * time.time():.0f}\t0\t0\t{row.value}\t{row.n}\t{due_ms:.0f}\n")


def _counts(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return lines.groupBy("value").agg(f.count("*").alias("n"), f.max("timestamp").alias("due"))


def _windows(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    window = f.window("timestamp", "10 seconds")
    counts = lines.withWatermark("timestamp", "10 seconds").groupBy(window, "value")
    counted = counts.agg(f.count("*").alias("n"), f.max("timestamp").alias("due"))
    return counted.select(f.concat_ws("@", "value", "window.start").alias("value"), "n", "due")


def _distinct_counts(lines: DataFrame) -> DataFrame:
    return _counts(lines.dropDuplicates(["value", "timestamp"]))


def _through_pandas(lines: DataFrame) -> DataFrame:
    from pyspark.sql.pandas.functions import PandasUDFType, pandas_udf

    same: Any = pandas_udf(lambda values: values, "string", PandasUDFType.SCALAR)
    return _counts(lines.select(same("value").alias("value"), "timestamp"))


def _through_python(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    same = f.udf(lambda value: value, "string")
    return _counts(lines.select(same("value").alias("value"), "timestamp"))


SHAPES: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "groupBy": _counts,
    "window and watermark": _windows,
    "dropDuplicates, groupBy": _distinct_counts,
    "Python UDF": _through_python,
    "pandas UDF": _through_pandas,
    "foreach in Python": _counts,
    "foreachBatch": _counts,
}
