"""What a query does, batch by batch: the monitor of the loop, on Spark.

One thread waits for the query's progress reports, each the boundary between two batches. It fetches
what the batch's tasks did (:mod:`elastream.spark.event_tap`), makes an observation of it
(:mod:`elastream.spark.task_events`) and tells its subscribers. Nothing of this is in the way of the
query: the thread works while the next batch runs. The Spark UI may be off.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from elastream.control.observation import BatchObservation
from elastream.model.errors import QueryRefusedError
from elastream.spark.event_tap import EventTap, JobEvent
from elastream.spark.private_door import PrivateDoor, StatefulOperator
from elastream.spark.task_events import METRICS, FinishedTask, Ledger, batch_tasks, finished_task

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Monitor", "kafka_backlog"]

_log = logging.getLogger(__name__)

_WAIT_S: Final = 1.0
"""How long the thread waits for a report before it looks whether it shall end."""
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties by which Spark marks the jobs of a batch."""


class Monitor:
    """Watches one running query from the moment it is made until :meth:`close` or the query's end.

    ``backlog`` reads the rows that wait in the sources from a progress report, as Spark's JSON.
    """

    def __init__(
        self,
        door: PrivateDoor,
        query: StreamingQuery,
        *,
        backlog: Callable[[Mapping[str, Any]], int | None] | None = None,
    ) -> None:
        if not query.isActive:
            raise QueryRefusedError(f"the query {query.name or query.id} is not running")
        self._door = door
        self._query = query
        self._query_id = str(query.id)
        self._run_id = str(query.runId)
        self._backlog = backlog or kafka_backlog
        self._heard: list[Callable[[BatchObservation], None]] = []
        self._operators: tuple[StatefulOperator, ...] = ()
        self._metric_names: Mapping[str, str] = {}
        self._stages: dict[int, int] = {}
        """The batch of each stage of the query."""
        self._finished: list[tuple[int, FinishedTask]] = []
        """Tasks of batches that are not told yet, each with its batch."""
        self._ledger: Ledger = {}
        self._last_end_ms: int | None = None
        self._tap = EventTap(door, query)
        self._closing = threading.Event()
        self.ended = threading.Event()
        """Set when the query has ended, for whatever reason, or the monitor was closed."""
        self._thread = threading.Thread(target=self._watch, name="elastream-monitor", daemon=True)
        self._thread.start()

    def subscribe(self, heard: Callable[[BatchObservation], None]) -> Callable[[], None]:
        """Call ``heard`` once after every batch, in the monitor's thread, in order.

        The first batch that is told of is the first that the monitor saw whole.
        """
        self._heard = [*self._heard, heard]

        def unsubscribe() -> None:
            self._heard = [other for other in self._heard if other is not heard]

        return unsubscribe

    def close(self) -> None:
        """Stop watching; the query runs on."""
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self) -> None:
        try:
            while not self._closing.is_set():
                progress = self._tap.wait(_WAIT_S)
                self._fetch()
                if progress is not None and progress["runId"] == self._run_id:
                    self._tell(progress)
                elif progress is None and not self._query.isActive:
                    break
        except Exception:
            if self._driver_is_alive():
                _log.exception("the monitor of query %s failed and ends", self._query_id)
        finally:
            self.ended.set()
            self._untap()

    def _fetch(self) -> None:
        jobs, tasks = self._tap.fetch()
        self._stages |= _stages_of(jobs, self._query_id)
        if not self._operators:
            self._operators = self._door.operators(self._query) or ()
            self._metric_names = self._door.metric_names(self._query, METRICS)
        for event in tasks:
            batch = self._stages.get(event.stage)
            task = None if batch is None else finished_task(event, self._metric_names)
            if batch is not None and task is not None:
                self._finished.append((batch, task))

    def _tell(self, progress: Mapping[str, Any]) -> None:
        batch = progress["batchId"]
        finished = [task for of, task in self._finished if of == batch]
        self._finished = [(of, task) for of, task in self._finished if of > batch]
        self._stages = {stage: of for stage, of in self._stages.items() if of > batch}
        seen = batch_tasks(finished, self._operators, self._ledger)
        whole = {operator.group: operator.partitions for operator in self._operators}
        if self._last_end_ms is None and len(seen.tasks) < sum(whole.values()):
            return
        self._ledger = seen.ledger
        start_ms = datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000
        duration_ms = float(progress["batchDuration"])
        end_ms = round(start_ms + duration_ms)
        interval_ms = None if self._last_end_ms is None else float(end_ms - self._last_end_ms)
        self._last_end_ms = end_ms
        observation = BatchObservation(
            batch=batch,
            duration_ms=duration_ms,
            rows=progress["numInputRows"],
            backlog=self._backlog(progress),
            finished_at_ms=end_ms,
            interval_ms=interval_ms,
            tasks=seen.tasks,
        )
        for heard in self._heard:
            try:
                heard(observation)
            except Exception:
                _log.exception("a subscriber failed at batch %d", batch)

    def _driver_is_alive(self) -> bool:
        try:
            return not self._closing.is_set() and self._query.isActive
        except Exception:
            return False

    def _untap(self) -> None:
        try:
            self._tap.close()
        except Exception:
            _log.debug("the driver ended before its listeners were removed")


def _stages_of(jobs: Iterable[JobEvent], query_id: str) -> dict[int, int]:
    """Return the batch of each stage that the jobs run for the query."""
    return {
        stage: int(job.properties[_BATCH_ID])
        for job in jobs
        if job.properties.get(_QUERY_ID) == query_id and _BATCH_ID in job.properties
        for stage in job.stages
    }


def kafka_backlog(progress: Mapping[str, Any]) -> int | None:
    """Return the rows that wait in the query's Kafka topics; ``None`` with any other source."""
    behind = 0
    for source in progress["sources"]:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if "Kafka" not in source["description"] or not isinstance(latest, dict):
            return None
        for topic, partitions in latest.items():
            read = (end or {}).get(topic, {})
            behind += sum(offset - read.get(part, 0) for part, offset in partitions.items())
    return behind
