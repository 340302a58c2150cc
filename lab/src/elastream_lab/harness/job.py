"""A job as the harness sees it: what it reads, how it starts, what it must come to.

A job replays recordings, one for each of its queries. The harness gives it a session, makes it
warm, starts its clocks, waits until all is read, stops it at a batch boundary and lets it be
checked. What it counts, and how that is computed again, is the job's own affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from elastream.model.errors import SparkError
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.observe.endings import ending
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class Feed:
    """What one query of a job reads, and where it keeps how far it is."""

    recording: Recording
    clock: ReplayClock
    checkpoint: Path


class Job(Protocol):
    """An application over recordings."""

    @property
    def feeds(self) -> Sequence[Feed]:
        """What each of its queries reads."""

    def start(self, spark: SparkSession) -> Sequence[StreamingQuery]:
        """Start its queries, in the order of the feeds, or go on where their checkpoints end."""

    def wrong(self, spark: SparkSession) -> int:
        """Return how many results of the stopped job are wrong, missing or reported twice.

        By a computation without streams over the same rows.
        """


class RunningJob:
    """A job whose queries can be stopped at a batch boundary and started again."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self.queries: tuple[StreamingQuery, ...] = ()
        self.start()

    def start(self) -> None:
        """Start the queries where their checkpoints end."""
        self.queries = tuple(self.job.start(self.spark))

    def stop(self) -> None:
        """Stop the queries that run, at a batch boundary."""
        for query in self.queries:
            if query.isActive:
                stop_gracefully(query)

    def check(self) -> None:
        """Raise ``SparkError`` where a query has ended by itself."""
        for query in self.queries:
            if not query.isActive:
                name = query.name or "the query"
                raise SparkError(f"{name} ended: {ending(query.exception())}")


@contextmanager
def running(spark: SparkSession, job: Job) -> Iterator[RunningJob]:
    """Start a job, and stop it at a batch boundary; after an error at once."""
    run = RunningJob(spark, job)
    try:
        yield run
    except BaseException:
        for query in run.queries:
            with suppress(Exception):  # the error that is under way says more
                query.stop()
        raise
    run.stop()
