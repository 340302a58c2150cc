"""Is a placement obeyed? A hundred random ones on a running query, on real executors.

Each trial gives every task of a streaming aggregation an executor at random, in the gap after a
batch as the loop does, and counts the batches until the tasks run where the plan says. The goal is
at most 2 batches in at least 99 of 100 trials.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import Counter
from queue import Queue

from rich.console import Console
from rich.table import Table

from elastream import TaskId
from elastream.core.ports import Ticket
from elastream.model.observation import BatchObservation
from elastream.resilience.spark.watching import Watching, batches_of, watching
from elastream.spark.sessions.embedded_cluster import (
    EmbeddedCluster,
    embedded_session,
    scratch_folder,
)
from elastream.spark.steer.placement import SparkStatePlacement
from elastream.spark.steer.warm_up import aggregation_stream

TRIALS = 100
TASKS = 8
EXECUTORS = 3
SEED = 20
_PATIENCE_S = 120.0
_MOST_BATCHES = 5


def run() -> None:
    """Print after how many batches each of the placements held."""
    cluster = EmbeddedCluster(
        executors=EXECUTORS,
        max_executors=EXECUTORS,
        checkpoint_in_memory=True,
        config={"spark.sql.shuffle.partitions": str(TASKS)},
    )
    with embedded_session(cluster) as spark:
        query = (
            aggregation_stream(spark)
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(scratch_folder(spark) / "checkpoint"))
            .start()
        )
        with watching(query) as seen:
            _print(_trials(seen))
        query.stop()


def _trials(seen: Watching) -> list[tuple[int | None, int]]:
    """Return, for each trial, the batches until it held, and how many tasks moved."""
    batches: Queue[BatchObservation] = Queue()
    batches_of(seen.monitor, batches.put)
    placement = SparkStatePlacement(seen.internals, seen.monitor)
    executors = [entry.id for entry in seen.internals.executors()]
    (name,) = {task.query for task in seen.tasks}
    dice = random.Random(SEED)
    outcomes = []
    before = _ran(batches)
    for _ in range(TRIALS):
        wanted = {task: dice.choice(executors) for task in seen.tasks}
        moved = sum(before[task] != wanted[task] for task in wanted)
        placement.place(name, wanted, ticket=Ticket())
        held = None
        for batch in range(1, _MOST_BATCHES + 1):
            before = _ran(batches)
            if before == wanted:
                held = batch
                break
        outcomes.append((held, moved))
    return outcomes


def _ran(batches: Queue[BatchObservation]) -> dict[TaskId, str]:
    """Return where the tasks of the next batch ran."""
    seen = batches.get(timeout=_PATIENCE_S)
    return {task.task: task.executor for task in seen.tasks}


def _print(outcomes: list[tuple[int | None, int]]) -> None:
    batches = Counter(held for held, _ in outcomes)
    moved = [moved for _, moved in outcomes]
    within = sum(number for held, number in batches.items() if held is not None and held <= 2)
    table = Table(title=f"{TRIALS} random placements of {TASKS} tasks on {EXECUTORS} executors")
    table.add_column("held after")
    table.add_column("trials", justify="right")
    for held in sorted(batches, key=lambda held: held or sys.maxsize):
        label = f"over {_MOST_BATCHES} batches" if held is None else f"{held} batches"
        table.add_row(label, str(batches[held]))
    Console().print(table)
    print(
        f"{within} of {TRIALS} held within 2 batches (goal: 99); "
        f"{statistics.mean(moved):.1f} tasks moved a trial, {sum(moved)} in all"
    )
