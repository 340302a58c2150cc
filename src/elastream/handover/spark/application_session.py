"""The session of one side of a handover: the embedded cluster, or the master that is named.

A query can leave for a cluster of any kind, so each side has a master of its own. ``local[1]`` is
an application in one process, the smallest there is; without a master the side gets an embedded
cluster with executors of its own. Row windows and joins ask for the RocksDB state store, which the
steering settings bring along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from elastream.spark.sessions.batch_session import batch_session
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded_session
from elastream.spark.sessions.settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_APP_NAME: Final = "elastream handover"
_JVM_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""One compiler tier starts quickly; its usual 48 MB of code are full after some dozen queries."""
_LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": _JVM_OPTIONS,
}
"""What a driver that does all the work itself needs to start quickly."""


@contextmanager
def application_session(
    *,
    master: str | None = None,
    executors: int = 1,
    partitions: int = 4,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give the session of a side, and end it."""
    settings = {"spark.sql.shuffle.partitions": str(partitions), **(config or {})}
    if master is None:
        cluster = EmbeddedCluster(
            executors=executors, max_executors=executors, app_name=_APP_NAME, config=settings
        )
        with embedded_session(cluster) as spark:
            yield spark
        return
    here = master.startswith("local[")
    local = _LOCAL if here else {}
    settings = {**session_settings(local_disk=here), **local, **settings}
    with batch_session(_APP_NAME, master=master, config=settings) as spark:
        yield spark
