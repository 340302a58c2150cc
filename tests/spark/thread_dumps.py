"""What the threads of a session's JVMs do: for tests that wait in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IN_VAIN", "thread_dump", "threads"]

IN_VAIN = ("waited in vain", "no batch for a long time", "from pytest-timeout")
"""What the failures of such tests say."""


def threads(spark: SparkSession, executor: str) -> list[Any]:
    """Return what Spark shows of each thread of an executor, or of the driver."""
    found: Any = spark.sparkContext._jsc.sc().getExecutorThreadDump(executor)
    return list(found.get()) if found.isDefined() else []


def thread_dump(spark: SparkSession) -> str:
    """Return the stacks of all threads of the driver and its executors."""
    parts = []
    for executor in _executors(spark):
        try:
            stacks = [str(thread.toString()) for thread in threads(spark, executor)]
        except Exception as error:  # it may be what the test waited for
            stacks = [f"no answer: {error}"]
        parts += [f"--- executor {executor}", *stacks]
    return "\n".join(parts)


def _executors(spark: SparkSession) -> list[str]:
    found: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    return [str(found.apply(i).id()) for i in range(found.size())]
