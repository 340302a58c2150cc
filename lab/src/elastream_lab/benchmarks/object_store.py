"""What does a checkpoint on S3 cost? Requests a batch, and what versions of a state share.

First, a streaming aggregation of few rows and eight partitions on two executors, its checkpoint on
an S3 server of this machine: what each batch asks the server, by kind of request, as the server's
log counts them. Then a state of some size of which a part is written again and again: how large a
snapshot is, what of it has to be uploaded, and what changes take between snapshots.

It needs what ``make store`` makes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from elastream.model.errors import ProblemError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, embedded_session
from elastream_lab.stores.installation import installed_store
from elastream_lab.stores.narrow_link import read_samples
from elastream_lab.stores.object_store import ObjectStore, object_store
from elastream_lab.stores.requests import read_requests
from elastream_lab.stores.snapshots import changelog_bytes, snapshots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


PARTITIONS = 8
LEAD_BATCHES = 8
BATCHES = 20
_PARTS: Final = Path(".components")
_STORE: Final = "spark.sql.streaming.stateStore"
_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.checkpointing"
_BY_SYSTEM: Final = {_MANAGER: f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"}
_FEWER_LOOKS: Final = {"spark.hadoop.fs.s3a.performance.flags": "create,mkdir,delete"}
_SNAPSHOTS: Final = {f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "false"}
VARIANTS: Final[Mapping[str, Mapping[str, str]]] = {
    "files by FileSystem": _BY_SYSTEM,
    "files by FileContext, Spark's own choice": {},
    "… and S3A looks less often": _FEWER_LOOKS,
    "… and checkpoint format 2": {**_FEWER_LOOKS, f"{_STORE}.checkpointFormatVersion": "2"},
    "… and a snapshot every batch, no changes": {**_FEWER_LOOKS, **_SNAPSHOTS},
}
"""The first is not safe on S3. From the third on, that one and one change."""
_KINDS: Final = {
    "PutObject": "PUT",
    "CopyObject": "COPY",
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "ListObjectsV2": "LIST",
    "DeleteObject": "DELETE",
    "DeleteObjects": "DELETE",
}
_KIB: Final = 16
_FILLED: Final = 8000
"""Rows of 16 kB that fill the state first, 125 MiB in all."""
_HOT: Final = 400
"""Keys that come back from then on, 5 % of them."""
_ROWS_A_BATCH: Final = 200
_SHARING: Final = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "5",
    "spark.sql.streaming.minBatchesToRetain": "1000",
    **_FEWER_LOOKS,
}
_SHARING_BATCHES: Final = 120


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a batch took and asked."""

    batch_ms: float
    asked: Mapping[str, float]
    """Requests by kind."""
    bytes_up: float
    bytes_down: float


def run() -> None:
    """Print what batches ask of the store, and what snapshots share."""
    console = Console(width=150)
    try:
        parts = installed_store(_PARTS)
    except ProblemError as missing:
        console.print(f"object_store is not measured: {missing}", highlight=False)
        return
    with (
        tempfile.TemporaryDirectory(prefix="elastream-store-") as folder,
        object_store(parts, Path(folder)) as store,
    ):
        costs = {}
        for number, (name, config) in enumerate(VARIANTS.items()):
            console.print(name, highlight=False)
            with _session(store, config) as spark:
                costs[name] = _cost(store, _few_rows(spark), f"requests-{number}")
        console.print(_costs(costs))
        console.print("what snapshots share", highlight=False)
        with (
            _session(store, _SHARING) as spark,
            _started(store, _large_state(spark), "sharing") as query,
        ):
            _await_batch(query, _SHARING_BATCHES)
        console.print(_shared(store.path("sharing") / "state" / "0"), highlight=False)


@contextmanager
def _session(store: ObjectStore, config: Mapping[str, str]) -> Iterator[SparkSession]:
    settings = {"spark.sql.shuffle.partitions": str(PARTITIONS), **store.settings(), **config}
    with embedded_session(EmbeddedCluster(executors=2, max_executors=2, config=settings)) as spark:
        yield spark


