"""A running query with everything that elastream knows about it, for tests."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.control.observation import BatchObservation, TaskId
from elastream.spark.cluster import scratch_folder
from elastream.spark.executors import ExecutorPool
from elastream.spark.monitor import Monitor
from elastream.spark.placement import GivenUp, StatePlacement
from elastream.spark.private_door import PrivateDoor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["PATIENCE_S", "RunningQuery", "running"]

PATIENCE_S = 180.0
"""How long a test waits for anything before it fails; noisy machines are slow."""

_numbers = itertools.count()


@dataclass
class RunningQuery:
    spark: SparkSession
    query: StreamingQuery
    checkpoint: Path
    sink: str
    door: PrivateDoor
    monitor: Monitor
    placement: StatePlacement
    pool: ExecutorPool
    given_up: list[GivenUp]
    told: list[BatchObservation] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def note(self, seen: BatchObservation) -> None:
        with self.heard:
            self.told.append(seen)
            self.heard.notify_all()

    def pass_batches(self, number: int) -> None:
        with self.heard:
            wanted = len(self.told) + number
            assert self.heard.wait_for(
                lambda: len(self.told) >= wanted or not self.query.isActive, PATIENCE_S
            ), "no batch for a long time"
        assert self.query.isActive, self.query.exception()

    def executor_ids(self) -> list[str]:
        return [executor.id for executor in self.pool.executors()]

    def settle(self, wanted: dict[TaskId, str]) -> None:
        """Place, and return when the tasks have run there."""
        self.placement.place(wanted)
        assert self.placement.wait_settled(PATIENCE_S)
        where = self.placement.where()
        assert {task: where[task] for task in wanted} == wanted, self.given_up

    def settle_intervals(self, executors: list[str]) -> None:
        """Give each executor one interval of consecutive tasks."""
        tasks = self.placement.tasks
        self.settle({t: executors[j * len(executors) // len(tasks)] for j, t in enumerate(tasks)})

    def migrate_at_random(self, migrations: int, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(migrations):
            ids = self.executor_ids()
            self.settle({task: dice.choice(ids) for task in self.placement.tasks})

    def committed_rows(self) -> int:
        """Rows of the first source that committed batches have read; for a stopped query."""
        return committed_rows(self.checkpoint)


@contextlib.contextmanager
def running(frame: DataFrame, *, mode: str, sink: str = "noop") -> Iterator[RunningQuery]:
    """Start the query, give it, stop it, and leave the cluster with two executors."""
    spark = frame.sparkSession
    checkpoint = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    name = f"query_{next(_numbers)}"
    query = (
        frame.writeStream.format(sink)
        .outputMode(mode)
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    door = PrivateDoor.of(spark)
    monitor = Monitor(door, query)
    try:
        given_up: list[GivenUp] = []
        placement = StatePlacement(
            door, query, monitor, given_up=given_up.append, timeout_s=PATIENCE_S
        )
        pool = ExecutorPool(door, placement, monitor)
        run = RunningQuery(spark, query, checkpoint, name, door, monitor, placement, pool, given_up)
        monitor.subscribe(run.note)
        run.pass_batches(2)
        yield run
    finally:
        query.stop()
        monitor.close()
        back_to_two(door)


def committed_rows(checkpoint: Path) -> int:
    """Rows of the first source that committed batches have read."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()
    return int(json.loads(lines[2])["offset"])


def back_to_two(door: PrivateDoor) -> None:
    deadline = time.monotonic() + PATIENCE_S
    door.request_executors(2)
    if surplus := [executor.id for executor in door.executors()[2:]]:
        door.retire_executors(surplus)
    while len(door.executors()) != 2:
        assert time.monotonic() < deadline, "the cluster did not come back to two executors"
        time.sleep(0.2)
    door.request_executors(2)
