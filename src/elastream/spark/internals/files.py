"""Small files on whatever file system Spark reaches, by the driver and on one executor.

The public ways to read and write let Spark choose the executor; here the reader and the writer are
named, so that what one wrote another can be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals


@contextmanager
def throw_away(internals: SparkInternals, parent: str, name: str) -> Iterator[str]:
    """Give a new folder; it goes with all in it, and so do folders above it that were not there."""
    folder = internals.jvm.org.apache.hadoop.fs.Path(parent, name)
    system = folder.getFileSystem(internals.context.hadoopConfiguration())
    folder = system.makeQualified(folder)
    above, made = folder.getParent(), []
    while above is not None and not system.exists(above):
        made.append(above)
        above = above.getParent()
    try:
        system.mkdirs(folder)
        yield str(folder.toString())
    finally:
        system.delete(folder, True)
        for each in made:
            if system.exists(each) and not len(system.listStatus(each)):
                system.delete(each, False)


def driver_writes(internals: SparkInternals, path: str, line: str) -> None:
    """Write a file of one line."""
    system, file = _found(internals, path)
    stream = system.create(file, True)
    stream.writeBytes(f"{line}\n")
    stream.close()


def driver_reads(internals: SparkInternals, path: str) -> list[str]:
    """Return the first line of each file whose path fits a pattern."""
    system, pattern = _found(internals, path)
    lines = []
    for status in system.globStatus(pattern) or ():
        stream = system.open(status.getPath())
        lines.append(str(stream.readLine()))
        stream.close()
    return lines


def executor_reads(internals: SparkInternals, executor: ExecutorEntry, path: str) -> list[str]:
    """Return the line of a file of one line, read on this executor."""
    jvm, placed = internals.jvm, internals.java_list()
    placed.add(jvm.scala.Tuple2("", internals.preferring(executor)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.String"))
    there = internals.context.makeRDD(jvm.PythonUtils.toSeq(placed), tag)
    pairs = there.zip(internals.context.textFile(path, 1), tag).collect()
    return [str(pair._2()) for pair in pairs]


def executor_writes(
    internals: SparkInternals, executor: ExecutorEntry, folder: str, line: str
) -> None:
    """Write a new folder with a file of one line, on this executor."""
    rows = internals.rows_on(executor, internals.own_session(), 1)
    rows.selectExpr(f"'{line}' AS value").write.text(folder)


def _found(internals: SparkInternals, path: str) -> tuple[Any, Any]:
    file = internals.jvm.org.apache.hadoop.fs.Path(path)
    return file.getFileSystem(internals.context.hadoopConfiguration()), file
