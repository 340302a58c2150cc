"""Copies of the same state, from storage and from the executor that owns it, turn by turn.

A query counts rows of keys with a payload, on two executors with a partition each. It goes on while
one partition's state is copied to the other executor, which then takes it over: so the next copy
goes the other way. At the end every count and payload is compared with a computation over the rows
that were read.

Slow storage is a stand-in: the local disk, read at a pace that is slept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from elastream.core.ports import CopySource, Ticket
from elastream.model.checks import count, positive
from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.steer.copies import SparkStateCopies
from elastream.spark.steer.placement import SparkStatePlacement
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.mechanisms.sessions import StreamCluster, stream_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STORES: Final = ("local", "slow")
_WAYS: Final[dict[str, CopySource]] = {"checkpoint": "storage", "executor": "executor"}
_NAME: Final = "transfer"
_KEY_BYTES: Final = 1250
"""What a key with its payload of 2,048 characters takes, compressed."""
_FILL: Final = 20
"""Batches after which every key is there."""
_PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """What is copied, and from where."""

    store: tuple[str, ...] = STORES
    partition_mb: float = 64.0
    """About how much state the partition has."""
    store_mb_per_s: float = 50.0
    """How quickly slow storage is read."""
    store_open_ms: int = 30
    """How long it takes to open or list a file there."""
    repeats: int = 3

    def __post_init__(self) -> None:
        unknown = [name for name in self.store if name not in STORES]
        if unknown or not self.store:
            raise ProblemError("store", f"{unknown or 'nothing'} is not one of {', '.join(STORES)}")
        positive("partition_mb", self.partition_mb)
        positive("store_mb_per_s", self.store_mb_per_s)
        count("store_open_ms", self.store_open_ms)
        count("repeats", self.repeats, least=1)

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TransferResult:
    """One copy."""

    way: str
    store: str
    partition_bytes: int
    """Of the state, as Spark's metrics have it."""
    seconds: float
    """From the request until the copy was there, on an executor that had one before."""
    bytes_from_storage: int
    bytes_from_executors: int
    exact: bool = False

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return asdict(self)


def run_transfers(
    settings: TransferSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[TransferResult], None],
) -> None:
    """Copy by both ways, on every store."""
    for store in settings.store:
        say(f"{store}: starting Spark")
        with _session(settings, store) as (spark, folder):
            stream = _Stream(
                spark, f"slow://{folder}" if store == "slow" else str(folder), settings
            )
            try:
                say(f"{store}: filling the state")
                stream.fill()
                results = [
                    stream.copy(way, store, say)
                    for _ in range(settings.repeats + 1)  # in the first one code is compiled
                    for way in _WAYS
                ]
            finally:
                stream.stop()
            say(f"{store}: checking against the rows")
            exact = stream.is_exact(folder)
            for result in results[len(_WAYS) :]:
                done(TransferResult(**{**asdict(result), "exact": exact}))


@contextmanager
def _session(settings: TransferSettings, store: str) -> Iterator[tuple[SparkSession, Path]]:
    config = {"spark.sql.shuffle.partitions": "2"}
    with TemporaryDirectory(prefix="elastream-slow-") as classes:
        if store == "slow":
            config |= {
                "spark.driver.extraClassPath": classes,
                "spark.executor.extraClassPath": classes,
                "spark.hadoop.fs.slow.impl": "SlowFileSystem",
                "spark.hadoop.slow.mb.per.s": str(settings.store_mb_per_s),
                "spark.hadoop.slow.open.ms": str(settings.store_open_ms),
            }
        cluster = StreamCluster(executors=2, max_executors=2, config=config)
        with stream_session(cluster) as spark:
            if store == "slow":
                _compile(spark, Path(classes))
            yield spark, fresh_folder(spark)


def _compile(spark: SparkSession, classes: Path) -> None:
    """Compile the slow file system to where the driver and the executors look for classes."""
    text = files("elastream_lab.benchmarks.transfer").joinpath("SlowFileSystem.java").read_text()
    compiler = SparkInternals.of(spark).jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(text)
    for name, code in dict(compiler.getBytecodes()).items():
        classes.joinpath(f"{name}.class").write_bytes(bytes(code))


