"""The traffic monitor at work: a query for each sub-stream, warmed, replayed and checked.

What the queries told is compared with the same aggregations as a batch job over the recordings:
each result of a window that the watermark has passed must be there once and equal, and no other.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.harness.commit_log import committed_batches
from elastream.harness.recording import Recording
from elastream.harness.replay import ReplayClock, replayed, replayed_batch
from elastream.model.checks import amount, count
from elastream.model.errors import SparkError
from elastream.spark.sessions.query_settings import PARTITIONS, changed_settings
from elastream.spark.steer.graceful_stop import stop_gracefully
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS, Aggregation, monitored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "TrafficMonitor",
    "await_end",
    "begin",
    "differences",
    "expected",
    "fed",
    "queries_of",
    "results",
    "rows_read",
    "running",
]

_QUERY_SETTINGS: Final = {
    # With one partition each, Spark would run all aggregations of a query in one task.
    "spark.sql.unionOutputPartitioning": "false",
    # A batch without packets would tell a second's results a second earlier, for twice the work.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
_WARM_BATCHES: Final = 3
_FEEDINGS: Final = 40
_LEAST_LEAD: Final = 40
"""However quiet a sub-stream is at first, so many packets are its lead."""
_LOOK_S: Final = 0.25
_STALL_S: Final = 120.0
"""A query that commits no batch for so long, while it has packets to read, is broken."""


@dataclass(frozen=True, slots=True)
class TrafficMonitor:
    """What to monitor, and how; checked when made."""

    recordings: tuple[Recording, ...]
    """The sub-streams."""
    folder: Path
    """For clocks and checkpoints; a fresh one."""
    partitions: int = 1
    """State partitions of each aggregation."""
    aggregations: tuple[Aggregation, ...] = AGGREGATIONS
    service_us: float = 0.0
    """What a packet costs every result it is counted in, slept at the state; 0 for nothing."""
    trigger_s: float = 1.0
    lead_s: float = 1.0
    """Packets of the first so many seconds are read before the clocks start, to get ready."""
    keep_results: bool = True
    """Whether results are kept in memory, to be checked; else they are thrown away."""

    def __post_init__(self) -> None:
        count("partitions", self.partitions, least=1)
        amount("service_us", self.service_us)
        amount("trigger_s", self.trigger_s)
        amount("lead_s", self.lead_s)

    @property
    def substreams(self) -> range:
        """Their numbers."""
        return range(len(self.recordings))

    def lead_rows(self, substream: int) -> int:
        """Return how many packets of a sub-stream are read before the clocks start."""
        recording = self.recordings[substream]
        return max(recording.rows_due(self.lead_s * 1000), min(_LEAST_LEAD, recording.rows))

    def clock(self, substream: int) -> ReplayClock:
        """Return the clock of a sub-stream."""
        return ReplayClock(self.folder / f"clock-{substream}")

    def checkpoint(self, substream: int) -> Path:
        """Return the checkpoint of a sub-stream's query."""
        return self.folder / f"checkpoint-{substream}"


@contextmanager
def running(spark: SparkSession, monitor: TrafficMonitor) -> Iterator[tuple[StreamingQuery, ...]]:
    """Give the running queries, warm; stop them at a batch boundary.

    They begin with small batches, because the first ones of a JVM take seconds, and go on with
    all that is due when :func:`begin` starts the clocks.
    """
    queries = queries_of(spark, monitor)
    try:
        for step in range(1, _WARM_BATCHES + 1):
            _open(monitor, step / (2 * _WARM_BATCHES))
            for query in queries:
                query.processAllAvailable()
        yield queries
    finally:
        for query in queries:
            if query.isActive:
                stop_gracefully(query)


def queries_of(spark: SparkSession, monitor: TrafficMonitor) -> tuple[StreamingQuery, ...]:
    """Start the query of each sub-stream; it reads nothing before its clock says so."""
    started: list[StreamingQuery] = []
    try:
        for number, recording in enumerate(monitor.recordings):
            packets = replayed(spark, recording, monitor.clock(number))
            results = monitored(packets, monitor.aggregations, service_us=monitor.service_us)
            writer = results.writeStream.format("memory" if monitor.keep_results else "noop")
            writer = writer.outputMode("append").queryName(_name(number))
            writer = writer.option("checkpointLocation", str(monitor.checkpoint(number)))
            writer = writer.trigger(processingTime=f"{monitor.trigger_s:g} seconds")
            settings = _QUERY_SETTINGS | {PARTITIONS: str(monitor.partitions)}
            with changed_settings(spark, settings):
                started.append(writer.start())
    except BaseException:
        for query in started:
            query.stop()
        raise
    return tuple(started)


