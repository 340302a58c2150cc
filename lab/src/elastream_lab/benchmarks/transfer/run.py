"""Copies of the same state, from storage and from the executor that owns it, turn by turn.

A query counts rows of keys with a payload, on two executors with a partition each; once all keys
are there, a tenth of them changes. It goes on while one partition's state is copied to the other
executor, which then takes it over: so the next copy goes the other way. At the end every count and
payload is compared with a computation over the rows that were read.

Slow storage is a stand-in: the local disk, read through a link of known width that is slept. So is
the link between executors: the loopback of a network namespace, which all of Spark shares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from elastream.core.ports import CopySource, Ticket
from elastream.model.checks import count, positive
from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.keepers import KeeperReport, Keepers
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.steer.copies import SparkStateCopies
from elastream.spark.steer.placement import SparkStatePlacement
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.hosts.namespaces import limited_loopback
from elastream_lab.mechanisms.sessions import StreamCluster, stream_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STORES: Final = ("local", "slow")
_WAYS: Final[dict[str, CopySource]] = {"checkpoint": "storage", "executor": "executor"}
_NAME: Final = "transfer"
_TASK: Final = TaskId(_NAME, 0, 0)
_KEY_BYTES: Final = 2150
"""What a key with its payload of 2,048 characters takes."""
_FILL: Final = 20
"""Batches after which every key is there."""
_COLD: Final = 10
"""One key in so many goes on to change."""
_NEIGHBOURS: Final = 3
"""Batches on either side of that of a move which it is compared with."""
_PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class TransferSettings:
    """What is copied, and from where."""

    store: tuple[str, ...] = STORES
    partition_mb: float = 64.0
    """About how much state the partition has."""
    store_mb_per_s: float = 50.0
    """What the link between slow storage and an executor carries."""
    store_open_ms: int = 30
    """How long it takes to open or list a file there."""
    executor_mb_per_s: float | None = None
    """What the link between executors carries; ``None``: all it can."""
    repeats: int = 3
    offers: int = 0
    """Further copies from the owner that are dropped, for the time in which tasks cannot have the
    store."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.store if name not in STORES]
        if unknown or not self.store:
            raise ProblemError("store", f"{unknown or 'nothing'} is not one of {', '.join(STORES)}")
        positive("partition_mb", self.partition_mb)
        positive("store_mb_per_s", self.store_mb_per_s)
        count("store_open_ms", self.store_open_ms)
        if self.executor_mb_per_s is not None:
            positive("executor_mb_per_s", self.executor_mb_per_s)
        count("repeats", self.repeats, least=1)
        count("offers", self.offers)

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
    stamp_held_ms: int | None = None
    """For how long no task could have the store; ``None`` where its owner was not asked."""
    bytes_read: int | None = None
    """What anyone read of the partition on slow storage until the batch of the move was over."""
    changelog_bytes_read: int | None = None
    """What of that were changelogs."""
    move_over_neighbours: float | None = None
    """The batch of the move over the median of the three before and the three after it; ``None``
    where the copy was dropped."""
    exact: bool = False

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return asdict(self)


def run_transfers(
    settings: TransferSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[TransferResult], None],
    failed: Callable[[str], None],
) -> None:
    """Copy by both ways, on every store."""
    rate = settings.executor_mb_per_s
    with nullcontext() if rate is None else limited_loopback(1e6 * rate):
        for store in settings.store:
            for result in _on_store(settings, store, say):
                done(result)
                if result.way == "executor" and not result.bytes_from_executors:
                    failed(f"{store}: a copy did not come from its owner")


def _on_store(
    settings: TransferSettings, store: str, say: Callable[[str], None]
) -> list[TransferResult]:
    say(f"{store}: starting Spark")
    with _session(settings, store) as (spark, folder, notes):
        address = f"slow://{folder}" if store == "slow" else str(folder)
        stream = _Stream(spark, address, store, settings, notes, say)
        try:
            say(f"{store}: filling the state")
            stream.fill()
            results = [
                stream.move(way)
                for _ in range(settings.repeats + 1)  # in the first one code is compiled
                for way in _WAYS
            ][len(_WAYS) :]
            results += [stream.copy("executor") for _ in range(settings.offers)]
        finally:
            stream.stop()
        say(f"{store}: checking against the rows")
        exact = stream.is_exact(folder)
        return [replace(result, exact=exact) for result in results]


