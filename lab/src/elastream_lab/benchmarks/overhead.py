"""What does being attached cost a steady query? Spans with and without a controller, in turn.

One streaming aggregation runs as fast as it can, a fixed number of rows a batch. Spans of batches
alternate: attached (the loop observes and decides after every batch, and logs to a file), free,
free, attached, and so on, so that a drift of the machine falls on both sides alike. Each pair of
neighbouring spans gives one ratio of their times, which is what a user feels, and the CPU time that
a batch took more in the driver and in Python, which is less a matter of chance: as a share of what
a batch takes in all processes, it is what being attached costs where the cores are all busy. The
goal is at most 1 % of throughput.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import elastream
from elastream.spark.sessions.embedded_cluster import (
    EmbeddedCluster,
    embedded_session,
    scratch_folder,
)
from elastream_lab.benchmarks._cpu_time import CpuTimes, cpu_times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


ROWS_A_BATCH = 300_000
PARTITIONS = 12
PAIRS = 10
BATCHES_A_SPAN = 16
LEAD_BATCHES = 60
_LEAD_OF_A_SPAN = 6
_POLL_S = 0.02
POLICY = elastream.Policy(min_executors=2, max_executors=2)


def run() -> None:
    """Print how much longer the batches take while a controller is attached."""
    with embedded_session(measured_cluster()) as spark:
        folder = scratch_folder(spark)
        query = started(spark, folder)
        await_batch(query, LEAD_BATCHES)
        pairs = [_pair(query, folder / "log.jsonl", pair % 2 == 0) for pair in range(PAIRS)]
        query.stop()
    _print(pairs)


def measured_cluster() -> EmbeddedCluster:
    """Return two executors whose checkpoint costs next to nothing."""
    return EmbeddedCluster(
        executors=2,
        max_executors=2,
        checkpoint_in_memory=True,
        config={"spark.sql.shuffle.partitions": str(PARTITIONS)},
    )


def started(spark: SparkSession, folder: Path, *, keys: int = 1000) -> StreamingQuery:
    """Start the query: as many rows a batch as set, as fast as it can."""
    from pyspark.sql import functions

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_A_BATCH)
    key = (functions.col("value") % keys).alias("key")
    counts = source.load().groupBy(key).agg(functions.count("*"), functions.sum("value"))
    writer = counts.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


@dataclass(frozen=True, slots=True)
class Span:
    """What a batch took in a row of them."""

    batch_s: float
    cpu_s: CpuTimes


def _pair(query: StreamingQuery, log: Path, attached_first: bool) -> tuple[Span, Span]:
    """Return what a batch takes attached and free, measured one after the other."""
    if attached_first:
        return _attached(query, log), span(query)
    free = span(query)
    return _attached(query, log), free


def _attached(query: StreamingQuery, log: Path) -> Span:
    with elastream.attach(query, POLICY, log=log):
        return span(query)


def span(query: StreamingQuery) -> Span:
    """Return what a batch takes from now on, the first ones left out."""
    began_at = await_batch(query, _batch(query) + _LEAD_OF_A_SPAN)
    began, cpu_s = time.perf_counter(), cpu_times()
    batches = await_batch(query, began_at + BATCHES_A_SPAN) - began_at
    took_s = time.perf_counter() - began
    return Span(took_s / batches, cpu_times().per(cpu_s, batches))


def _batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def await_batch(query: StreamingQuery, batch: int) -> int:
    """Wait until the progress report of this batch is there, and ask rarely before it is near."""
    while (last := _batch(query)) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        progress = query.lastProgress
        batch_s = 0.0 if progress is None else progress.batchDuration / 1000
        time.sleep(max(_POLL_S, 0.7 * (batch - last - 1) * batch_s))
    return last


def print_spans(title: str, sides: Mapping[str, Sequence[Span]]) -> None:
    """Print what a batch took on each side."""
    table = Table(title=f"{title}; a batch in ms, medians of the spans")
    for name in ("", "time", "CPU of Python", "of the driver", "of the executors"):
        table.add_column(name)
    for name, spans in sides.items():
        columns = (
            [each.batch_s for each in spans],
            [each.cpu_s.python for each in spans],
            [each.cpu_s.driver for each in spans],
            [each.cpu_s.executors for each in spans],
        )
        table.add_row(name, *(f"{1000 * statistics.median(column):.1f}" for column in columns))
    Console().print(table)


def _print(pairs: list[tuple[Span, Span]]) -> None:
    title = f"{len(pairs)} pairs of {BATCHES_A_SPAN} batches of {ROWS_A_BATCH:,} rows"
    attached, free = zip(*pairs, strict=True)
    print_spans(title, {"attached": attached, "free": free})
    usual_s = statistics.median(free.cpu_s.total for _, free in pairs)
    more = [attached.cpu_s.attached_to - free.cpu_s.attached_to for attached, free in pairs]
    _tell("longer", [attached.batch_s / free.batch_s - 1 for attached, free in pairs])
    _tell("more CPU time in driver and Python", [each / usual_s for each in more])


def _tell(what: str, shares: list[float]) -> None:
    error = statistics.stdev(shares) / len(shares) ** 0.5
    print(
        f"attached takes {statistics.mean(shares):+.2%} {what} (standard error {error:.2%}), "
        f"median of the pairs {statistics.median(shares):+.2%} (goal: at most 1 %)"
    )