@contextmanager
def fed(monitor: TrafficMonitor, queries: Sequence[StreamingQuery]) -> Iterator[None]:
    """Keep the queries busy before the clocks start: feed them the second half of their lead.

    Each trigger gets a few packets, so that batches run and show where state is. At the end all
    that is left of the lead is read: every run begins with the same packets.
    """
    done = threading.Event()

    def feed() -> None:
        for step in range(1, _FEEDINGS):
            if done.wait(monitor.trigger_s):
                return
            _open(monitor, 0.5 + step / (2 * _FEEDINGS))

    feeder = threading.Thread(target=feed, name="elastream-feeder", daemon=True)
    feeder.start()
    try:
        yield
    finally:
        done.set()
        feeder.join()
    _open(monitor, 1.0)
    for query in queries:
        query.processAllAvailable()


def begin(monitor: TrafficMonitor) -> int:
    """Start the clocks, all at once, with the packets after the lead.

    Returns when the first packet of all was due, in milliseconds since the epoch.
    """
    start_ms = round((time.time() - monitor.lead_s) * 1000)
    for number in monitor.substreams:
        monitor.clock(number).start(start_ms)
    return start_ms


def await_end(
    monitor: TrafficMonitor,
    queries: Sequence[StreamingQuery],
    *,
    show: Callable[[int], None] | None = None,
) -> None:
    """Wait until all packets are in committed batches; ``show`` is told how many are, often."""
    wanted = sum(recording.rows for recording in monitor.recordings)
    last, changed = -1, time.monotonic()
    while (done := rows_read(monitor)) < wanted:
        for query in queries:
            if not query.isActive:
                raise SparkError(f"{query.name} ended: {query.exception() or 'nobody knows why'}")
        if done != last:
            last, changed = done, time.monotonic()
        if time.monotonic() - changed > _STALL_S:
            raise SparkError(f"no batch was committed for {_STALL_S:g} s")
        if show is not None:
            show(done)
        time.sleep(_LOOK_S)


def rows_read(monitor: TrafficMonitor) -> int:
    """Return how many packets are in committed batches."""
    batches = (committed_batches(monitor.checkpoint(number)) for number in monitor.substreams)
    return sum(committed[-1].end for committed in batches if committed)


def results(spark: SparkSession, monitor: TrafficMonitor) -> DataFrame:
    """Return all that the queries have told so far."""
    tables = (spark.table(_name(number)) for number in monitor.substreams)
    return reduce(lambda above, below: above.union(below), tables)


def differences(spark: SparkSession, monitor: TrafficMonitor) -> int:
    """Return how many results of stopped queries are wrong, missing or told twice."""
    found = 0
    for number in monitor.substreams:
        told, right = spark.table(_name(number)), expected(spark, monitor, number)
        found += told.exceptAll(right).count() + right.exceptAll(told).count()
    return found


def expected(spark: SparkSession, monitor: TrafficMonitor, substream: int) -> DataFrame:
    """Return what a stopped query should have told, by a batch job over what it has read."""
    from pyspark.sql import functions as f

    last = committed_batches(monitor.checkpoint(substream))[-1]
    lines = (monitor.checkpoint(substream) / "offsets" / str(last.batch)).read_text().splitlines()
    watermark_ms = int(json.loads(lines[1])["batchWatermarkMs"])
    packets = replayed_batch(spark, monitor.recordings[substream], until=last.end)
    results = monitored(packets, monitor.aggregations)
    return results.where(f.unix_millis("end") <= watermark_ms)


def _open(monitor: TrafficMonitor, part: float) -> None:
    """Let the queries read a part of their lead."""
    for number in monitor.substreams:
        monitor.clock(number).open(math.ceil(monitor.lead_rows(number) * part))


def _name(substream: int) -> str:
    return f"substream_{substream}"
