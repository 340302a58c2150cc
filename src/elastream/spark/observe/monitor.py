"""What an application does: its queries, batch by batch, and its executors. The monitor, on Spark.

One thread waits for what queries tell. At each progress report, the boundary between two batches of
a query, it fetches what all tasks did since, makes an observation of the query's own, and tells its
subscribers. About every second it looks which queries run, which of them are idle, whether jobs run
at all, and what executors did for nobody who takes part. A second thread waits for executors that
are lost, and tells that at once. Nothing of this is in the way of the queries. The Spark UI may be
off.

What cannot be read of one event, or one batch, costs that event or batch and no more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime
from typing import Any, Final, Self

from elastream.core.clock import steady_s
from elastream.core.events import (
    BatchObserved,
    ExecutorsChanged,
    Fact,
    QueryJoined,
    QueryLeft,
    QueryPassedOver,
    Status,
)
from elastream.model.observation import Executor
from elastream.model.words import printable
from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.endings import ending
from elastream.spark.observe.event_tap import EventTap, JobEvent, Poll, QueryEvent
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.own_work import OWN_NAME
from elastream.spark.observe.task_events import TASK_COUNTERS, finished_task
from elastream.spark.observe.watched_query import Backlog, WatchedQuery, refusal

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""How often the thread looks around while queries tell nothing."""
_LOOK_WITH_REPORT_S: Final = 0.5
"""After so long it does so with the next report, and so wakes up once for both."""
_NO_EXECUTOR_S: Final = 0.1
"""The same while no executor is alive, so that a batch does not wait long for one."""
_LOSS_S: Final = 10.0
_JOIN_S: Final = 5.0
_RESYNC_S: Final = 10.0
"""Executors are counted anew so often, should an event have been lost."""
_CHANGING_S: Final = 5.0
"""After one came or went they are counted often for so long: Spark's own count lags."""
_COUNT_S: Final = 0.5
"""How often that is."""
_LAG_S: Final = 0.02
_MOST_STAGES: Final = 10_000
"""Of so many it is known whose work they are; those of our own jobs do not add up for ever."""
_LATE_S: Final = 60.0
"""What Spark tells of a batch comes within so long of its end."""
_MOST_FAULTS: Final = 20
"""After so many looks in a row that failed the monitor gives up."""


