"""What an application does: its queries, batch by batch, and its executors. The monitor, on Spark.

One thread waits for the reports of queries. At each progress report, the boundary between two
batches, it fetches what all tasks did since, makes an observation, and calls its subscribers. About
every second it checks which queries run, which of them are idle, whether jobs run, and what
executors did for other work. A second thread reports lost executors at once. Nothing of this delays
the queries. The Spark UI may be off. An event or a batch that cannot be read is passed over.
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
    BoundaryNear,
    ExecutorsChanged,
    Fact,
    LoadObserved,
    QueryJoined,
    QueryLeft,
    QueryPassedOver,
    Status,
)
from elastream.model.observation import Executor
from elastream.model.words import printable
from elastream.spark.internals.event_tap import (
    EventTap,
    JobEvent,
    Poll,
    QueryEvent,
    RunningTask,
    TaskEvent,
)
from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.realtime import Gauges
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.endings import ending
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.foreign_work import ForeignWork
from elastream.spark.observe.own_work import OWN_NAME
from elastream.spark.observe.task_events import TASK_COUNTERS, finished_task
from elastream.spark.observe.waiting import SlotHistory, SlotUse
from elastream.spark.observe.watched_query import Backlog, WatchedQuery, refusal

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
"""How often the thread looks around while queries report nothing."""
_LOOK_WITH_REPORT_S: Final = 0.5
"""After this time it does so with the next report, and so wakes up once for both."""
_NO_EXECUTOR_S: Final = 0.1
"""The same while no executor is alive, so that a batch does not wait long for one."""
_LOSS_S: Final = 10.0
_JOIN_S: Final = 5.0
_RESYNC_S: Final = 10.0
"""How often executors are counted anew, should an event have been lost."""
_CHANGING_S: Final = 5.0
"""How long they are counted often after one came or went: Spark's own count lags."""
_COUNT_S: Final = 0.5
_LAG_S: Final = 0.02
_MOST_STAGES: Final = 10_000
"""How many stages are remembered; those of our own jobs do not add up for ever."""
_LATE_S: Final = 60.0
"""A batch is reported within this time of its end."""
_MOST_FAULTS: Final = 20
"""The monitor gives up after this number of looks in a row that failed."""


