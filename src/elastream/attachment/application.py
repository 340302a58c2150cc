"""One application (a SparkContext) with its controller: the ports on Spark, joined to the core.

Nothing is decided here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.attachment.trace_recorder import TraceRecorder
from elastream.core.decision_log import LogEntry
from elastream.core.decisions import Decision
from elastream.core.driver import Controller
from elastream.core.events import Request, UpdateRequested
from elastream.core.learning import LearningPlanner, Learnt, Lesson
from elastream.core.policy import Policy, planner_named
from elastream.core.ports import Runtime, Ticket
from elastream.core.state import LoopState
from elastream.model.errors import ProblemError
from elastream.spark.internals.queries import RunningQuery
from elastream.spark.internals.repartitioning import expect_repartitioning
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.host_delays import HostProbe
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import Backlog, WatchedQuery
from elastream.spark.steer.copies import SparkStateCopies
from elastream.spark.steer.executors import SparkExecutorPool
from elastream.spark.steer.placement import SparkStatePlacement
from elastream.spark.steer.repartition import SparkRepartitioner
from elastream.spark.steer.restarting import QueryRestarter, Restart
from elastream.spark.steer.supervising import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_log = logging.getLogger(__name__)

_QUIET: Final = ("hold", "wait")
_RECENT: Final = 8
_POLL_S: Final = 0.2

WarmUpStream = Callable[["SparkSession"], "DataFrame"]

LOCK = threading.RLock()
APPLICATIONS: dict[str, Application] = {}
"""The applications of this process that have a loop, by Spark's id."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What one attachment brings: some queries, or all of them, and how they are started again."""

    labels: frozenset[str] | None
    """Their names; ``None`` for all."""
    restarts: Mapping[str, Restart] = field(default_factory=dict)
    """How queries are started again, by name; may grow."""

    def wants(self, query: RunningQuery) -> bool:
        """Whether a query shall take part: one that is started again has the same label."""
        return self.labels is None or query.label in self.labels


