"""The embedded cluster for a context that a program makes itself.

:func:`~elastream.spark.sessions.embedded_cluster.embedded` makes a session and hands it over. Here
the program makes its own, and finds the cluster in its settings and, for as long as the driver's
JVM starts, in the environment. What the driver writes goes where the program's own output goes, and
what the program sets itself holds, but for what would leave the cluster without executors.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.spark.internals.spark_internals import SparkInternals, keep_first_executors
from elastream.spark.sessions.class_archive import archive_file
from elastream.spark.sessions.embedded_cluster import (
    EmbeddedCluster,
    await_executors,
    environment_with,
    shut_down,
    spark_environment,
)
from elastream.spark.sessions.interrupts import interrupts_ignored
from elastream.spark.sessions.java import java_home
from elastream.spark.sessions.settings import local_disk_settings, names_other_storage
from elastream.spark.sessions.spark_home import spark_home

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


_MEMORY: Final = "spark.executor.memory"
_NOT_OURS: Final = ("spark.app.name", "spark.sql.warehouse.dir")
"""The program's name is its own, and tables that it saves shall outlive it."""
_FIRM: Final = ("spark.master", _MEMORY, "spark.deploy.appIdPattern")
"""What the cluster stands and falls with."""
_KEPT: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Variables that hold where the user has set them."""
_UNITS: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "": 1}
_STARTS_S: Final = 120.0


class ProgramCluster:
    """An embedded cluster with room for ``most`` executors, of which ``first`` come first."""

    def __init__(self, first: int, most: int) -> None:
        self._first, self._most = first, most
        self._java = java_home()
        self._scratch = Path(tempfile.mkdtemp(prefix="elastream-"))
        self._home = spark_home(self._scratch)

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what the program's session needs besides what is given."""
        asked = megabytes(given.get(_MEMORY, ""))
        usual = EmbeddedCluster(executors=self._first, max_executors=self._most)
        memory = usual.executor_memory_mb if asked is None else max(asked, 500)
        cluster = EmbeddedCluster(
            executors=self._first, max_executors=self._most, executor_memory_mb=memory
        )
        archive = archive_file(self._java, self._home)
        settings = cluster.settings(self._scratch, archive) | {"spark.executor.cores": "1"}
        unfit = local_disk_settings() if names_other_storage(given) else {}
        firm = (*_FIRM, "spark.executor.cores")
        return {
            name: value
            for name, value in settings.items()
            if name not in (*_NOT_OURS, *unfit) and (name in firm or name not in given)
        }

    def environment(self) -> AbstractContextManager[None]:
        """Let the driver's JVM, which starts meanwhile, find its Java and its Spark home."""
        wanted = spark_environment(self._java, self._home)
        return environment_with(
            {name: os.environ.get(name, value) if name in _KEPT else value
             for name, value in wanted.items()}
        )  # fmt: skip

    def started(self, context: SparkContext) -> None:
        """Take the executors away that are not among the first."""
        keep_first_executors(context, self._first, self._most)

    def await_first(self, spark: SparkSession) -> None:
        """Wait until the first executors are there, and no other."""
        await_executors(SparkInternals.of(spark), self._first, _STARTS_S)

    def end(self) -> None:
        """End the driver and its executors, and remove their files."""
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        with interrupts_ignored():
            if context is not None:  # queries that were left running complain when they are ended
                with suppress(Exception):
                    context.setLogLevel("OFF")
            shut_down(self._scratch, self._home)


def megabytes(size: str) -> int | None:
    """Return a size of memory as Spark writes it, such as ``2g``; ``None`` for what is none."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    return None if match is None else int(int(match[1]) * _UNITS[match[2]])
