"""The executors of a session: how they come, get ready for state, and go.

A node that joins a stream in the papers is ready; a JVM is not. Its first stateful task loads
classes, compiles code and opens RocksDB for seconds, and the batch waits for it. So a new executor
is warmed by a throw-away query (:mod:`elastream.spark.warm_up`) before it gets state. And a node
that leaves must be empty: :meth:`ExecutorPool.release` refuses an executor that holds state of any
query in the session. The others are decommissioned, not killed: tasks of stateless stages go
wherever a core is free, so that an executor without state may still hold shuffle files which the
running batch needs; killed in that moment, it costs that batch seconds (13 s against 2 s, tried).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from elastream.control.observation import BatchObservation, Executor
from elastream.model.checks import count
from elastream.model.errors import SparkError, StateHeldError
from elastream.spark.private_door import ExecutorEntry, PrivateDoor
from elastream.spark.warm_up import aggregation_stream, first_job, warm_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from elastream.spark.monitor import Monitor
    from elastream.spark.placement import StatePlacement

__all__ = ["ExecutorPool"]

_log = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_RELEASE_TIMEOUT_S: Final = 60.0


class ExecutorPool:
    """Brings executors and takes them away, for the query that ``placement`` and ``monitor`` know.

    ``stream`` makes the throw-away streaming aggregation, join or the like that warms a new
    executor; one of the same shape as the query warms best.
    """

    def __init__(
        self,
        door: PrivateDoor,
        placement: StatePlacement,
        monitor: Monitor,
        *,
        stream: Callable[[SparkSession], DataFrame] = aggregation_stream,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._door = door
        self._placement = placement
        self._stream = stream
        self._clock = clock
        self._warm = set(placement.where().values())
        self.close = monitor.subscribe(self._note_warm)

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""
        return tuple(self._described(entry) for entry in self._door.executors())

    def grow(self, total: int, *, timeout_s: float) -> tuple[Executor, ...]:
        """Ask for ``total`` executors and return those alive when they came, or at the timeout.

        Where fewer came, the request is taken back, so that none comes later unasked.
        """
        count("total", total, least=1)
        deadline = time.monotonic() + timeout_s
        known = {entry.id for entry in self._door.executors()}
        if len(known) < total and not self._door.request_executors(total):
            raise SparkError("the cluster manager takes no requests for executors")
        first_jobs: list[threading.Thread] = []
        while True:
            alive = self._door.executors()
            for entry in alive:
                if entry.id not in known:
                    known.add(entry.id)
                    first_jobs.append(self._begin_first_job(entry))
            if len(alive) >= total:
                break
            if time.monotonic() > deadline:
                self._door.request_executors(max(1, len(alive)))
                _log.warning(
                    "%d of %d executors within %g s: the cluster has no free slot for more",
                    len(alive),
                    total,
                    timeout_s,
                )
                break
            time.sleep(_POLL_S)
        for job in first_jobs:
            job.join()
        return self.executors()

    def _begin_first_job(self, executor: ExecutorEntry) -> threading.Thread:
        def run() -> None:
            try:
                first_job(self._door, executor)
            except Exception:  # it only spares the query a slow batch
                _log.warning("the first job on executor %s failed", executor.id, exc_info=True)

        thread = threading.Thread(target=run, name=f"elastream-first-{executor.id}", daemon=True)
        thread.start()
        return thread

    def warm(self, ids: Sequence[str]) -> None:
        """Make the executors ready for state; returns when they are."""
        cold = [entry for entry in self._entries(ids) if entry.id not in self._warm]
        if cold:
            beside = self._placement.operators[0].root
            warm_up(self._door, cold, self._stream, beside=beside)
            self._warm.update(entry.id for entry in cold)

    def release(self, ids: Sequence[str]) -> None:
        """Take the executors away; refused while one of them still holds state of any query."""
        leaving = self._entries(ids)
        names = {entry.id for entry in leaving}
        self._refuse_while_held(names)
        self._door.retire_executors([entry.id for entry in leaving])
        deadline = time.monotonic() + _RELEASE_TIMEOUT_S
        while names & {entry.id for entry in self._door.executors()}:
            if time.monotonic() > deadline:
                raise SparkError(f"executors {_listed(names)} did not end when told to")
            time.sleep(_POLL_S)
        self._warm -= names
        self._door.request_executors(len(self._door.executors()))

    def _entries(self, ids: Sequence[str]) -> list[ExecutorEntry]:
        alive = {entry.id: entry for entry in self._door.executors()}
        for executor in ids:
            if executor not in alive:
                raise SparkError(f"executor {executor} is not alive")
        return [alive[executor] for executor in dict.fromkeys(ids)]

    def _refuse_while_held(self, ids: set[str]) -> None:
        held = sum(executor in ids for executor in self._placement.where().values())
        heading = sum(executor in ids for executor in self._placement.unsettled.values())
        if held or heading:
            raise StateHeldError(
                f"executors {_listed(ids)} are not released: {held} tasks of the query are on "
                f"them and {heading} are on their way to them"
            )
        for query in self._door.spark.streams.active:
            stores = self._door.stores_on(query, ids)
            if stores:
                raise StateHeldError(
                    f"executors {_listed(ids)} are not released: the query "
                    f"{query.name or query.id} has {stores} state stores on them"
                )

    def _described(self, entry: ExecutorEntry) -> Executor:
        return Executor(
            id=entry.id,
            host=entry.host,
            age_s=max(0.0, self._clock() - entry.added_ms / 1000),
            warm=entry.id in self._warm,
            cores=entry.cores,
        )

    def _note_warm(self, seen: BatchObservation) -> None:
        self._warm.update(task.executor for task in seen.tasks)


def _listed(ids: set[str]) -> str:
    return ", ".join(sorted(ids))
