"""A source and a sink for Real-time Mode that need nothing but PySpark, on an embedded cluster.

Spark's own sources for Real-time Mode are Kafka and one in memory for its unit tests, and its sinks
that say when a row came out are Kafka and functions of the user's. Here the source is a folder of
files whose lines are due at a time, and the sink a folder of files whose lines say when each row
came. Both are ``timed_lines.java``. They serve micro-batches too, and a query started again goes
on where it was::

    source = TimedLines(folder, partitions=2)
    counts = read(spark, folder).groupBy("value").agg(f.count("*"), f.max("timestamp"))
    query = write(counts, out).outputMode("update").trigger(realTime="10 seconds").start()
    source.add("word", time.time() * 1000)
    rows = TimedRows(out).more()

Real-time Mode needs Spark 4.3, and the session ``session_settings(realtime=True)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.spark.internals.java_classes import java_classes
from elastream.spark.internals.jvm_values import java_array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_TEXT: Final = "timed_lines.java"


class TimedLines:
    """The source's files, one a partition, to which lines are written."""

    def __init__(self, folder: Path, *, partitions: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = [(folder / str(number)).open("ab") for number in range(partitions)]
        self.lines = 0
        """How many were written; they go to the partitions in turn."""

    def add(self, value: str, due_ms: float) -> None:
        """Write a line that is read at a moment, in ms since the epoch: now, or one to come.

        It must not be due before the one that its partition got last.
        """
        file = self._files[self.lines % len(self._files)]
        file.write(f"{due_ms:.0f} {value}\n".encode())
        file.flush()
        self.lines += 1

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the stream of the lines: ``value``, and ``timestamp``, when it was due."""
    loader = java_classes(spark, "elastream.demo", _TEXT)
    jvm: Any = spark.sparkContext._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)  # where Spark looks for the class of a format
    try:
        return spark.readStream.format("elastream.TimedLines").load(str(folder))
    finally:
        thread.setContextClassLoader(before)


def write(frame: DataFrame, folder: Path, *, work_us: float = 0.0) -> DataStreamWriter:
    """Return a writer that writes each row when it comes, to be read by :class:`TimedRows`.

    Before that, each row takes ``work_us`` of CPU time in the task that has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    gateway: Any = frame.sparkSession.sparkContext._gateway
    loader = java_classes(frame.sparkSession, "elastream.demo", _TEXT)
    sink = loader.loadClass("elastream.TimedRows").getConstructors()[0]
    writer = frame.writeStream
    arguments = java_array(
        gateway, gateway.jvm.java.lang.Object, [str(folder), round(1000 * work_us)]
    )
    writer._jwrite.foreach(sink.newInstance(arguments))
    return writer


@dataclass(frozen=True, slots=True)
class TimedRow:
    """A row that came to the sink."""

    at_ms: int
    """When, in ms since the epoch."""
    batch: int
    partition: int
    values: tuple[str, ...]
    """As text; a time is in ms since the epoch."""


class TimedRows:
    """The sink's files, read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._positions: dict[str, int] = {}

    def more(self) -> list[TimedRow]:
        """Return the rows that came since the last call, in the order of their time."""
        rows = []
        for path in self._folder.iterdir():
            begin = self._positions.get(path.name, 0)
            with path.open("rb") as file:
                file.seek(begin)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._positions[path.name] = begin + len(whole)
            rows += [_row(line) for line in whole.decode().splitlines()]
        return sorted(rows, key=lambda row: row.at_ms)


def _row(line: str) -> TimedRow:
    at_ms, batch, partition, *values = line.split("\t")
    return TimedRow(int(at_ms), int(batch), int(partition), tuple(values))
