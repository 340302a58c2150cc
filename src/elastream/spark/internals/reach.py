"""Whether a folder is the same one for the driver and for every executor.

State moves through the checkpoint: what one executor writes another must find. A path of a local
disk exists on every machine, and is another folder on each: nothing fails there before state
moves. So each side reads what the other wrote. Spark's public ways to read and write choose the
executor themselves; here it is named.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from elastream.model.errors import SparkError
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.own_work import marked


def check_reach(internals: SparkInternals, executors: Sequence[ExecutorEntry], folder: str) -> None:
    """Refuse a folder that one of the executors cannot read, or in which it cannot write.

    What was written for it is removed, the folder too where it was not there before.
    """
    token = uuid.uuid4().hex
    with (
        marked(internals.spark),
        _refusing(f"the driver cannot write to {folder}"),
        throw_away(internals, folder, f"elastream-reach-{token}") as own,
    ):
        system, file = _file_system(internals, f"{own}/driver")
        stream = system.create(file, True)
        stream.writeBytes(f"{token}\n")
        stream.close()
        for executor in executors:
            _check_executor(internals, executor, own, token)


def _check_executor(
    internals: SparkInternals, executor: ExecutorEntry, own: str, token: str
) -> None:
    who, file = f"executor {executor.id} on {executor.host}", f"{own}/driver"
    with _refusing(f"{who} cannot read what the driver wrote to {file}"):
        seen = _read_there(internals, executor, file)
    if seen != [token]:
        raise SparkError(f"{who} reads something else than the driver wrote to {file}")
    written = f"{own}/executor-{executor.id}"
    with _refusing(f"{who} cannot write to {written}"):
        rows = internals.rows_on(executor, internals.own_session(), 1)
        rows.selectExpr(f"'{token}' AS value").write.text(written)
    if _read_here(internals, f"{written}/part-*") != [token]:
        raise SparkError(f"the driver does not see what {who} wrote to {written}")


@contextmanager
def throw_away(internals: SparkInternals, parent: str, name: str) -> Iterator[str]:
    """Give a new folder; it goes with all in it, and so do folders above it that were not there."""
    system, above = _file_system(internals, parent)
    folder = system.makeQualified(internals.jvm.org.apache.hadoop.fs.Path(above, name))
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


def _file_system(internals: SparkInternals, path: str) -> tuple[Any, Any]:
    file = internals.jvm.org.apache.hadoop.fs.Path(path)
    return file.getFileSystem(internals.context.hadoopConfiguration()), file


def _read_here(internals: SparkInternals, path: str) -> list[str]:
    """Return the first line of each file whose path fits a pattern."""
    system, pattern = _file_system(internals, path)
    lines = []
    for status in system.globStatus(pattern) or ():
        stream = system.open(status.getPath())
        lines.append(str(stream.readLine()))
        stream.close()
    return lines


def _read_there(internals: SparkInternals, executor: ExecutorEntry, path: str) -> list[str]:
    """Return the line of a file of one line, read on this executor."""
    tag = internals.class_tag("java.lang.String")
    placed = internals.jvm.scala.Tuple2("", internals.preferring(executor))
    there = internals.context.makeRDD(internals.seq([placed]), tag)
    pairs = there.zip(internals.context.textFile(path, 1), tag).collect()
    return [str(pair._2()) for pair in pairs]


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise SparkError(f"{what}: {first_reason(error)}") from error


def first_reason(error: BaseException) -> str:
    """Return in one line what Java says is at the root of an error."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None or not hasattr(cause, "getCause"):
        return _line(str(error))
    while cause.getCause() is not None:
        cause = cause.getCause()
    kind = str(cause.getClass().getSimpleName())
    return f"{kind}: {_line(str(cause.getMessage()))}"


def _line(text: str) -> str:
    """Return the first line, of a failed task the one that says why."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()] or ["no reason"]
    return lines[0].rpartition("): ")[2] if "most recent failure" in lines[0] else lines[0]