@dataclass
class _Stream:
    """The query, and what copies its state."""

    spark: SparkSession
    checkpoint: str
    settings: TransferSettings
    batches: list[BatchObservation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = max(200, round(2 * 1e6 * self.settings.partition_mb / _KEY_BYTES))
        self.query: StreamingQuery = (
            self._counted()
            .writeStream.queryName(_NAME)
            .outputMode("update")
            .format("noop")
            .option("checkpointLocation", self.checkpoint)
            .trigger(processingTime="2 seconds")
            .start()
        )
        internals = SparkInternals.of(self.spark)
        self.monitor = SparkMonitor(internals, ExecutorRegistry(internals), lambda _: True)
        self.copies = SparkStateCopies(internals, self.monitor)
        self.placement = SparkStatePlacement(internals, self.monitor, self.copies)
        self.executors = [entry.id for entry in internals.executors()]
        batches_of(self.monitor, self.batches.append)
        self.monitor.subscribe(self.copies.take_in)
        self.monitor.start()

    def _counted(self) -> DataFrame:
        from pyspark.sql import functions as f

        rows = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", -(-self.keys // _FILL))
            .option("numPartitions", 2)
            .load()
        )
        keyed = rows.withColumn("key", f.col("value") % self.keys)
        return keyed.groupBy("key").agg(f.max(_payload()).alias("payload"), f.count("*").alias("n"))

    def fill(self) -> None:
        """Return when every key is there and the state has been stored as a whole."""
        self._pass(_FILL + 12)

    def _pass(self, number: int) -> None:
        deadline, wanted = time.monotonic() + _PATIENCE_S, len(self.batches) + number
        while len(self.batches) < wanted:
            if not self.query.isActive:
                raise SparkError(f"the query ended: {self.query.exception()}")
            if time.monotonic() > deadline:
                raise SparkError(f"no {number} batches in {_PATIENCE_S:g} s")
            time.sleep(0.05)

    def copy(self, way: str, store: str, say: Callable[[str], None]) -> TransferResult:
        """Copy the state of one task to the other executor, and let that take it over."""
        last = self.batches[-1]
        task = TaskId(_NAME, 0, 0)
        size = next(each.state_bytes for each in last.tasks if each.task == task)
        owner = next(each.executor for each in last.tasks if each.task == task)
        target = next(each for each in self.executors if each != owner)
        began = time.monotonic()
        copied = self.copies.copy({task: target}, soon=True, source=_WAYS[way], ticket=Ticket())
        seconds = time.monotonic() - began
        if copied.why is not None:
            raise SparkError(f"{way}: {copied.why}")
        say(f"{store}, {way}: {seconds:.2f} s for {copied.bytes / 1e6:.0f} MB {copied.choice}")
        self._pass(1)  # between two batches
        self.placement.place(_NAME, {task: target}, ticket=Ticket())
        self._pass(3)
        return TransferResult(
            way,
            store,
            round(size),
            round(seconds, 3),
            copied.bytes_from_storage,
            copied.bytes_from_executors,
        )

    def stop(self) -> None:
        """Stop the query, and what watches it."""
        self.copies.close()
        self.query.stop()
        self.monitor.close()

    def is_exact(self, folder: Path) -> bool:
        """Return whether the state is what the committed rows make of it."""
        from pyspark.sql import functions as f

        last = max(int(each.name) for each in (folder / "commits").glob("[0-9]*"))
        rows = (last + 1) * -(-self.keys // _FILL)
        state: Any = self.spark.read.format("statestore").load(self.checkpoint)
        found = state.select("key.key", "value.*")
        names = found.columns
        expected = f.floor((f.lit(rows - 1) - f.col("key")) / self.keys) + 1
        right = (f.col(names[2]) == expected) & (f.col(names[1]) == _payload())
        return bool(found.count() == self.keys and found.where(~right).count() == 0)


def _payload() -> Any:
    from pyspark.sql import functions as f

    parts = [f.sha2(f.concat(f.col("key").cast("string"), f.lit(f":{i}")), 512) for i in range(16)]
    return f.concat(*parts)
