"""Changing the number of partitions of a query's state.

Spark does the work (:mod:`elastream.spark.internals.repartitioning`). What it refuses it refuses
partly after it has written to the checkpoint, and a query whose repartitioning was begun does not
start before it has ended. So all of that is checked before, on files alone.

A running query (:class:`SparkRepartitioner`) is stopped at a batch boundary, repartitioned, and
started again, with its tasks placed before the first batch is planned. It stays stopped only where
it has failed of itself; where it did not start within the time that starts are tried; and where
Spark has begun to repartition and failed, twice: then ``elastream repartition`` comes first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from elastream.core.clock import steady_s
from elastream.core.ports import Paused, Ticket
from elastream.model.checks import count
from elastream.model.errors import (
    ElastreamError,
    ProblemError,
    QueryRefusedError,
    QueryStoppedError,
    SparkError,
)
from elastream.model.observation import TaskId
from elastream.model.words import join_names
from elastream.spark.internals.checkpoint import (
    Checkpoint,
    local_folder,
    read_checkpoint,
)
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.internals.repartitioning import (
    expect_repartitioning,
    key_columns,
    repartition_state,
    sink_refusal,
)
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.internals.variants import ROCKSDB_PROVIDER
from elastream.spark.observe.own_work import marked
from elastream.spark.steer.restarting import QueryRestarter, Resumable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)

MOST_PARTITIONS: Final = 100_000
"""More are a slip of the finger: every one is a task and some files in every batch."""
_AGGREGATION: Final = "stateStoreSave"
_KNOWN: Final = frozenset(
    {
        _AGGREGATION,
        "dedupe",
        "dedupeWithinWatermark",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
        "transformWithStateExec",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    }
)
"""The operators whose keys Spark finds in their state."""


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """What was done."""

    before: int
    partitions: int
    batch: int
    """The batch that it added to the checkpoint."""
    seconds: float


def checked_repartitioning(
    checkpoint: Checkpoint, partitions: int, *, running: bool = False
) -> None:
    """Refuse in one line what Spark cannot do, or begins and does not end.

    ``running``: the query runs, so that its last batch may not have ended.
    """
    count("partitions", partitions, least=1, most=MOST_PARTITIONS)
    where, unfinished = checkpoint.location, checkpoint.unfinished
    why = _unsplittable(checkpoint)
    if why is None and unfinished is not None and unfinished != partitions:
        why = f"a repartitioning to {unfinished} was begun and not ended; ask for {unfinished}"
        raise ProblemError("partitions", f"{partitions}: {where}: {why} first")
    if why is None and unfinished is None:
        if partitions == checkpoint.partitions:
            raise ProblemError("partitions", f"{where} has {partitions} partitions already")
        if not running and checkpoint.started != checkpoint.committed:
            why = (
                f"batch {checkpoint.started} was begun and not committed: the query runs, or was "
                "cut. Start it again and end it with elastream.stop_gracefully, or let it run once "
                "with the trigger availableNow"
            )
    if why is not None:
        raise ProblemError("checkpoint", f"{where}: {why}")


def _unsplittable(checkpoint: Checkpoint) -> str | None:
    if checkpoint.provider != ROCKSDB_PROVIDER:
        kind = checkpoint.provider.rpartition(".")[2] or "unknown"
        return f"its state store is {kind}; only that of RocksDB can be repartitioned"
    strange = sorted({each.name for each in checkpoint.operators} - _KNOWN)
    if strange:
        names = join_names([name or "an operator without a name" for name in strange])
        return f"the keys of {names} are not known from their state, so it cannot be split"
    whole = frozenset(range(checkpoint.partitions))
    for operator in checkpoint.operators:
        if not whole <= operator.folders:
            return (
                f"operator {operator.id} has {len(operator.folders & whole)} partitions where "
                f"there are {checkpoint.partitions}: it has no key, so it cannot be split"
            )
    return None


def repartition_checkpoint(
    spark: SparkSession, location: str, partitions: int, *, before: Checkpoint | None = None
) -> Repartitioned:
    """Change the number of partitions of a stopped query; it uses them when it is started again.

    ``before``: how the checkpoint was some time ago. Where its batches have gone on since, the
    query runs, and nothing is touched. Raises ``ProblemError`` where nothing was changed, and
    ``SparkError`` where it was begun and has not ended: then it must be asked for again.
    """
    folder = local_folder(location)
    if folder is not None and folder.exists():
        location = folder.absolute().as_uri()
    checkpoint = read_checkpoint(location, spark)
    checked_repartitioning(checkpoint, partitions)
    if before is not None and before.started != checkpoint.started:
        why = f"batch {checkpoint.started} has come since; its query runs, stop it first"
        raise ProblemError("checkpoint", f"{location}: {why}")
    _expect_keys(spark, checkpoint)
    began = time.monotonic()
    try:
        repartition_state(spark, location, partitions, format_version=checkpoint.format_version)
    except SparkError as error:
        raise _cut(spark, location, error) from error
    seconds = time.monotonic() - began
    after = read_checkpoint(location, spark)
    if after.committed != after.started or after.partitions != partitions:
        raise SparkError(f"{location} has {after.partitions} partitions, not {partitions}")
    return Repartitioned(checkpoint.partitions, partitions, after.committed, seconds)


def _expect_keys(spark: SparkSession, checkpoint: Checkpoint) -> None:
    """Refuse aggregates over everything that look like those of a key, having one partition."""
    if checkpoint.partitions > 1:
        return
    for operator in checkpoint.operators:
        keyed = operator.name != _AGGREGATION or key_columns(
            spark, checkpoint.location, operator.id
        )
        if not keyed:
            why = f"operator {operator.id} has no key, so it cannot be split"
            raise ProblemError("checkpoint", f"{checkpoint.location}: {why}")


def _cut(spark: SparkSession, location: str, error: SparkError) -> ElastreamError:
    """Return what to say where Spark has failed: whether the checkpoint was touched."""
    unfinished = read_checkpoint(location, spark).unfinished
    if unfinished is None:
        return ProblemError("checkpoint", f"{location}: {error}; nothing was changed")
    return SparkError(
        f"{location}: the repartitioning to {unfinished} was begun and has not ended, and its "
        f"query does not start before it has; ask for it again: {error}"
    )


class SparkRepartitioner:
    """Changes the number of partitions of queries that a monitor watches."""

    def __init__(self, internals: SparkInternals, restarter: QueryRestarter) -> None:
        self._internals = internals
        self._restarter = restarter

    def repartition(
        self, query: str, partitions: int, places: Mapping[TaskId, str], *, ticket: Ticket
    ) -> Paused:
        """Return when the query runs again; raise where it was not repartitioned, and say why."""
        expect_repartitioning()
        found = self._restarter.resumable(query)
        watched, location = found.watched, found.location
        if (why := sink_refusal(watched.query)) is not None:
            raise QueryRefusedError(f"query {query} cannot be repartitioned: {why}")
        checkpoint = read_checkpoint(location, self._internals.spark)
        checked_repartitioning(checkpoint, partitions, running=True)
        before = checkpoint.partitions
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
        location, unfinished, changed = stopped.location, None, None
        try:
            checkpoint = read_checkpoint(location, self._internals.spark)
            unfinished = checkpoint.unfinished
            if checkpoint.partitions != before:
                changed = checkpoint.partitions
        except Exception:  # it cannot be read now, so the query may start
            _log.debug("the checkpoint cannot be read", exc_info=True)
        if unfinished is not None:
            why = (
                f"repartitioning was begun and failed: {failed}; `elastream repartition "
                f"{location} {unfinished}` ends what was begun and comes first"
            )
            raise stopped.stays_stopped(why) from failed
        self._restarter.start(stopped, partitions=changed)
