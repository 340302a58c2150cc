"""What does being attached cost a steady query? Spans with and without a controller, in turn.

One streaming aggregation runs as fast as it can, a fixed number of rows a batch. Spans of batches
alternate: attached (the loop observes and decides after every batch, and logs to a file), free,
free, attached, and so on, so that a drift of the machine falls on both sides alike. Each pair of
neighbouring spans gives one ratio of their times, and one of the CPU time that a batch took in all
processes of the application: the first is what a user feels, the second is less a matter of chance.
The goal is at most 1 % of throughput.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import elastream
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, scratch_folder
from elastream.spark.sessions.embedded_session import embedded_session
from elastream_lab.benchmarks.cpu_time import family_cpu_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["run"]

ROWS_A_BATCH = 300_000
PARTITIONS = 12
PAIRS = 10
BATCHES_A_SPAN = 10
LEAD_BATCHES = 20
_LEAD_OF_A_SPAN = 4
_POLICY = elastream.Policy(min_executors=2, max_executors=2)


def run() -> None:
    """Print how much longer the batches take while a controller is attached."""
    cluster = EmbeddedCluster(
        executors=2,
        max_executors=2,
        checkpoint_in_memory=True,
        config={"spark.sql.shuffle.partitions": str(PARTITIONS)},
    )
    with embedded_session(cluster) as spark:
        folder = scratch_folder(spark)
        query = _start(spark, folder)
        _await_batch(query, LEAD_BATCHES)
        pairs = [_pair(query, folder / "log.jsonl", pair % 2 == 0) for pair in range(PAIRS)]
        query.stop()
    _print(pairs)


def _start(spark: SparkSession, folder: Path) -> StreamingQuery:
    from pyspark.sql import functions

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH)
    keys = (functions.col("value") % 1000).alias("key")
    counts = source.load().groupBy(keys).agg(functions.count("*"), functions.sum("value"))
    writer = counts.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


@dataclass(frozen=True, slots=True)
class _Span:
    """What a batch took in a row of them."""

    batch_s: float
    cpu_s: float


def _pair(query: StreamingQuery, log: Path, attached_first: bool) -> tuple[_Span, _Span]:
    """Return what a batch takes attached and free, measured one after the other."""
    if attached_first:
        return _attached(query, log), _span(query)
    free = _span(query)
    return _attached(query, log), free


def _attached(query: StreamingQuery, log: Path) -> _Span:
    with elastream.attach(query, _POLICY, log=log):
        return _span(query)


def _span(query: StreamingQuery) -> _Span:
    began_at = _await_batch(query, _batch(query) + _LEAD_OF_A_SPAN)
    began, cpu_s = time.perf_counter(), family_cpu_s(with_self=True)
    batches = _await_batch(query, began_at + BATCHES_A_SPAN) - began_at
    took_s, used_s = time.perf_counter() - began, family_cpu_s(with_self=True) - cpu_s
    return _Span(took_s / batches, used_s / batches)


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def _await_batch(query: StreamingQuery, batch: int) -> int:
    """Wait until the progress report of this batch is there."""
    while (last := _batch(query)) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.02)
    return last


def _print(pairs: list[tuple[_Span, _Span]]) -> None:
    table = Table(title=f"{PAIRS} pairs of {BATCHES_A_SPAN} batches of {ROWS_A_BATCH:,} rows")
    for name in ("", "ms a batch, median of the spans", "CPU ms a batch"):
        table.add_column(name)
    for name, side in (("attached", 0), ("free", 1)):
        spans = [pair[side] for pair in pairs]
        batch_ms = 1000 * statistics.median(span.batch_s for span in spans)
        cpu_ms = 1000 * statistics.median(span.cpu_s for span in spans)
        table.add_row(name, f"{batch_ms:.1f}", f"{cpu_ms:.1f}")
    Console().print(table)
    for what, ratios in (
        ("longer", [attached.batch_s / free.batch_s for attached, free in pairs]),
        ("more CPU time", [attached.cpu_s / free.cpu_s for attached, free in pairs]),
    ):
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        print(
            f"attached takes {100 * (statistics.mean(ratios) - 1):+.2f} % {what} (standard error "
            f"{100 * error:.2f}), median of the ratios "
            f"{100 * (statistics.median(ratios) - 1):+.2f} % (goal: at most 1 %)"
        )
