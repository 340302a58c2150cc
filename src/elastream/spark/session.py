"""An embedded session for as long as a block of code, which Ctrl-C may leave at any moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elastream.spark.cluster import EmbeddedCluster, embedded, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["embedded_session"]


@contextmanager
def embedded_session(cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """Start the cluster, give its session, and end all of it, whatever happened."""
    spark = embedded(cluster)
    try:
        yield spark
    finally:
        with _interrupts_ignored():
            with contextlib.suppress(Exception):  # a driver that died has nothing to say
                spark.sparkContext.setLogLevel("OFF")
            stop(spark)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let nothing come in between: a second Ctrl-C would leave processes behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
