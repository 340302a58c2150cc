"""A query that pauses for another number of partitions, and goes on where its state is wanted.

Stop at a batch boundary, let Spark repartition the checkpoint, start the query again
(:mod:`.restarting`), and tell the coordinator where its tasks shall be before the first batch is
planned.

What can be refused is refused while the query still runs. Once it is stopped it is started again,
repartitioned or not. It stays stopped where it has failed of itself; where it did not start within
the time that starts are tried; and where Spark has begun to repartition and failed, twice: then
Spark would not start it before ``elastream repartition`` has ended what was begun.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from elastream.core.clock import steady_s
from elastream.core.ports import Paused, Ticket
from elastream.model.errors import QueryRefusedError, QueryStoppedError, SparkError
from elastream.model.observation import TaskId
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.internals.repartitioning import expect_repartitioning, writes_files
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.checkpoint import read_checkpoint
from elastream.spark.observe.own_work import marked
from elastream.spark.steer.repartitioned import (
    checked_repartitioning,
    checkpoint_files,
    repartition_checkpoint,
)
from elastream.spark.steer.restarting import QueryRestarter, Resumable


class SparkRepartitioner:
    """Changes the number of partitions of queries that a monitor watches."""

    def __init__(self, internals: SparkInternals, restarter: QueryRestarter) -> None:
        self._internals = internals
        self._restarter = restarter

    def repartition(
        self,
        query: str,
        partitions: int,
        places: Mapping[TaskId, str],
        *,
        ticket: Ticket,
    ) -> Paused:
        """Return when the query runs again; raise where it was not repartitioned, and say why."""
        expect_repartitioning()
        found = self._restarter.resumable(query)
        watched, location = found.watched, found.location
        if writes_files(watched.query):
            why = "it writes to the file sink, whose log would miss a batch: Spark fails on that"
            raise QueryRefusedError(f"query {query} cannot be repartitioned: {why}")
        before = self._checked(location, partitions)
        ticket.check()
        operators = [
            replace(each, partitions=partitions) if each.partitions == before else each
            for each in watched.operators
        ]
        with self._restarter.stopping(query):
            began_ms, began = round(steady_s() * 1000), time.monotonic()
            try:
                stop_gracefully(found.running)
                found.check()
                stopped = time.monotonic()
                self._change(location, partitions)
            except QueryStoppedError:
                raise
            except Exception as error:
                self._resume(found, error, before)
                raise
            changed = time.monotonic()
            self._restarter.start(found, operators, places, partitions=partitions)
            spent = {
                "stop": stopped - began,
                "repartition": changed - stopped,
                "start": time.monotonic() - changed,
            }
        return Paused(began_ms, spent)

    def _checked(self, location: str, partitions: int) -> int:
        """Return how many partitions there are; refuse what Spark could not repartition."""
        checkpoint = read_checkpoint(checkpoint_files(location, self._internals.spark), location)
        checked_repartitioning(checkpoint, partitions, running=True)
        return checkpoint.partitions

    def _change(self, location: str, partitions: int) -> None:
        """Let Spark do it; what it has begun is asked for once more."""
        session = self._internals.own_session()
        with marked(session):
            try:
                repartition_checkpoint(session, location, partitions)
            except SparkError:
                repartition_checkpoint(session, location, partitions)

    def _resume(self, stopped: Resumable, failed: Exception, before: int) -> None:
        """Start a query again that was stopped for nothing, where Spark lets it start."""
        location, changed = stopped.location, None
        try:
            checkpoint = read_checkpoint(
                checkpoint_files(location, self._internals.spark), location
            )
            unfinished = checkpoint.unfinished
            if checkpoint.partitions != before:
                changed = checkpoint.partitions
        except Exception:  # it cannot be read now, so the query may start
            unfinished = None
        if unfinished is not None:
            why = (
                f"repartitioning was begun and failed: {failed}; `elastream repartition "
                f"{location} {unfinished}` ends what was begun and comes first"
            )
            raise stopped.stays_stopped(why) from failed
        self._restarter.start(stopped, partitions=changed)
