"""One application of the relief benchmark on live executors, through all its changes.

Its stages are spread evenly over the first executors by hand; then the loop is asked for another
number of executors, and does the rest. Batches follow one another without a pause, each with the
rows of one file. Files are read from the first to the last, so that a batch computation over the
files of the committed batches must give the same counts.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from elastream.attachment import Attachment, attach
from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Policy, Timeouts
from elastream.goals.by_hand import ByHand
from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.resilience.spark.watching import batches_of
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.observe.endings import ending
from elastream_lab.benchmarks.relief.figures import (
    ReliefResult,
    batch_figures,
    bytes_moved,
    evenness,
    fixed_ms,
)
from elastream_lab.benchmarks.relief.rows import (
    Row,
    hashed_ids,
    hashed_keys,
    make_batches,
    write_batches,
)
from elastream_lab.benchmarks.relief.settings import ReliefSettings
from elastream_lab.benchmarks.relief.shapes import SHAPES, Shape
from elastream_lab.benchmarks.relief.simulated import simulated_batch_ms
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.mechanisms.sessions import StreamCluster, stream_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_FILES: Final = 400
"""More batches than a stream runs."""
_FIRST: Final = 4
"""Batches in which code is compiled."""
_AFTER: Final = 2
"""Batches right behind a change that are left out: they load state, and compile."""
_PATIENCE_S: Final = 300.0
_LOOK_S: Final = 0.05

Batches = dict[str, tuple[BatchObservation, ...]]


def run_relief(
    settings: ReliefSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[ReliefResult], None],
    failed: Callable[[str], None],
) -> None:
    """Take every shape through all changes.

    ``done`` is called with each result as it is there, ``failed`` with a line about each shape that
    came to none; the others go on.
    """
    for name in settings.shape:
        try:
            for result in _run_shape(name, SHAPES[name], settings, say):
                done(result)
        except (SparkError, TimeoutError) as error:
            failed(f"{name}: {error}")


@dataclass
class _Stream:
    """The queries of an application, and what their batches showed."""

    attachment: Attachment
    queries: Mapping[str, StreamingQuery]
    decisions: list[Decision]
    batches: dict[str, list[BatchObservation]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self, batch: BatchObservation) -> None:
        with self.changed:
            self.batches.setdefault(batch.query, []).append(batch)
            self.changed.notify_all()

    def next_batches(self, number: int, *, skip: int) -> Batches:
        """Return as many batches of each query from now on, after those that are skipped."""
        with self.changed:
            begin = {name: len(self.batches.get(name, ())) + skip for name in self.queries}
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            with self.changed:
                found = {
                    name: tuple(self.batches.get(name, ())[first : first + number])
                    for name, first in begin.items()
                }
            if all(len(each) == number for each in found.values()):
                return found
            self._check(deadline)
            time.sleep(_LOOK_S)

    def await_change(self) -> None:
        """Return when nothing is under way."""
        if not self.attachment.wait(_PATIENCE_S):
            raise SparkError(f"a change did not end within {_PATIENCE_S:g} s")
        self._check(float("inf"))

    def _check(self, deadline: float) -> None:
        for name, query in self.queries.items():
            if not query.isActive:
                raise SparkError(f"{name} ended: {ending(query.exception())}")
        if time.monotonic() > deadline:
            raise SparkError(f"no batches for {_PATIENCE_S:g} s")


def _run_shape(
    name: str, shape: Shape, settings: ReliefSettings, say: Callable[[str], None]
) -> list[ReliefResult]:
    cluster = StreamCluster(
        executors=settings.change[0][0],
        max_executors=settings.max_executors,
        executor_cores=shape.cores,
        executor_memory_mb=settings.executor_memory_mb,
        in_memory=True,
        config=shape.config,
    )
    say(f"{name}: starting Spark")
    with stream_session(cluster) as spark:
        folder = fresh_folder(spark)
        read = write_batches(
            make_batches(
                shape.layout,
                hashed_ids(spark, shape.layout, _FILES),
                hashed_keys(spark, shape.layout, _FILES),
            ),
            folder / "rows",
        )
        names = [f"{name.replace('-', '_')}_{number + 1}" for number in range(shape.queries)]
        queries = {each: _started(spark, shape, each, folder, settings) for each in names}
        try:
            results = _changed(name, settings, queries, say)
            for query in queries.values():
                stop_gracefully(query)
        finally:
            for query in queries.values():
                with suppress(Exception):  # the error that is under way says more
                    query.stop()
        say(f"{name}: checking against a batch count")
        exact = all(
            not shape.wrong(spark, each, folder / each, _committed(read, folder / each))
            for each in names
        )
        return [replace(result, exact=exact) for result in results]


def _started(
    spark: SparkSession, shape: Shape, name: str, folder: Path, settings: ReliefSettings
) -> StreamingQuery:
    return (
        shape.frame(spark, folder / "rows", 1000 * settings.row_ms)
        .writeStream.format("memory" if shape.mode == "append" else "noop")
        .outputMode(shape.mode)
        .queryName(name)
        .option("checkpointLocation", str(folder / name))
        .start()
    )


def _changed(
    name: str,
    settings: ReliefSettings,
    queries: Mapping[str, StreamingQuery],
    say: Callable[[str], None],
) -> list[ReliefResult]:
    """Take the queries through all changes."""
    policy = Policy(
        max_executors=settings.max_executors,
        goal=ByHand(),
        planner=settings.planner,
        tau=settings.tau,
        movement=Movement(moves_per_batch=None, bytes_per_batch=None),
        timeouts=Timeouts(grow_s=_PATIENCE_S / 2),
    )
    decisions: list[Decision] = []
    results: list[ReliefResult] = []
    with attach(list(queries.values()), policy, log=decisions.append) as attachment:
        stream = _Stream(attachment, queries, decisions)
        batches_of(attachment.monitor, stream.note)
        stream.next_batches(_FIRST, skip=0)
        attachment.move(_spread_by_stage(attachment))
        stream.await_change()
        for change in settings.change:
            if len(attachment.executors()) != change[0]:
                attachment.scale_to(change[0])
                stream.await_change()
            say(f"{name}: {change[0]} to {change[1]} executors")
            results += _one_change(name, settings, stream, change)
    return results


def _one_change(
    name: str, settings: ReliefSettings, stream: _Stream, change: tuple[int, int]
) -> list[ReliefResult]:
    attachment = stream.attachment
    before = stream.next_batches(settings.batches, skip=1)
    load_before, logged = os.getloadavg()[0], len(stream.decisions)
    began = time.monotonic()
    attachment.scale_to(change[1])
    stream.await_change()
    took_s = time.monotonic() - began
    after = stream.next_batches(settings.batches, skip=_AFTER)
    decisions, executors = stream.decisions[logged:], attachment.executors()
    holding, slots = set(attachment.where().values()), min(each.slots for each in executors)
    graphs = {each.name: each.graph for each in attachment.monitor.watched()}
    simulated = simulated_batch_ms(before, after, graphs, slots, len(executors))
    outcome = next((d for d in reversed(decisions) if d.kind in ("done", "abandon")), None)
    results = []
    for query in stream.queries:
        figures = batch_figures(before, after, query, slots, len(executors))
        logged_ms = predicted_ms(decisions, query)
        if logged_ms is not None:
            figures = replace(figures, predicted=logged_ms)
        results.append(
            ReliefResult(
                shape=name,
                change=change,
                planner=settings.planner,
                slots=slots,
                query=query,
                batch_ms=figures,
                simulated_ms=simulated[query],
                predicted_by="model" if logged_ms is None else "elastream",
                fixed_ms=_medians(before[query], after[query], partial(fixed_ms, slots=slots)),
                waited_ms=_medians(before[query], after[query], lambda batch: batch.waited_ms),
                state_bytes_moved=bytes_moved(before[query], after[query]),
                executors_without_state=sum(each.id not in holding for each in executors),
                evenness=evenness(after[query], slots, len(executors)),
                seconds=took_s,
                machine_load=(load_before, os.getloadavg()[0]),
                outcome="nothing was logged" if outcome is None else outcome.reason,
                exact=False,
            )
        )
    return results


def _medians(
    before: Sequence[BatchObservation],
    after: Sequence[BatchObservation],
    figure: Callable[[BatchObservation], float],
) -> tuple[float, float]:
    return median(map(figure, before)), median(map(figure, after))


def predicted_ms(decisions: Sequence[Decision], query: str) -> float | None:
    """Return how long elastream expected a batch of the query to take after the change."""
    for decision in reversed(decisions):
        figures: Any = decision.figures.get("predicted_batch_ms", {})
        if query in figures:
            return float(figures[query])
    return None


def _spread_by_stage(attachment: Attachment) -> dict[TaskId, str]:
    """Return a placement with as many tasks of each stage on each executor."""
    ids = [executor.id for executor in attachment.executors()]
    return {task: ids[task.partition % len(ids)] for task in attachment.where()}


def _committed(read: list[list[Row]], checkpoint: Path) -> list[list[Row]]:
    """Return the rows of the committed batches: each read one file."""
    commits = [int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit()]
    return read[: max(commits) + 1]