class SparkMonitor:
    """Watches an application from :meth:`start` until :meth:`close` or the driver's end.

    ``wanted`` says of every query that is found whether it takes part; one that does, but cannot
    be steered, is passed over and told. ``backlog`` reads the rows that wait in the sources.
    """

    def __init__(
        self,
        internals: SparkInternals,
        registry: ExecutorRegistry,
        wanted: Callable[[RunningQuery], bool],
        *,
        backlog: Backlog | None = None,
        clock: Callable[[], float] = steady_s,
    ) -> None:
        self._internals = internals
        self._registry = registry
        self._wanted = wanted
        self.backlog = backlog
        self._clock = clock
        self._heard: tuple[Callable[[Fact], None], ...] = ()
        self._watched: dict[str, WatchedQuery] = {}
        """The queries that take part, by id."""
        self._joined: dict[str, QueryJoined] = {}
        """What was told when each of them joined."""
        self._passed_over: dict[str, str] = {}
        """The runs that do not take part, by id."""
        self._stages: dict[int, tuple[str | None, int]] = {}
        """Query id and batch of the stages of those that take part; ``None`` for our own work."""
        self._other_ms: dict[str, float] = {}
        self._dropped = 0
        self._looked_s = self._synced_s = self._changing_until_s = 0.0
        self._told_executors: tuple[Executor, ...] = ()
        self._told_warm: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._tap = EventTap(internals)
        self._closing = threading.Event()
        self.ended = threading.Event()
        """Set when the monitor has ended: closed, or because the driver has."""
        self._thread = threading.Thread(target=self._watch, name="elastream-monitor", daemon=True)
        self._losses = threading.Thread(
            target=self._watch_executor_losses, name="elastream-losses", daemon=True
        )

    def start(self) -> Self:
        """Begin to watch."""
        self._find_queries(self._internals.queries.active_ids())
        self._thread.start()
        self._losses.start()
        return self

    def subscribe(self, heard: Callable[[Fact], None]) -> Callable[[], None]:
        """Call ``heard`` with every fact from now on, in the monitor's thread, in order.

        The first batch of a query that is told of is the first that was seen whole.
        """
        with self._lock:
            for joined in self._joined.values():
                heard(joined)
            self._heard = (*self._heard, heard)

        def unsubscribe() -> None:
            with self._lock:
                self._heard = tuple(other for other in self._heard if other is not heard)

        return unsubscribe

    def watched(self) -> tuple[WatchedQuery, ...]:
        """Return the queries that take part, in the order they were found."""
        with self._lock:
            return tuple(self._watched.values())

    def named(self, name: str) -> WatchedQuery | None:
        """Return the query that the loop calls so."""
        return next((each for each in self.watched() if each.name == name), None)

    def look_again(self) -> None:
        """Ask anew which queries take part: somebody wants more, or fewer."""
        with self._lock:
            self._passed_over.clear()
            for watched in tuple(self._watched.values()):
                if not self._wanted(watched.query):
                    self._leave(watched, "it was let go")
            self._find_queries(self._internals.queries.active_ids())

    def close(self) -> None:
        """Stop watching; the queries run on."""
        self._closing.set()
        if not self._thread.is_alive():
            self._end()
        elif threading.current_thread() is not self._thread:
            self._hear_no_more()  # and so wait no more
            self._thread.join(_JOIN_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self) -> None:
        faults = 0
        while not self._closing.is_set() and faults < _MOST_FAULTS:
            try:
                self._look()
                faults = 0
            except Exception:
                faults += 1
                if not self._driver_is_alive():
                    break
                if faults == 1:
                    _log.warning("a look at the application failed", exc_info=True)
                self._closing.wait(_LOOK_S)
        if faults >= _MOST_FAULTS:
            _log.error("the monitor gives up after %d looks that failed", faults)
        self._end()

    def _watch_executor_losses(self) -> None:
        """Tell that an executor was lost at once, and not with the next look."""
        while not self._closing.is_set() and not self.ended.is_set():
            try:
                if self._tap.wait_for_a_loss(_LOSS_S):
                    self._tell_of_a_loss()
            except Exception:  # the driver ends, or the look that fails too says what is wrong
                self._closing.wait(_LOOK_S)

    def _tell_of_a_loss(self) -> None:
        """Tell who is alive as soon as Spark's own count, which lags a little, shows it."""
        before = self._told_executors
        for _ in range(round(_LOOK_S / _LAG_S)):
            with self._lock:
                self._sync_executors(time.monotonic(), anyway=True)
            if self._told_executors != before or self._closing.wait(_LAG_S):
                return

    def _look(self) -> None:
        alive = bool(self._told_executors)
        heard = self._tap.wait(self._rest_s() if alive else _NO_EXECUTOR_S)
        if self._closing.is_set():
            return
        events = heard.events
        with self._lock:
            now_s = time.monotonic()
            progress = [event.fields for event in events if event.kind == "progress"]
            since_s = now_s - self._looked_s
            due = since_s >= (_LOOK_WITH_REPORT_S if progress else _LOOK_S) or not alive
            self._dropped += heard.dropped
            self._sync_executors(now_s, changed=heard.executors_changed)
            if due or len(events) > len(progress):
                self._hear_life(events)
                self._find_queries(heard.idle.keys())
            if due or progress:
                self._fetch()
            for fields in progress:
                self._progressed(fields)
            if due:
                self._looked_s = now_s
                self._tell_status(heard)

    def _rest_s(self) -> float:
        """Return how long there is nothing to do where queries tell nothing."""
        now_s = time.monotonic()
        rest_s = max(0.0, self._looked_s + _LOOK_S - now_s)
        return min(rest_s, _COUNT_S) if now_s < self._changing_until_s else rest_s

    def _hear_life(self, events: Iterable[QueryEvent]) -> None:
        """Take leave of runs that have ended or were replaced by another of the same query."""
        for event in events:
            watched = self._watched.get(event.fields.get("id", ""))
            if watched is None or event.kind == "progress":
                continue
            same = event.fields["runId"] == watched.query.run_id
            if event.kind == "terminated" and same:
                self._leave_ended(watched, event.fields.get("exception"))
            elif event.kind == "started" and not same:
                self._leave(watched, "the query was started again")

    def _find_queries(self, running: Set[str]) -> None:
        """Take up queries that are new, take leave of those that are gone."""
        with self._lock:
            for watched in tuple(self._watched.values()):
                if watched.query.id not in running:
                    self._leave_ended(watched, self._internals.queries.fault(watched.query))
            known = self._watched.keys() | self._passed_over.keys()
            self._passed_over = {
                each: run for each, run in self._passed_over.items() if each in running
            }
            if not running <= known:
                for query in self._internals.queries.active():
                    if query.id not in known:
                        self._consider(query)
            for watched in self._watched.values():
                self._join(watched)

    def _consider(self, query: RunningQuery) -> None:
        if (query.name or "").startswith(OWN_NAME):
            return
        if not self._wanted(query):
            self._passed_over[query.id] = query.run_id
            return
        why = refusal(self._internals, query)
        if why is not None:
            self._passed_over[query.id] = query.run_id
            self._tell(QueryPassedOver(self._now_ms(), query.label, why))
            return
        taken = {watched.name for watched in self._watched.values()}
        name = query.label if query.label not in taken else f"{query.label} {query.id}"
        self._watched[query.id] = WatchedQuery(self._internals, query, name, self.backlog)

    def _join(self, watched: WatchedQuery) -> None:
        """Tell that a query takes part, as soon as its operators are known."""
        if watched.query.id in self._joined or not watched.planned():
            return
        joined = QueryJoined(
            self._now_ms(),
            watched.name,
            watched.query.run_id,
            watched.graph,
            len(watched.tasks),
            watched.trigger.interval_ms,
        )
        self._joined[watched.query.id] = joined
        self._tell(joined)

    def _leave_ended(self, watched: WatchedQuery, fault: str | None) -> None:
        """Take leave of a query that has ended; one that failed before it took part is told too."""
        why = ending(fault) if fault else None
        if why is not None and watched.query.id not in self._joined:
            failed = f"failed before its first batch: {why}"
            self._tell(QueryPassedOver(self._now_ms(), watched.name, failed))
        self._leave(
            watched, "the query has ended" if why is None else f"the query has ended: {why}"
        )

    def _leave(self, watched: WatchedQuery, why: str) -> None:
        del self._watched[watched.query.id]
        if self._joined.pop(watched.query.id, None) is not None:
            self._tell(QueryLeft(self._now_ms(), watched.name, watched.query.run_id, why))

    def _fetch(self) -> None:
        """Take in what tasks did since the last time."""
        names = set(TASK_COUNTERS)
        for watched in self._watched.values():
            watched.planned()
            names.update(watched.counters)
        work = self._tap.fetch(sorted(names))
        self._stages |= _stages_of(work.jobs, self._watched.keys())
        for stage in tuple(self._stages)[:-_MOST_STAGES]:
            del self._stages[stage]
        for event in work.tasks:
            query, batch = self._stages.get(event.stage, ("", -1))
            if query is None:
                continue
            own = self._watched.get(query)
            if own is not None and batch >= 0:
                own.finish(batch, event)
            else:
                task = finished_task(event, {})
                self._other_ms[task.executor] = self._other_ms.get(task.executor, 0.0) + task.run_ms

    def _progressed(self, progress: Mapping[str, Any]) -> None:
        """Tell what a batch did; one that cannot be read is passed over."""
        watched = self._watched.get(progress["id"])
        if watched is None or watched.query.run_id != progress["runId"]:
            return
        self._join(watched)
        batch = progress["batchId"]
        try:
            observed = watched.observed(progress, self._committed_ms(progress))
        except Exception:
            name = printable(watched.name)
            _log.warning("batch %s of query %s cannot be read", batch, name, exc_info=True)
            observed = None
        self._stages = {
            stage: (query, of)
            for stage, (query, of) in self._stages.items()
            if query != progress["id"] or of > batch
        }
        if observed is not None:
            if self._registry.warmed(task.executor for task in observed.tasks):
                self._sync_executors(time.monotonic(), anyway=True)
            self._tell(BatchObserved(observed))

    def _sync_executors(self, now_s: float, *, changed: bool = False, anyway: bool = False) -> None:
        """Tell which executors are alive, where that has changed."""
        if changed:
            self._changing_until_s = now_s + _CHANGING_S
        changing = now_s < self._changing_until_s
        warm = self._registry.warm
        fresh = warm != self._told_warm
        if changing or anyway or now_s - self._synced_s >= _RESYNC_S or fresh:
            self._synced_s, self._told_warm = now_s, warm
            executors = self._registry.executors()
            if executors != self._told_executors:
                self._told_executors = executors
                self._tell(ExecutorsChanged(self._now_ms(), executors))

    def _tell_status(self, heard: Poll) -> None:
        watched = self._watched.values()
        idle = frozenset(each.name for each in watched if heard.idle.get(each.query.id))
        other, self._other_ms = self._other_ms, {}
        dropped, self._dropped = self._dropped, 0
        self._tell(Status(self._now_ms(), idle, heard.jobs, other, dropped))

    def _tell(self, fact: Fact) -> None:
        for heard in self._heard:
            try:
                heard(fact)
            except Exception:
                _log.exception("a subscriber failed at %s", type(fact).__name__)

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _committed_ms(self, progress: Mapping[str, Any]) -> int:
        """Return when a batch has ended, by our clock: Spark tells it by the machine's.

        Where that was set in between the two do not fit, and it has ended just now.
        """
        began = datetime.fromisoformat(progress["timestamp"])
        on_the_wall = began.timestamp() + float(progress["batchDuration"]) / 1000
        now_s = self._clock()
        ago_s = time.time() - on_the_wall
        return round(1000 * (now_s - ago_s if 0 <= ago_s <= _LATE_S else now_s))

    def _driver_is_alive(self) -> bool:
        try:
            self._internals.active_jobs()
        except Exception:
            return False
        return True

    def _end(self) -> None:
        self._hear_no_more()
        self.ended.set()

    def _hear_no_more(self) -> None:
        try:
            self._tap.close()
        except Exception:
            _log.debug("the driver ended before its listener was removed")


def _stages_of(jobs: Iterable[JobEvent], watched: Set[str]) -> dict[int, tuple[str | None, int]]:
    """Return the query and the batch of each stage of these queries, and of our own jobs."""
    found: dict[int, tuple[str | None, int]] = {}
    for job in jobs:
        if job.own or job.query in watched:
            batch = -1 if job.batch is None else job.batch
            found |= dict.fromkeys(job.stages, (None if job.own else job.query, batch))
    return found