class Application:
    """One SparkContext with its loop."""

    def __init__(
        self,
        internals: SparkInternals,
        policy: Policy,
        *,
        backlog: Backlog | None,
        stream: WarmUpStream | None,
        trace: Path | str | None,
    ) -> None:
        self.internals = internals
        self.id = internals.application_id()
        self.recent: tuple[Decision, ...] = ()
        """What was decided last, holds and waits left out."""
        self._wanted: tuple[Wanted, ...] = ()
        self._leaving = False
        """Whether the last attachment has let go."""
        self._ending = threading.RLock()
        self._over = False
        registry = ExecutorRegistry(internals)
        self.monitor = SparkMonitor(
            internals,
            registry,
            self._wants,
            backlog=backlog,
            failed=lambda query, fault: self.supervisor.on_failure(query, fault),
        )
        self.pool = SparkExecutorPool(
            internals, registry, self.monitor, stream=stream, acts=self._acts
        )
        self.copies = SparkStateCopies(
            internals, self.monitor, lambda lost: self.controller.feed(lost), self.pool.slots
        )
        self.restarter = QueryRestarter(internals, self.monitor, self._restart_of)
        self.supervisor = Supervisor(
            internals,
            self.restarter,
            self.pool.slots,
            self._restart_of,
            lambda restarted: self.controller.feed(restarted),
        )
        folder = None if trace is None else Path(trace)
        recorder = None if folder is None else TraceRecorder(folder)
        runtime = Runtime(
            self.monitor,
            self.pool,
            SparkStatePlacement(internals, self.monitor, self.copies, self.pool.holds),
            HostProbe(internals),
            _Lessons(folder),
            self.copies,
            SparkRepartitioner(internals, self.restarter),
        )
        self.controller = Controller(
            runtime,
            policy,
            (lambda _: None) if recorder is None else recorder.write,
            learning=None if recorder is None else recorder.learning,
            past=() if recorder is None else recorder.past(),
            on_failure=self.monitor.close,
        )
        self.controller.add_log(self._remember)

    def start(self) -> None:
        """Begin to watch and to decide."""
        try:
            self.monitor.subscribe(self.copies.take_in)
            self.monitor.subscribe(self.pool.holds.take_in)
            self.monitor.subscribe(self.pool.take_in)
            self.controller.start()
            self.monitor.start()
        except BaseException:
            self.end()
            raise
        threading.Thread(target=self._end_with_the_monitor, daemon=True).start()

    @property
    def ends(self) -> bool:
        """Whether its controller has ended, or is about to: it cannot be joined any more."""
        return self._leaving or self.controller.ended.is_set() or self.monitor.ended.is_set()

    def hold(self, wanted: Wanted) -> None:
        """Let more queries take part."""
        self._wanted = (*self._wanted, wanted)

    @property
    def state(self) -> LoopState:
        """What the controller knows now; immutable."""
        return self.controller.state

    def request(self, event: Request) -> tuple[Decision, ...]:
        """Take in what somebody asks for; return what was logged about it.

        Raises ``ElastreamError`` for a policy that cannot be followed here, which changes nothing.
        """
        if isinstance(event, UpdateRequested) and event.policy.repartition:
            expect_repartitioning()
            if not any(wanted.restarts for wanted in self._wanted):
                why = "needs functions that start queries again: give restart to attach"
                raise ProblemError("repartition", why)
        return self.controller.request(event)

    def paused(self, query: str | None = None) -> bool:
        """Whether a query, or any, is stopped for a change and not running again yet."""
        paused = self.controller.state.phase.paused
        is_named = paused is not None and query in (None, paused)
        return is_named or self.restarter.is_stopping(query)

    def is_restarting(self, label: str) -> bool:
        """Whether a query that has ended is being started again, or its end was not seen yet."""
        if self.ends:
            return False
        unseen = any(label == each.query.label for each in self._ended_unseen())
        return unseen or self.restarter.is_stopping(label)

    def let_go(self, wanted: Wanted, *, patient: bool = True) -> None:
        """Release the queries that no other attachment has; end with the last attachment.

        Harmless if repeated. Waits for the end of a pause. ``patient``: whether a start that fails
        is tried again.
        """
        with LOCK:
            if wanted not in self._wanted:
                return
            self._wanted = tuple(other for other in self._wanted if other is not wanted)
            last = not self._wanted
        if not last:
            if not self.ends:
                self.monitor.look_again()
            return
        if not patient:
            self.restarter.give_up()
        while self.paused() and self.internals.is_alive():
            time.sleep(_POLL_S)
        with LOCK:
            if self._wanted:  # another attachment has joined meanwhile
                self.restarter.go_on()
                return
            self._leaving = True
        self.end()

    def await_queries(self, timeout_s: float | None = None) -> bool:
        """Return when no query takes part and none is paused; ``False`` at the timeout.

        Where the controller has ended before the queries, they are waited for nonetheless.
        """
        began = time.monotonic()
        while self._goes_on():
            if timeout_s is not None and time.monotonic() - began >= timeout_s:
                return False
            time.sleep(_POLL_S)
        return True

    def end(self, reason: str | None = None) -> None:
        """End the controller; returns when it has ended. Harmless if repeated.

        The queries run on, for which they need an executor.
        """
        with self._ending, ExitStack() as steps:  # each is taken also where one before it fails
            if self._over:
                return
            self._over = True
            steps.callback(self._unregister)
            steps.callback(_unless_it_has_ended, self._leave_an_executor)
            steps.callback(_unless_it_has_ended, self.copies.close)
            steps.callback(_unless_it_has_ended, self.pool.close)
            steps.callback(self.monitor.close)
            steps.callback(self.controller.detach, reason)

    def _unregister(self) -> None:
        with LOCK:
            if APPLICATIONS.get(self.id) is self:
                del APPLICATIONS[self.id]

    def _leave_an_executor(self) -> None:
        if not self.internals.executors():
            self.internals.request_executors(1)

    def _remember(self, entry: LogEntry) -> None:
        if isinstance(entry, Decision) and entry.kind not in _QUIET:
            self.recent = (*self.recent, entry)[-_RECENT:]

    def _goes_on(self) -> bool:
        """Whether a query runs or is paused; a pause may begin during the check."""
        before = self.controller.state
        try:
            if self.paused() or any(map(self._wants, self.internals.queries.active())):
                return True
            if not self.ends and self._ended_unseen():  # it may be started again
                return True
        except Exception:
            if self.internals.is_alive():
                raise
            return False
        return self.controller.state.paused_ms != before.paused_ms or self.paused()

    def _ended_unseen(self) -> list[WatchedQuery]:
        """Return the queries that have ended, which the monitor has not noticed yet."""
        active = self.internals.queries.active_ids()
        return [each for each in self.monitor.watched() if each.query.id not in active]

    def _wants(self, query: RunningQuery) -> bool:
        return any(wanted.wants(query) for wanted in self._wanted)

    def _acts(self) -> bool:
        """Whether executors that come by themselves are held and warmed."""
        policy = self.state.policy
        return policy.movement.warm_up and not policy.advise_only and self.state.pause is None

    def _restart_of(self, query: str) -> Restart | None:
        """Return what starts the query again, of the newest attachment that brought a function."""
        functions = (wanted.restarts.get(query) for wanted in reversed(self._wanted))
        return next((each for each in functions if each is not None), None)

    def _end_with_the_monitor(self) -> None:
        """End when the monitor has: the driver has ended, or the controller has failed."""
        self.monitor.ended.wait()
        if self.internals.is_alive():
            self.end("the application can no longer be watched; the queries run on as they are")
        else:
            self.end("the application has ended")


@dataclass(frozen=True, slots=True)
class _Lessons:
    """Lets the planner that needs a lesson work it out."""

    folder: Path | None

    def learn(self, lesson: Lesson, *, ticket: Ticket) -> Learnt:
        planner = planner_named(lesson.planner)
        assert isinstance(planner, LearningPlanner)  # noqa: S101 - only these are given lessons
        return planner.learn(lesson, self.folder, ticket=ticket)


@contextmanager
def registered(application_id: str) -> Iterator[Application | None]:
    """Lock the register of applications, and give this one where it can be joined.

    One that ends is waited for, so that two controllers never work on one application.
    """
    while True:
        with LOCK:
            application = APPLICATIONS.get(application_id)
            if application is None or not application.ends:
                yield application
                return
        application.end()


def _unless_it_has_ended(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:  # the application has ended, or takes no requests
        _log.debug("%s failed", step.__name__, exc_info=True)