class SparkMonitor:
    """Watches an application from :meth:`start` until :meth:`close` or the driver's end.

    ``wanted`` decides of every query that is found whether it takes part; one that cannot be
    steered is passed over and reported. ``backlog`` reads the rows that wait in the sources.
    ``failed`` is called with each that has failed, and what Spark says.
    """

    def __init__(
        self,
        internals: SparkInternals,
        registry: ExecutorRegistry,
        wanted: Callable[[RunningQuery], bool],
        *,
        backlog: Backlog | None = None,
        failed: Callable[[WatchedQuery, str], None] = lambda _query, _fault: None,
    ) -> None:
        self._internals = internals
        self._failed = failed
        self._registry = registry
        self._wanted = wanted
        self._backlog = backlog
        self._subscribers: tuple[Callable[[Fact], None], ...] = ()
        self._watched: dict[str, WatchedQuery] = {}
        """The queries that take part, by id."""
        self._joined: dict[str, QueryJoined] = {}
        """The fact of each that has joined."""
        self._passed_over: dict[str, str] = {}
        """The runs that do not take part, by id."""
        self._stages: dict[int, tuple[str | None, int]] = {}
        """Query id and batch of the stages of those that take part; ``None`` for our own work."""
        self._foreign = ForeignWork(_driver_ms())
        self._slot_history = SlotHistory()
        self._batch_ends_ms: dict[str, int] = {}
        """When the last task of the last batch of each query ended, by the driver's clock."""
        self._dropped = 0
        self._looked_s = self._synced_s = self._changing_until_s = 0.0
        self._executors: tuple[Executor, ...] = ()
        self._warm: frozenset[str] = frozenset()
        self._lock = threading.RLock()
        self._tap = EventTap(internals)
        self._gauges = Gauges(internals)
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

    def subscribe(self, subscriber: Callable[[Fact], None]) -> Callable[[], None]:
        """Call ``subscriber`` with every fact from now on, in the monitor's thread, in order.

        The first batch of a query that is reported is the first that was seen whole.
        """
        with self._lock:
            for joined in self._joined.values():
                subscriber(joined)
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                kept = (other for other in self._subscribers if other is not subscriber)
                self._subscribers = tuple(kept)

        return unsubscribe

    def watched(self) -> tuple[WatchedQuery, ...]:
        """Return the queries that take part, in the order they were found."""
        with self._lock:
            return tuple(self._watched.values())

    def named(self, name: str) -> WatchedQuery | None:
        """Return the query of this name."""
        return next((each for each in self.watched() if each.name == name), None)

    def look_again(self) -> None:
        """Check anew which queries take part, when ``wanted`` has changed."""
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
            self._stop_listening()  # which ends its wait
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
                if not self._internals.is_alive():
                    break
                if faults == 1:
                    _log.warning("a look at the application failed", exc_info=True)
                self._closing.wait(_LOOK_S)
        if faults >= _MOST_FAULTS:
            _log.error("the monitor gives up after %d looks that failed", faults)
        self._end()

    def _watch_executor_losses(self) -> None:
        """Report a lost executor at once, and not with the next look."""
        while not self._closing.is_set() and not self.ended.is_set():
            try:
                if self._tap.wait_for_a_loss(_LOSS_S):
                    self._report_loss()
            except Exception:  # the driver ends, or the look that fails too says what is wrong
                self._closing.wait(_LOOK_S)

    def _report_loss(self) -> None:
        """Report who is alive as soon as Spark's own count, which lags a little, shows it."""
        before = self._executors
        for _ in range(round(_LOOK_S / _LAG_S)):
            with self._lock:
                self._sync_executors(time.monotonic(), anyway=True)
            if self._executors != before or self._closing.wait(_LAG_S):
                return

    def _look(self) -> None:
        alive = bool(self._executors)
        poll = self._tap.wait(self._rest_s() if alive else _NO_EXECUTOR_S)
        if self._closing.is_set():
            return
        with self._lock:
            now_s = time.monotonic()
            progress = [event.fields for event in poll.events if event.kind == "progress"]
            since_s = now_s - self._looked_s
            due = since_s >= (_LOOK_WITH_REPORT_S if progress else _LOOK_S) or not alive
            self._dropped += poll.dropped
            self._sync_executors(now_s, changed=poll.executors_changed)
            if due or len(poll.events) > len(progress):
                self._note_lives(poll.events)
                self._find_queries(poll.idle.keys())
            if due or progress:
                self._fetch()
            for fields in progress:
                self._progressed(fields)
            if due:
                self._looked_s = now_s
                self._publish_status(poll)
            self._report_boundaries()

    def _rest_s(self) -> float:
        """Return how long there is nothing to do while queries report nothing."""
        now_s = time.monotonic()
        rest_s = max(0.0, self._looked_s + _LOOK_S - now_s)
        near_s = (each.realtime.near_in_s() for each in self.watched() if each.realtime)
        rest_s = max(0.0, min((rest_s, *near_s)))
        return min(rest_s, _COUNT_S) if now_s < self._changing_until_s else rest_s

    def _note_lives(self, events: Iterable[QueryEvent]) -> None:
        """Remove runs that have ended or were replaced by another of the same query."""
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
            self._publish(QueryPassedOver(self._now_ms(), query.label, why))
            return
        taken = {watched.name for watched in self._watched.values()}
        name = query.label if query.label not in taken else f"{query.label} {query.id}"
        self._watched[query.id] = WatchedQuery(
            self._internals, query, name, self._backlog, self._gauges
        )

    def _join(self, watched: WatchedQuery) -> None:
        if watched.query.id in self._joined or not watched.planned():
            return
        slots = 0 if watched.realtime is None else watched.realtime.slots
        if watched.realtime is not None and not slots:  # not all of its tasks run yet
            return
        joined = QueryJoined(
            self._now_ms(),
            watched.name,
            watched.query.run_id,
            watched.graph,
            len(watched.tasks),
            watched.trigger.interval_ms,
            watched.realtime is not None,
            slots,
        )
        self._joined[watched.query.id] = joined
        self._publish(joined)

    def _leave_ended(self, watched: WatchedQuery, fault: str | None) -> None:
        """Remove a query that has ended; one that failed before it took part is reported too."""
        why = f": {ending(fault)}" if fault else ""
        if why and watched.query.id not in self._joined:
            failed = f"failed before its first batch{why}"
            self._publish(QueryPassedOver(self._now_ms(), watched.name, failed))
        self._leave(watched, f"the query has ended{why}")
        if fault:
            self._failed(watched, fault)

    def _leave(self, watched: WatchedQuery, why: str) -> None:
        del self._watched[watched.query.id]
        self._batch_ends_ms.pop(watched.query.id, None)
        if self._joined.pop(watched.query.id, None) is not None:
            self._publish(QueryLeft(self._now_ms(), watched.name, watched.query.run_id, why))

    def _fetch(self) -> None:
        names = set(TASK_COUNTERS)
        for watched in self._watched.values():
            watched.planned()
            names.update(watched.counters)
        work = self._tap.fetch(sorted(names))
        self._stages |= _stages_of(work.jobs, self._watched.keys())
        for stage in tuple(self._stages)[:-_MOST_STAGES]:
            del self._stages[stage]
        foreign: list[tuple[TaskEvent, int]] = []
        for event in work.tasks:
            query, batch = self._stages.get(event.stage, ("", -1))
            self._slot_history.add(query, SlotUse(event.stage, event.executor, event.times))
            own = self._watched.get(query or "")
            if own is not None and batch >= 0:
                own.finish(batch, event)
            elif query is not None:
                foreign.append((event, finished_task(event, {}).run_ms))
        owners = [(self._stages.get(task.stage, ("", -1)), task) for task in work.running]
        self._slot_history.set_running((query, task) for (query, _), task in owners)
        others = (
            task
            for (query, batch), task in owners
            if query is not None and (query not in self._watched or batch < 0)
        )
        self._foreign.add(foreign, others, _driver_ms())
        running: dict[str, list[tuple[int, RunningTask]]] = {}
        for (query, batch), task in owners:
            if query is not None and batch >= 0:
                running.setdefault(query, []).append((batch, task))
        self._look_at_realtime(running)

    def _look_at_realtime(self, running: Mapping[str, list[tuple[int, RunningTask]]]) -> None:
        """Report what Real-time queries do; one that cannot be read is passed over.

        ``running``: of each query, by id, the tasks that run, with their batch.
        """
        for watched in self._watched.values():
            try:
                load = watched.look(running.get(watched.query.id, ()))
            except Exception:
                name = printable(watched.name)
                _log.warning("the batch of query %s cannot be read", name, exc_info=True)
                continue
            if load is not None:
                self._join(watched)
                self._publish(LoadObserved(load))

    def _report_boundaries(self) -> None:
        for watched in self._watched.values():
            batches = watched.realtime
            if batches is not None and batches.ends_at_ms is not None and batches.is_near():
                run = watched.query.run_id
                self._publish(BoundaryNear(self._now_ms(), watched.name, run, batches.ends_at_ms))

    def _progressed(self, progress: Mapping[str, Any]) -> None:
        """Report what a batch did; one that cannot be read is passed over."""
        watched = self._watched.get(progress["id"])
        if watched is None or watched.query.run_id != progress["runId"]:
            return
        self._join(watched)
        batch = progress["batchId"]
        if watched.realtime is not None:
            watched.realtime.ended(batch)
        try:
            waited_ms = self._waited_ms(watched, batch)
            observed = watched.observed(progress, self._committed_ms(progress), waited_ms)
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
            self._publish(BatchObserved(observed))

    def _waited_ms(self, watched: WatchedQuery, batch: int) -> float:
        """Return how long a batch waited for slots; what no batch can wait for is forgotten."""
        query, uses = watched.query.id, watched.slot_uses(batch)
        slots = {executor.id: executor.slots for executor in self._executors}
        waited_ms = self._slot_history.waited_ms(query, uses, slots)
        if uses:
            self._batch_ends_ms[query] = max(use.times.finished_ms for use in uses)
        ends_ms = [self._batch_ends_ms.get(each, 0) for each in self._watched]
        self._slot_history.forget_before(min(ends_ms, default=0))
        return waited_ms

    def _sync_executors(self, now_s: float, *, changed: bool = False, anyway: bool = False) -> None:
        """Report which executors are alive, where that has changed."""
        if changed:
            self._changing_until_s = now_s + _CHANGING_S
        changing = now_s < self._changing_until_s
        warm = self._registry.warm
        overdue = now_s - self._synced_s >= _RESYNC_S
        if changing or anyway or overdue or warm != self._warm:
            self._synced_s, self._warm = now_s, warm
            executors = self._registry.executors()
            if executors != self._executors:
                self._executors = executors
                self._slot_history.keep({executor.id for executor in executors})
                self._publish(ExecutorsChanged(self._now_ms(), executors))

    def _publish_status(self, poll: Poll) -> None:
        watched = self._watched.values()
        idle = frozenset(  # a Real-time query seems idle for a moment between two batches
            each.name for each in watched if each.realtime is None and poll.idle.get(each.query.id)
        )
        other = self._foreign.take()
        dropped, self._dropped = self._dropped, 0
        memory = self._registry.memory
        self._publish(Status(self._now_ms(), idle, poll.jobs, other, dropped, memory))

    def _publish(self, fact: Fact) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(fact)
            except Exception:
                _log.exception("a subscriber failed at %s", type(fact).__name__)

    def _now_ms(self) -> int:
        return round(steady_s() * 1000)

    def _committed_ms(self, progress: Mapping[str, Any]) -> int:
        """Return when a batch has ended, by our clock: Spark reports it by the machine's.

        Where that was set in between, the two do not fit: then it has ended just now.
        """
        began = datetime.fromisoformat(progress["timestamp"])
        now_s = steady_s()
        ago_s = time.time() - began.timestamp() - float(progress["batchDuration"]) / 1000
        return round(1000 * (now_s - ago_s if 0 <= ago_s <= _LATE_S else now_s))

    def _end(self) -> None:
        self._stop_listening()
        self.ended.set()

    def _stop_listening(self) -> None:
        try:
            self._tap.close()
            self._gauges.close()
        except Exception:
            _log.debug("the driver ended before its listener was removed")


def _driver_ms() -> float:
    """Return the driver's clock, which is this machine's."""
    return time.time() * 1000


def _stages_of(jobs: Iterable[JobEvent], watched: Set[str]) -> dict[int, tuple[str | None, int]]:
    """Return the query and the batch of each stage of these queries, and of our own jobs."""
    found: dict[int, tuple[str | None, int]] = {}
    for job in jobs:
        if job.own or job.query in watched:
            batch = -1 if job.batch is None else job.batch
            found |= dict.fromkeys(job.stages, (None if job.own else job.query, batch))
    return found