def _cost(store: ObjectStore, frame: DataFrame, name: str) -> _Cost:
    with _started(store, frame, name) as query:
        first = _await_batch(query, LEAD_BATCHES)
        before, at = len(list(read_requests(store.server.log))), read_samples(store.samples)[-1]
        last = _await_batch(query, first + BATCHES)
        asked = list(read_requests(store.server.log))[before:]
        then, batches = read_samples(store.samples)[-1], last - first
        kinds = Counter(_KINDS.get(request.operation, "other") for request in asked)
        return _Cost(
            batch_ms=statistics.median(
                progress.durationMs["triggerExecution"]
                for progress in query.recentProgress
                if first < progress.batchId <= last
            ),
            asked={kind: number / batches for kind, number in kinds.items()},
            bytes_up=(then.up - at.up) / batches,
            bytes_down=(then.down - at.down) / batches,
        )


def _few_rows(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    keys = (f.col("value") % 1000).alias("key")
    return _numbers(spark).groupBy(keys).agg(f.count("*"), f.sum("value"))


def _large_state(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    value = f.col("value")
    key = f.when(value < _FILLED, value).otherwise(value % _HOT).alias("key")
    pieces = f.transform(
        f.sequence(f.lit(1), f.lit(8 * _KIB)), lambda n: f.sha2(f.concat_ws(" ", value, n), 512)
    )
    return _numbers(spark).groupBy(key).agg(f.max(f.array_join(pieces, "")))


def _numbers(spark: SparkSession) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS_A_BATCH)
    return source.load()


@contextmanager
def _started(store: ObjectStore, frame: DataFrame, name: str) -> Iterator[StreamingQuery]:
    writer = frame.writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", store.uri(name)).start()
    try:
        yield query
    finally:
        query.stop()


def _await_batch(query: StreamingQuery, batch: int) -> int:
    """Wait until the progress report of this batch is there; return the last that is."""
    while (last := -1 if (report := query.lastProgress) is None else report.batchId) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.02)
    return int(last)


def _costs(costs: Mapping[str, _Cost]) -> Table:
    table = Table(title=f"requests a batch, {PARTITIONS} partitions, {BATCHES} batches")
    table.add_column("settings")
    kinds = list(dict.fromkeys([*_KINDS.values(), "other"]))
    for name in (*kinds, "all", "kB up", "kB down", "batch, ms"):
        table.add_column(name, justify="right")
    for name, cost in costs.items():
        table.add_row(
            name,
            *(f"{cost.asked.get(kind, 0):.1f}" for kind in kinds),
            f"{sum(cost.asked.values()):.0f}",
            f"{cost.bytes_up / 1000:.0f}",
            f"{cost.bytes_down / 1000:.0f}",
            f"{cost.batch_ms:.0f}",
        )
    return table


def _shared(state: Path) -> str:
    """Say what the snapshots after the filling had in common with those before them."""
    whole, brought, files, new_files = [], [], [], []
    changes: list[int] = []
    filled_in = _FILLED // _ROWS_A_BATCH
    for partition in range(PARTITIONS):
        found = snapshots(state / str(partition))
        for before, after in pairwise(found):
            if before.version > filled_in:
                new = after.brought(before)
                whole.append(sum(after.tables.values()))
                brought.append(sum(new.values()) + after.archive_bytes)
                files.append(len(after.tables))
                new_files.append(len(new))
        changes += changelog_bytes(state / str(partition))
    mean = statistics.mean
    return (
        f"{len(whole)} snapshots after the filling: {mean(whole) / 1e6:.1f} MB in "
        f"{mean(files):.1f} files, of which {mean(brought) / 1e6:.1f} MB in {mean(new_files):.1f} "
        f"files were uploaded ({sum(brought) / sum(whole):.0%}); the changes of a batch: "
        f"{statistics.median(changes) / 1e3:.0f} kB"
    )
