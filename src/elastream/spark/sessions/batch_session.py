"""A session for batch jobs, on this machine's cores or on the cluster that the master names.

``local[*]`` is one process and starts in seconds. On another master the executors need elastream
installed, for the kernels that run on them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastream.model.errors import SparkError
from elastream.spark.sessions.interrupts import interrupts_ignored, interrupts_kept
from elastream.spark.sessions.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOCAL = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Adaptive execution joins small partitions; large inputs need them small to fit in memory.
    "spark.sql.shuffle.partitions": "64",
    # On few cores threads that collect garbage only take time of the job.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}
"""What one machine needs, and a cluster configures itself."""
_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    # Tables are kept for seconds: trying dictionaries on their strings costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def batch_session(
    app_name: str, *, master: str | None = None, config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session, and end it."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise SparkError("a Spark session runs in this process already; stop it first")
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="elastream-batch-") as scratch:
        here = master is None or master.startswith("local")
        local = _LOCAL | {"spark.local.dir": scratch} if here else {}
        settings = _EVERYWHERE | local | {"spark.sql.warehouse.dir": scratch} | dict(config or {})
        builder = SparkSession.builder.master(master or "local[*]").appName(app_name)
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            with interrupts_kept():
                spark = builder.getOrCreate()
        except PySparkException as error:
            raise SparkError(f"Spark did not start: {str(error).splitlines()[0]}") from error
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            with interrupts_ignored():
                spark.stop()
