"""Spark's own offline repartitioning of state: since 4.2, and not published yet.

It adds a batch to the checkpoint that reads no rows: its offsets name the new number of partitions,
its state is that of the batch before, with each row in the partition that the new number gives its
key. The offset log is written first and the commit last: a repartitioning that was cut in between
must be requested again, with the same number, before Spark starts the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import SparkError, UnsupportedSparkError
from elastream.spark.internals.jvm_values import first_line
from elastream.spark.internals.queries import RunningQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MANAGER: Final = "_streamingCheckpointManager"
_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_TEMPORARY: Final = re.compile(r"temporary-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def expect_repartitioning() -> None:
    """Refuse a Spark that cannot change the number of partitions; needs no session."""
    import pyspark
    from pyspark.sql import SparkSession

    if not hasattr(SparkSession, _MANAGER):
        raise UnsupportedSparkError(
            f"the number of partitions can be changed on Spark 4.2 and later; this is "
            f"{pyspark.__version__}"
        )


def repartition_state(
    spark: SparkSession, location: str, partitions: int, *, format_version: int
) -> None:
    """Let Spark repartition a stopped query's state; returns when it is done.

    ``format_version``: of the checkpoint's commits. Spark writes in the session's, and says only
    after it has begun that they differ.
    """
    with _errors_in_a_line():
        spark.conf.set(_FORMAT, str(format_version))
        getattr(spark, _MANAGER).repartition(location, partitions)


def key_columns(spark: SparkSession, location: str, operator: int) -> int:
    """Return how many columns the key of an operator's state has: none where it has no key."""
    with _errors_in_a_line():
        source = spark.read.format("statestore").option("operatorId", operator)
        key: Any = source.load(location).schema["key"].dataType
        return len(key.fields)


def checkpoint_location(query: RunningQuery) -> str:
    """Return where a query's checkpoint is, as Spark spells it."""
    return str(query.execution.resolvedCheckpointRoot())


def sink_refusal(query: RunningQuery) -> str | None:
    """Return why a query cannot go on after a repartitioning for its sink; ``None``: it can.

    The file sink's own log of batches would miss the one that repartitioned, and fail when it is
    next compacted.
    """
    match str(query.execution.sink().getClass().getSimpleName()):
        case "FileStreamSink":
            return "it writes to the file sink, whose log would miss a batch: Spark fails on that"
        case "MemorySink":
            return "it writes to a table in memory, which would begin anew"
        case _:
            return None


def is_temporary(location: str) -> bool:
    """Return whether Spark made the checkpoint, as none was given: it ends with the query."""
    return _TEMPORARY.fullmatch(location.rstrip("/").rpartition("/")[2]) is not None


@contextmanager
def _errors_in_a_line() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        raise SparkError(first_line(error.java_exception.toString())) from error
    except PySparkException as error:
        raise SparkError(first_line(error)) from error
