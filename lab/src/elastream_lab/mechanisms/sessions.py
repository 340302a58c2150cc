"""The session that a mechanism works in: an embedded cluster, or the user's own master.

On any master the number of executors is set here and not by Spark's own allocation. Checkpoints are
folders of this machine: executors of a master elsewhere must see them under the same path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elastream.model.errors import SparkError
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.batch_session import batch_session
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream.spark.sessions.settings import session_settings
from elastream_lab.harness.commit_log import RETAIN_ALL
from elastream_lab.harness.job_session import job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_GROW_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class StreamCluster:
    """On what a stream runs."""

    executors: int
    """How many executors there are at the start."""
    max_executors: int
    """How many there can ever be at once."""
    executor_cores: int = 1
    executor_memory_mb: int = 800
    master: str | None = None
    """The Spark master; ``None`` for an embedded cluster."""
    in_memory: bool = False
    """Keep the embedded cluster's files in memory-backed storage."""
    steered: bool = True
    """Whether an embedded cluster has the settings that steering needs; else Spark is as it is."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the session."""


@contextmanager
def stream_session(cluster: StreamCluster) -> Iterator[SparkSession]:
    """Give a session with as many executors as asked for, and end it."""
    if cluster.master is None:
        embedded = EmbeddedCluster(
            executors=cluster.executors,
            max_executors=cluster.max_executors,
            executor_cores=cluster.executor_cores,
            executor_memory_mb=cluster.executor_memory_mb,
            checkpoint_in_memory=cluster.in_memory,
            steered=cluster.steered,
            config=cluster.config,
        )
        with job_session(embedded) as spark:
            yield spark
        return
    settings = {
        **session_settings(),
        **RETAIN_ALL,
        "spark.executor.cores": str(cluster.executor_cores),
        "spark.executor.instances": str(cluster.executors),
        "spark.executor.memory": f"{cluster.executor_memory_mb}m",
        **cluster.config,
    }
    with batch_session("elastream bench", master=cluster.master, config=settings) as spark:
        resize(SparkInternals.of(spark), cluster.executors)
        yield spark


def resize(internals: SparkInternals, executors: int) -> None:
    """Ask for this many executors, take away the youngest above that, and wait until it is so."""
    deadline = time.monotonic() + _GROW_TIMEOUT_S
    requested = False
    while True:
        if surplus := [entry.id for entry in internals.executors()[executors:]]:
            internals.retire_executors(surplus)
        if not requested:
            internals.request_executors(executors)
            requested = True
        found = len(internals.executors(leaving=True))
        if found == executors and not surplus:
            return
        if time.monotonic() > deadline:
            raise SparkError(f"{found} executors where {executors} were asked for")
        time.sleep(_POLL_S)
