"""Whether a folder is the same one for the driver and for every executor.

State moves through the checkpoint: what one executor writes another must find. A path of a local
disk exists on every machine, and is another folder on each: nothing fails there before state
moves. So each side reads what the other wrote.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from elastream.model.errors import SparkError
from elastream.spark.internals.files import (
    driver_reads,
    driver_writes,
    executor_reads,
    executor_writes,
    throw_away,
)
from elastream.spark.internals.spark_internals import ExecutorEntry, SparkInternals
from elastream.spark.observe.own_work import marked


def check_reach(internals: SparkInternals, executors: Sequence[ExecutorEntry], folder: str) -> None:
    """Refuse a folder that one of the executors cannot read, or in which it cannot write.

    What was written for it is removed, the folder too where it was not there before.
    """
    token = uuid.uuid4().hex
    with marked(internals.spark), _refusing(f"the driver cannot write to {folder}"):
        scratch = throw_away(internals, folder, f"elastream-reach-{token}")
        with scratch as own:
            driver_writes(internals, f"{own}/driver", token)
            for executor in executors:
                _check_executor(internals, executor, own, token)


def _check_executor(
    internals: SparkInternals, executor: ExecutorEntry, own: str, token: str
) -> None:
    who, file = f"executor {executor.id} on {executor.host}", f"{own}/driver"
    with _refusing(f"{who} cannot read what the driver wrote to {file}"):
        seen = executor_reads(internals, executor, file)
    if seen != [token]:
        raise SparkError(f"{who} reads something else than the driver wrote to {file}")
    written = f"{own}/executor-{executor.id}"
    with _refusing(f"{who} cannot write to {written}"):
        executor_writes(internals, executor, written, token)
    if driver_reads(internals, f"{written}/part-*") != [token]:
        raise SparkError(f"the driver does not see what {who} wrote to {written}")


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
