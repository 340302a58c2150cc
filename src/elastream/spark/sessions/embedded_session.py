"""An embedded session for as long as a block of code, which Ctrl-C may leave at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop
from elastream.spark.sessions.interrupts import interrupts_ignored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def embedded_session(cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """Start the cluster, give its session, and end all of it, whatever happened."""
    spark = embedded(cluster)
    try:
        yield spark
    finally:
        with interrupts_ignored():
            with contextlib.suppress(Exception):  # a driver that died has nothing to say
                spark.sparkContext.setLogLevel("OFF")
            stop(spark)