@contextmanager
def _session(
    settings: TransferSettings, store: str
) -> Iterator[tuple[SparkSession, Path, Path | None]]:
    """Give a session, a folder for a checkpoint, and where slow storage notes what is read."""
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    }
    with TemporaryDirectory(prefix="elastream-slow-") as classes:
        notes = Path(classes) / "notes" if store == "slow" else None
        if notes is not None:
            config |= {
                "spark.driver.extraClassPath": classes,
                "spark.executor.extraClassPath": classes,
                "spark.hadoop.fs.slow.impl": "SlowFileSystem",
                "spark.hadoop.slow.mb.per.s": str(settings.store_mb_per_s),
                "spark.hadoop.slow.open.ms": str(settings.store_open_ms),
                "spark.hadoop.slow.notes": str(notes),
            }
        cluster = StreamCluster(executors=2, max_executors=2, config=config)
        with stream_session(cluster) as spark:
            if notes is not None:
                _compile(spark, Path(classes))
            yield spark, fresh_folder(spark), notes


def _compile(spark: SparkSession, classes: Path) -> None:
    """Compile the slow file system to where the driver and the executors look for classes."""
    text = files("elastream_lab.benchmarks.transfer").joinpath("SlowFileSystem.java").read_text()
    compiler = SparkInternals.of(spark).jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(text)
    for name, code in dict(compiler.getBytecodes()).items():
        classes.joinpath(f"{name}.class").write_bytes(bytes(code))


def _noted(keepers: Keepers) -> dict[str, int]:
    """Return for how long each offer, by its name, keeps tasks from the store, as they come."""
    read, held_ms = keepers.read, dict[str, int]()

    def noting(executor: str) -> KeeperReport | None:
        report = read(executor)
        for offer in report.offers.values() if report is not None else ():
            if offer.state == "offered":
                held_ms[offer.name] = offer.held_ms
        return report

    keepers.read = noting  # type: ignore[method-assign]
    return held_ms


