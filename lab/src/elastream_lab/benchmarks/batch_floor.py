"""What does a batch cost that has hardly anything to do? Settings of Spark, one by one.

A streaming aggregation of few rows and eight partitions on two executors: what its batches take is
what Spark spends on every batch. In each round the query goes on from an empty checkpoint under
each group of settings in turn, so that a drift of the machine affects all alike. Reported are
the median batch, its parts as Spark reports them, and the CPU time of driver and executors.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from elastream.spark.sessions.class_training import ensure_archive
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS, EmbeddedCluster, embedded_session
from elastream_lab.benchmarks._cpu_time import cpu_times
from elastream_lab.harness.job_session import fresh_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


PARTITIONS = 8
ROWS_A_BATCH = 200
ROUNDS = 2
LEAD_BATCHES = 100
"""This many until the JVMs have compiled what they run: the first thirty take a third more."""
BATCHES = 60
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_BY_FILE_CONTEXT: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
_FULL: Final = JVM_OPTIONS.replace("-XX:TieredStopAtLevel=1 ", "")
_LOGGED: Final = {"spark.log.level": "INFO"}
VARIANTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Spark's own file manager and log level": {**_LOGGED, _FILE_MANAGER: _BY_FILE_CONTEXT},
    "files by FileSystem": _LOGGED,
    "… and executors log warnings only": {},
    "… and no schema check": {
        **_LOGGED,
        "spark.sql.streaming.stateStore.stateSchemaCheck": "false",
    },
    "… and no count of state rows": {
        **_LOGGED,
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    },
    "… and every level of compilation": {
        **_LOGGED,
        "spark.driver.extraJavaOptions": _FULL,
        "spark.executor.extraJavaOptions": _FULL,
    },
}
"""From the third on, one change to the second. The third is the embedded cluster."""
_PARTS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


@dataclass
class _Seen:
    """What the batches of one variant took."""

    batch_ms: list[float] = field(default_factory=list)
    parts_ms: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms: list[float] = field(default_factory=list)
    """CPU time a batch, one for each round."""


def run() -> None:
    """Print what batches take under each group of settings."""
    ensure_archive(EmbeddedCluster(), print)
    seen = {name: _Seen() for name in VARIANTS}
    runs = [name for _ in range(ROUNDS) for name in VARIANTS]
    for name in track(runs, description="clusters"):
        config = {"spark.sql.shuffle.partitions": str(PARTITIONS), **VARIANTS[name]}
        cluster = EmbeddedCluster(executors=2, max_executors=2, config=config)
        with embedded_session(cluster) as spark:
            _measure(spark, seen[name])
    _print(seen)


def _measure(spark: SparkSession, seen: _Seen) -> None:
    query = _start(spark, fresh_folder(spark))
    try:
        first = _await_batch(query, LEAD_BATCHES)
        began = cpu_times().spark
        last = _await_batch(query, first + BATCHES)
        seen.cpu_ms.append(1000 * (cpu_times().spark - began) / (last - first))
        for progress in query.recentProgress:
            if first < progress.batchId <= last:
                seen.batch_ms.append(progress.durationMs["triggerExecution"])
                for part in _PARTS:
                    took_ms = progress.durationMs.get(part, 0)
                    seen.parts_ms.setdefault(part, []).append(took_ms)
    finally:
        query.stop()


def _start(spark: SparkSession, folder: Path) -> StreamingQuery:
    from pyspark.sql import functions

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH)
    keys = (functions.col("value") % 1000).alias("key")
    counts = source.load().groupBy(keys).agg(functions.count("*"), functions.sum("value"))
    writer = counts.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _await_batch(query: StreamingQuery, batch: int) -> int:
    """Wait until the progress report of this batch is there; return the last that is."""
    while (last := -1 if (report := query.lastProgress) is None else report.batchId) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.02)
    return int(last)


def _print(seen: Mapping[str, _Seen]) -> None:
    title = f"{PARTITIONS} partitions, {ROWS_A_BATCH} rows a batch, {ROUNDS} rounds, milliseconds"
    table = Table(title=title)
    table.add_column("settings")
    for name in ("batch, median", "10 % to 90 %", *_PARTS, "CPU a batch"):
        table.add_column(name, justify="right")
    for name, batch in seen.items():
        deciles = statistics.quantiles(batch.batch_ms, n=10)
        table.add_row(
            name,
            f"{statistics.median(batch.batch_ms):.0f}",
            f"{deciles[0]:.0f} to {deciles[-1]:.0f}",
            *(f"{statistics.median(batch.parts_ms[part]):.0f}" for part in _PARTS),
            f"{statistics.median(batch.cpu_ms):.0f}",
        )
    Console(width=160).print(table)
