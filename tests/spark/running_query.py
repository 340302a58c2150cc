"""A running query with everything that elastream knows about it, for tests."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.processes import executor_processes

from elastream import Attachment, ByHand, Decision, Movement, Policy, TaskId, Timeouts, attach
from elastream.core.ports import ExecutorPool, StatePlacement
from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import WatchedQuery
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["BY_HAND", "PATIENCE_S", "RunningQuery", "back_to_two", "running", "until"]

PATIENCE_S = 600.0
"""How long a test waits for anything before it fails; noisy machines are slow."""

BY_HAND = Policy(
    max_executors=3,
    goal=ByHand(),
    tau=0.5,
    movement=Movement(tries=30, moves_per_batch=None, bytes_per_batch=None),
    timeouts=Timeouts(grow_s=PATIENCE_S, action_s=PATIENCE_S, call_s=PATIENCE_S),
)
"""A loop that only does what it is asked to, all at once, however slow the machine is."""

_numbers = itertools.count()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.1)


@dataclass
class RunningQuery:
    spark: SparkSession
    query: StreamingQuery
    checkpoint: Path
    sink: str
    internals: SparkInternals
    attachment: Attachment
    decisions: list[Decision]
    batches: list[BatchObservation] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def monitor(self) -> SparkMonitor:
        return self.attachment.monitor

    @property
    def pool(self) -> ExecutorPool:
        return self.attachment._application.pool

    @property
    def placement(self) -> StatePlacement:
        return self.attachment._application.controller._runtime.placement

    @property
    def watched(self) -> WatchedQuery:
        found = self.monitor.named(self.sink)
        assert found is not None
        return found

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        return self.watched.tasks

    def where(self) -> dict[TaskId, str]:
        """Where its tasks are, as its last batch showed."""
        where = self.attachment.where()
        return {task: node for task, node in where.items() if task.query == self.sink}

    def note(self, seen: BatchObservation) -> None:
        if seen.query != self.sink:
            return
        with self.changed:
            self.batches.append(seen)
            self.changed.notify_all()

    def pass_batches(self, number: int) -> None:
        with self.changed:
            wanted = len(self.batches) + number
            assert self.changed.wait_for(
                lambda: len(self.batches) >= wanted or not self.query.isActive, PATIENCE_S
            ), "no batch for a long time"
        assert self.query.isActive, self.query.exception()

    def executor_ids(self) -> list[str]:
        return [executor.id for executor in self.pool.executors()]

    def settle(self, wanted: dict[TaskId, str]) -> None:
        """Ask for a placement, and return when the tasks have run there."""
        self.attachment.move(wanted)
        assert self.attachment.wait(PATIENCE_S)
        where = self.where()
        story = [decision.reason for decision in self.decisions[-5:]]
        assert {task: where.get(task) for task in wanted} == wanted, story

    def settle_intervals(self, executors: list[str]) -> None:
        """Give each executor one interval of consecutive tasks."""
        tasks = self.tasks
        self.settle({t: executors[j * len(executors) // len(tasks)] for j, t in enumerate(tasks)})

    def migrate_at_random(self, migrations: int, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(migrations):
            ids = self.executor_ids()
            self.settle({task: dice.choice(ids) for task in self.tasks})

    def committed_rows(self) -> int:
        """Rows of the first source that committed batches have read; for a stopped query."""
        return committed_rows(self.checkpoint)


@contextlib.contextmanager
def running(
    frame: DataFrame,
    *,
    mode: str,
    sink: str = "noop",
    policy: Policy = BY_HAND,
    checkpoint: Path | None = None,
    location: str | None = None,
) -> Iterator[RunningQuery]:
    """Start the query, attach to it, give it, stop it, and leave the cluster with two executors.

    It goes on from ``checkpoint`` where one is given; ``location`` is what Spark calls that.
    """
    spark = frame.sparkSession
    checkpoint = checkpoint or Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    name = f"query_{next(_numbers)}"
    query = (
        frame.writeStream.format(sink)
        .outputMode(mode)
        .queryName(name)
        .option("checkpointLocation", location or str(checkpoint))
        .trigger(processingTime="500 milliseconds")  # leaves cores to what the test waits for
        .start()
    )
    internals = SparkInternals.of(spark)
    decisions: list[Decision] = []
    try:
        with attach(query, policy, log=decisions.append) as attachment:
            run = RunningQuery(spark, query, checkpoint, name, internals, attachment, decisions)
            batches_of(attachment.monitor, run.note)
            run.pass_batches(2)
            until(lambda: len(run.where()) == len(run.tasks), "it is known where its tasks are")
            yield run
    finally:
        query.stop()
        back_to_two(internals)


def committed_rows(checkpoint: Path) -> int:
    """Rows of the first source that committed batches have read."""
    commits = checkpoint / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    lines = (checkpoint / "offsets" / str(last)).read_text().splitlines()
    return int(json.loads(lines[2])["offset"])


def back_to_two(internals: SparkInternals) -> None:
    """Leave two executors, and none that was asked for before and is still starting."""
    deadline = time.monotonic() + PATIENCE_S
    internals.request_executors(2)
    while len(internals.executors()) != 2 or len(executor_processes(internals.spark)) != 2:
        assert time.monotonic() < deadline, "the cluster did not come back to two executors"
        if surplus := [executor.id for executor in internals.executors()[2:]]:
            internals.retire_executors(surplus)
            internals.request_executors(2)
        time.sleep(0.2)