@dataclass
class _Stream:
    """The query, and what copies its state."""

    spark: SparkSession
    checkpoint: str
    store: str
    settings: TransferSettings
    notes: Path | None
    say: Callable[[str], None]
    batches: list[BatchObservation] = field(default_factory=list)

    def __post_init__(self) -> None:
        step = _FILL * _COLD
        self.keys = step * max(1, round(2 * 1e6 * self.settings.partition_mb / _KEY_BYTES / step))
        self.query: StreamingQuery = (
            self._counted()
            .writeStream.queryName(_NAME)
            .outputMode("update")
            .format("noop")
            .option("checkpointLocation", self.checkpoint)
            .trigger(processingTime="1 second")
            .start()
        )
        internals = SparkInternals.of(self.spark)
        self.monitor = SparkMonitor(internals, ExecutorRegistry(internals), lambda _: True)
        self.copies = SparkStateCopies(internals, self.monitor)
        self.held_ms = _noted(self.copies._keepers)
        self.placement = SparkStatePlacement(internals, self.monitor, self.copies)
        self.executors = [entry.id for entry in internals.executors()]
        batches_of(self.monitor, self.batches.append)
        self.monitor.subscribe(self.copies.take_in)
        self.monitor.start()

    def _counted(self) -> DataFrame:
        from pyspark.sql import functions as f

        rows = (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", self.keys // _FILL)
            .option("numPartitions", 2)
            .load()
        )
        kept = rows.where((f.col("value") < self.keys) | (f.col("value") % _COLD == 0))
        keyed = kept.withColumn("key", f.col("value") % self.keys)
        return keyed.groupBy("key").agg(f.max(_payload()).alias("payload"), f.count("*").alias("n"))

    def fill(self) -> None:
        """Return when every key is there and the state has been stored as a whole."""
        self._pass(_FILL + 12)

    def _pass(self, number: int) -> None:
        wanted = len(self.batches) + number
        self._until(lambda: len(self.batches) >= wanted, f"no {number} batches")

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            if not self.query.isActive:
                raise SparkError(f"the query ended: {self.query.exception()}")
            if time.monotonic() > deadline:
                raise SparkError(f"{otherwise} in {_PATIENCE_S:g} s")
            time.sleep(0.05)

    def move(self, way: str) -> TransferResult:
        """Copy the state of one task to the other executor, and let that take it over."""
        asked_ms = 1000 * time.time()
        result = self._copied(way, target := self._target())
        self._pass(2)  # then it is between two batches
        before = len(self.batches)
        self.placement.place(_NAME, {_TASK: target}, ticket=Ticket())
        self._pass(_NEIGHBOURS + 2)
        at = next(
            (n for n in range(before, len(self.batches)) if self._where(self.batches[n]) == target),
            None,
        )
        if at is None:
            raise SparkError("the task was placed, and did not move")
        times = [batch.duration_ms for batch in self.batches]
        near = times[at - _NEIGHBOURS : at] + times[at + 1 : at + 1 + _NEIGHBOURS]
        ratio = times[at] / median(near)
        self.say(f"{self.store}, {way}: the move in {times[at]:.0f} ms, {ratio:.2f} of the others")
        read, of_changes = self._read(asked_ms, self.batches[at].finished_at_ms)
        return replace(
            result,
            bytes_read=read,
            changelog_bytes_read=of_changes,
            move_over_neighbours=round(ratio, 3),
        )

    def copy(self, way: str) -> TransferResult:
        """Copy the state of one task to the other executor, and drop the copy."""
        result = self._copied(way, target := self._target())
        self.copies.drop()
        self._until(lambda: not self._held(target), "the copy was not dropped")
        self._pass(1)
        return result

    def _held(self, executor: str) -> bool:
        report = self.copies._keepers.read(executor)
        return report is not None and bool(report.copies)

    def _copied(self, way: str, target: str) -> TransferResult:
        size = next(each.state_bytes for each in self.batches[-1].tasks if each.task == _TASK)
        self.held_ms.clear()
        began = time.monotonic()
        copied = self.copies.copy({_TASK: target}, soon=True, source=_WAYS[way], ticket=Ticket())
        seconds = time.monotonic() - began
        if copied.why is not None:
            raise SparkError(f"{way}: {copied.why}")
        held = max(self.held_ms.values(), default=None)
        noted = "" if held is None else f", tasks could not have it for {held} ms"
        done = f"{seconds:.2f} s for {copied.bytes / 1e6:.0f} MB{noted}"
        self.say(f"{self.store}, {way}: {done} {copied.choice}".rstrip())
        return TransferResult(
            way,
            self.store,
            round(size),
            round(seconds, 3),
            copied.bytes_from_storage,
            copied.bytes_from_executors,
            held,
        )

    def _target(self) -> str:
        owner = self._where(self.batches[-1])
        return next(each for each in self.executors if each != owner)

    @staticmethod
    def _where(batch: BatchObservation) -> str:
        return next(each.executor for each in batch.tasks if each.task == _TASK)

    def _read(self, begin_ms: float, end_ms: float) -> tuple[int | None, int | None]:
        """Return what was read of the partition between two moments, and of its changelogs."""
        if self.notes is None:
            return None, None
        total = of_changes = 0
        for line in self.notes.read_text().splitlines():
            at_ms, size, path = line.split(" ", 2)
            if begin_ms <= float(at_ms) <= end_ms and "/state/0/0/" in path:
                total += int(size)
                of_changes += int(size) if path.endswith(".changelog") else 0
        return total, of_changes

    def stop(self) -> None:
        """Stop the query, and what watches it."""
        self.copies.close()
        self.query.stop()
        self.monitor.close()

    def is_exact(self, folder: Path) -> bool:
        """Return whether the state is what the committed rows make of it."""
        from pyspark.sql import functions as f

        last = max(int(each.name) for each in (folder / "commits").glob("[0-9]*"))
        rows = (last + 1) * (self.keys // _FILL)
        state: Any = self.spark.read.format("statestore").load(self.checkpoint)
        found = state.select("key.key", "value.*")
        names = found.columns
        changing = f.floor((f.lit(rows - 1) - f.col("key")) / self.keys) + 1
        expected = f.when(f.col("key") % _COLD == 0, changing).otherwise(f.lit(1))
        right = (f.col(names[2]) == expected) & (f.col(names[1]) == _payload())
        return bool(found.count() == self.keys and found.where(~right).count() == 0)


def _payload() -> Any:
    from pyspark.sql import functions as f

    parts = [f.sha2(f.concat(f.col("key").cast("string"), f.lit(f":{i}")), 512) for i in range(16)]
    return f.concat(*parts)
