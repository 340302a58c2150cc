"""Up to a day of a windowed count on live executors, while one change follows another.

A batch is a minute of stream time, so a day is 1,440 batches, which are spread over the minutes
that the run may take: the more of them, the more changes a day has. Rows are made by Spark, this
many a batch: every window of an hour that the watermark closes must have the rows of sixty batches,
no more and no less. Changes are asked for one after another: tasks change places, executors come,
are warmed and go again. What Spark keeps for its own page is kept short, so that a run of minutes
reaches what a run of weeks keeps.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream import ByHand, Movement, Policy, attach
from elastream.core.decision_log import DecisionLog
from elastream.model.errors import ElastreamError
from elastream.spark.observe.endings import ending
from elastream_lab.studies.soak.flatness import LEAST_SAMPLES
from elastream_lab.studies.soak.measures import Sample, of_jvm, of_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream import Attachment


_BATCHES_A_DAY: Final = 1440
_ROWS: Final = 300
_KEYS: Final = 40
_WINDOW_S: Final = 3600
_MINUTE_MS: Final = 60_000
_PARTITIONS: Final = 6
_MOST: Final = 3
_SAMPLES: Final = 40
_SHARE: Final = 0.95
"""Of the time is for the batches of a day; the rest is for starting."""
_CHANGE_S: Final = 300.0
_LOG_BYTES: Final = 16 << 10
_KEEP: Final = 2
"""The log rotates early, so that a run of minutes reaches what one of weeks keeps."""
_SIZES: Final = (2, None, None, 3, None, None, 2, None, None, 1)
"""Numbers of executors that are asked for in turn; with ``None`` tasks change places."""
_SHORT: Final = {
    "spark.sql.shuffle.partitions": str(_PARTITIONS),
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.retainedDeadExecutors": "2",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.sql.streaming.ui.retainedQueries": "2",
    "spark.sql.streaming.minBatchesToRetain": "5",
}


@dataclass(frozen=True, slots=True)
class LiveDay:
    """What was measured, and what was wrong about the answers; empty where nothing was."""

    samples: tuple[Sample, ...]
    wrong: str


class _Windows:
    """Counts the rows of every window that is reported; forgets those that are right."""

    def __init__(self) -> None:
        self.right = 0
        self.wrong: list[str] = []

    def take(self, rows: DataFrame, batch: int) -> None:
        """Take what a batch shows: all keys of a window at once."""
        counts: Counter[int] = Counter()
        for start, n in rows.collect():
            counts[start] += n
        for start, n in counts.items():
            if n == _ROWS * _WINDOW_S * 1000 // _MINUTE_MS:
                self.right += 1
            else:
                self.wrong.append(f"the window at {start} s has {n} rows, in batch {batch}")


def live_day(minutes: float) -> LiveDay:
    """Run until a day of stream time or this many minutes are over."""
    samples: list[Sample] = []
    windows, began = _Windows(), time.monotonic()
    trigger_s = _SHARE * 60 * minutes / _BATCHES_A_DAY
    with _running(windows, trigger_s) as (spark, query, attachment, log, scratch):
        changes, every_s = 0, 60 * minutes / _SAMPLES
        while time.monotonic() - began < 60 * minutes:
            _change(attachment, _SIZES[changes % len(_SIZES)])
            changes += 1
            batch = (query.lastProgress or {"batchId": 0})["batchId"]
            if time.monotonic() - began >= every_s * (len(samples) + 1):
                measures = {**of_python(log, scratch), **of_jvm(spark)}
                samples.append(Sample(batch / 60, changes, measures))
            if not query.isActive:
                raise ElastreamError(f"the query failed: {ending(query.exception())}")
            if batch >= _BATCHES_A_DAY:
                break
    if len(samples) < LEAST_SAMPLES:
        short = f"only {len(samples)} samples in {minutes:g} minutes; take more minutes"
        raise ElastreamError(short)
    return LiveDay(tuple(samples), "; ".join(windows.wrong[:3]))


def _change(attachment: Attachment, size: int | None) -> None:
    if size is None:
        ids = sorted(executor.id for executor in attachment.executors())
        where = {task: node for task, node in attachment.where().items() if node in ids}
        after = dict(zip(ids, (*ids[1:], ids[0]), strict=True))
        attachment.move({task: after[node] for task, node in where.items()})
    else:
        attachment.scale_to(size)
    if not attachment.wait(_CHANGE_S):
        phase = type(attachment.state.phase).__name__.lower()
        raise ElastreamError(f"a change did not end in {_CHANGE_S:g} s; phase {phase}")


@contextmanager
def _running(
    windows: _Windows, trigger_s: float
) -> Iterator[tuple[SparkSession, StreamingQuery, Attachment, Path, Path]]:
    """Give a session with the query attached, its log and its scratch folder, in a folder."""
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded, stop

    with tempfile.TemporaryDirectory(prefix="elastream-soak-") as folder, _temporary(folder):
        scratch, log = Path(folder) / "tmp", Path(folder) / "decisions.jsonl"
        cluster = EmbeddedCluster(
            executors=1, max_executors=_MOST, driver_memory_mb=700, config=_SHORT
        )
        spark = embedded(cluster)
        try:
            query = _query(spark, Path(folder) / "checkpoint", windows.take, trigger_s)
            policy = Policy(
                max_executors=_MOST, goal=ByHand(), movement=Movement(copy_least_bytes=0)
            )
            written = DecisionLog(log, max_bytes=_LOG_BYTES, keep=_KEEP)
            with attach(query, policy, log=written.append) as attachment:
                yield spark, query, attachment, log, scratch
            query.stop()
        finally:
            stop(spark)


@contextmanager
def _temporary(folder: str) -> Iterator[None]:
    """Let this process and the JVMs below it keep their temporary files in the folder."""
    own = Path(folder) / "tmp"
    own.mkdir()
    before = {name: os.environ.get(name) for name in ("TMPDIR", "JAVA_TOOL_OPTIONS")}
    os.environ |= {"TMPDIR": str(own), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={own}"}
    kept, tempfile.tempdir = tempfile.tempdir, str(own)
    try:
        yield
    finally:
        tempfile.tempdir = kept
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _query(
    spark: SparkSession,
    checkpoint: Path,
    take: Callable[[DataFrame, int], None],
    trigger_s: float,
) -> StreamingQuery:
    from pyspark.sql import functions as f

    options: dict[str, Any] = {"rowsPerBatch": _ROWS, "advanceMillisPerBatch": _MINUTE_MS}
    rows = spark.readStream.format("rate-micro-batch").options(**options).load()
    window = f.window("timestamp", f"{_WINDOW_S} seconds")
    counts = (
        rows.withWatermark("timestamp", "10 minutes")
        .groupBy(window, (f.col("value") % _KEYS).alias("key"))
        .agg(f.count("*").alias("n"))
        .select(f.unix_timestamp("window.start").alias("start"), "n")
    )
    writer = counts.writeStream.outputMode("append").foreachBatch(take).queryName("soak")
    writer = writer.trigger(processingTime=f"{1000 * trigger_s:.0f} milliseconds")
    return writer.option("checkpointLocation", str(checkpoint)).start()
