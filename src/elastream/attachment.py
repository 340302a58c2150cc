"""``attach``: the stateful queries of an application become elastic in three lines.

The one place outside the command line that joins the loop of :mod:`elastream.loop` to the ports
that :mod:`elastream.spark` plays. Nothing is decided here. An application (a SparkContext) has one
loop, which owns its executors; whoever attaches to it again, with the same policy, joins that one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from elastream.loop.decision_log import LogEntry, LogWriter, log_writer
from elastream.loop.decisions import Decision
from elastream.loop.driver import Controller
from elastream.loop.policy import Policy
from elastream.loop.ports import Runtime, StatePlacement
from elastream.loop.state import LoopState
from elastream.model.checks import amount, count
from elastream.model.errors import (
    AlreadyAttachedError,
    ElastreamError,
    ProblemError,
    QueryRefusedError,
)
from elastream.model.observation import Executor, TaskId
from elastream.model.words import listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.door.private_door import PrivateDoor
    from elastream.spark.door.queries import RunningQuery
    from elastream.spark.observe.monitor import SparkMonitor
    from elastream.spark.steer.executors import SparkExecutorPool

__all__ = ["Attachment", "attach"]

_log = logging.getLogger(__name__)

OneLog = Path | str | Callable[[Decision], None]
Log = OneLog | Sequence[OneLog] | None
Backlog = Callable[[Mapping[str, Any]], int | None]
WarmUpStream = Callable[["SparkSession"], "DataFrame"]


class Attachment:
    """Somebody's hold on an application's loop. Leaving the ``with`` block detaches.

    Several attachments of one application share its loop. Each lets go of what it brought; the
    loop ends with the last of them, and the queries run on.
    """

    def __init__(self, application: _Application, wanted: _Wanted, unlog: Callable[[], None]):
        self._application = application
        self._wanted = wanted
        self._unlog = unlog

    @property
    def queries(self) -> tuple[StreamingQuery, ...]:
        """The queries that the loop steers now."""
        door = self._application.door
        found = (door.queries.streaming_query(each.query) for each in self.monitor.watched())
        return tuple(query for query in found if query is not None)

    @property
    def state(self) -> LoopState:
        """What the loop knows now; it never changes in the reader's hands."""
        return self._application.controller.state

    @property
    def monitor(self) -> SparkMonitor:
        """What the application does, fact by fact: ``subscribe``."""
        return self._application.monitor

    def executors(self) -> tuple[Executor, ...]:
        """Return those alive, oldest first, each with ``id``, ``host``, ``cores``, ``warm``."""
        return self.state.all_executors

    def where(self) -> dict[TaskId, str]:
        """Return the executor id of every task, as the last batches showed."""
        observed = self.state.observed
        places = {task: observed.where(task) for task, _ in observed.tasks()}
        return {task: node for task, node in places.items() if node in observed.alive}

    def scale_to(self, n: int, tau: float | None = None) -> None:
        """Ask for a number of executors; returns at once.

        ``tau``: how uneven the load may be afterwards, in place of the policy's. While another
        change is under way it comes next.
        """
        policy = self._application.controller.policy
        count("n", n, least=policy.min_executors, most=policy.max_executors)
        if tau is not None:
            amount("tau", tau)
        self._refuse_advice()
        self._application.controller.scale_to(n, tau=tau)

    def move(self, placement: Mapping[TaskId, str]) -> None:
        """Ask for a placement of tasks on executors, by id; returns at once."""
        known, alive = self.where(), {executor.id for executor in self.executors()}
        tasks = {task for task, _ in self.state.observed.tasks()} | known.keys()
        for task, executor in placement.items():
            if task not in tasks:
                raise ProblemError("placement", f"task {task} is not known; see where()")
            if executor not in alive:
                why = f"executor {executor} is not alive; {listed(sorted(alive))} are"
                raise ProblemError("placement", why)
        self._refuse_advice()
        self._application.controller.move(placement)

    def abandon(self, why: str = "asked for") -> None:
        """Give up the change under way: what moved stays moved, the rest stays put."""
        self._application.controller.abandon(why)

    def wait(self, timeout_s: float) -> bool:
        """Return when no change is under way; ``False`` at the timeout."""
        return self._application.controller.wait(timeout_s)

    def detach(self) -> None:
        """Let go; the queries run on. Harmless if repeated."""
        self._application.let_go(self._wanted)
        self._unlog()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def _refuse_advice(self) -> None:
        if self._application.controller.policy.advise_only:
            raise ElastreamError("the policy only advises; attach with advise_only=False to act")


class _Wanted:
    """What one attachment wants to take part: some queries, or all of them."""

    def __init__(self, labels: frozenset[str] | None) -> None:
        self._labels = labels

    def wants(self, query: RunningQuery) -> bool:
        """Tell whether a query shall take part: one that is started again has the same label."""
        return self._labels is None or query.label in self._labels


class _Application:
    """One SparkContext with its loop."""

    def __init__(
        self,
        door: PrivateDoor,
        policy: Policy,
        *,
        backlog: Backlog | None,
        stream: WarmUpStream | None,
        placement: StatePlacement | None,
        trace: Path | str | None,
    ) -> None:
        from elastream.spark.observe.host_delays import HostProbe
        from elastream.spark.observe.monitor import SparkMonitor
        from elastream.spark.observe.roll import ExecutorRoll
        from elastream.spark.steer.copies import SparkStateCopies
        from elastream.spark.steer.executors import SparkExecutorPool
        from elastream.spark.steer.placement import SparkStatePlacement as Placement
        from elastream.traces.learner import ProcessLearner
        from elastream.traces.recorder import TraceRecorder

        self.door = door
        self._wanted: tuple[_Wanted, ...] = ()
        roll = ExecutorRoll(door)
        self.monitor = SparkMonitor(door, roll, self._wants, backlog=backlog)
        self.pool: SparkExecutorPool = SparkExecutorPool(door, roll, self.monitor, stream=stream)
        self.copies = SparkStateCopies(door, self.monitor) if placement is None else None
        folder = None if trace is None else Path(trace)
        recorder = None if folder is None else TraceRecorder(folder)
        runtime = Runtime(
            self.monitor,
            self.pool,
            placement or Placement(door, self.monitor, self.copies),
            HostProbe(door),
            ProcessLearner(folder),
            self.copies,
        )
        self.controller = Controller(
            runtime,
            policy,
            (lambda _: None) if recorder is None else recorder.write,
            learning=None if recorder is None else recorder.learning,
            past=() if recorder is None else recorder.past(),
        )

    def start(self) -> None:
        """Begin to watch and to decide."""
        try:
            if self.copies is not None:
                self.monitor.subscribe(self.copies.heard)
            self.controller.start()
            self.monitor.start()
        except BaseException:
            self.end()
            raise
        threading.Thread(target=self._end_with_the_driver, daemon=True).start()

    def hold(self, wanted: _Wanted) -> None:
        """Let more queries take part."""
        self._wanted = (*self._wanted, wanted)

    def let_go(self, wanted: _Wanted) -> None:
        """Let those queries go that nobody else wants; end with the last."""
        with _LOCK:
            self._wanted = tuple(other for other in self._wanted if other is not wanted)
            last = not self._wanted
            if last:
                _APPLICATIONS.pop(self.door.application_id(), None)
        if last:
            self.end()
        else:
            self.monitor.look_again()

    def end(self, reason: str | None = None) -> None:
        """End the loop; the queries run on, for which they need an executor."""
        self.controller.detach(reason)
        self.monitor.close()
        try:
            if self.copies is not None:
                self.copies.close()
            if not self.door.executors():
                self.door.request_executors(1)
        except Exception:  # the application has ended, or takes no requests
            _log.debug("no executor was asked for", exc_info=True)

    def _wants(self, query: RunningQuery) -> bool:
        return any(wanted.wants(query) for wanted in self._wanted)

    def _end_with_the_driver(self) -> None:
        self.monitor.ended.wait()
        with _LOCK:
            for key, application in tuple(_APPLICATIONS.items()):
                if application is self:
                    del _APPLICATIONS[key]
        self.end("the application has ended")


_LOCK = threading.RLock()
_APPLICATIONS: dict[str, _Application] = {}
"""The applications of this process that have a loop, by Spark's id."""


def attach(
    target: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
    policy: Policy,
    *,
    log: Log = None,
    backlog: Backlog | None = None,
    warm_up_stream: WarmUpStream | None = None,
    trace: Path | str | None = None,
) -> Attachment:
    """Make running queries elastic within the bounds of ``policy``.

    ``target`` is a query, several, or a session: then every stateful query of the application, in
    whatever session, those started later too. A query that has not run a batch yet joins with its
    first; one that ends leaves, and joins again when it is started again.

    ``log`` takes every decision: a file of JSON lines (``elastream log FILE`` reads it), a
    function, or several of them. ``backlog`` tells from a progress report how many rows wait in
    the source, where the source is not Kafka. ``warm_up_stream`` makes the throw-away stream that
    warms new executors; one of the queries' own shape, with their own kind of source, warms best.
    ``trace`` is a folder in which the loop keeps what it has seen, in bounded space, for itself to
    learn from. These three are the loop's: where the application is attached already, those of the
    first attachment hold.

    Raises :class:`~elastream.model.errors.ElastreamError`, with one line that says what to do,
    where the session, its settings or a query do not allow it, or where the application is
    attached with another policy. The queries are not touched then. Settings that would only make
    moves cheaper are advised in a warning to the log of Python.
    """
    return attach_with(
        target,
        policy,
        None,
        log=log,
        backlog=backlog,
        warm_up_stream=warm_up_stream,
        trace=trace,
    )


def attach_with(
    target: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
    policy: Policy,
    placement: StatePlacement | None,
    *,
    log: Log = None,
    backlog: Backlog | None = None,
    warm_up_stream: WarmUpStream | None = None,
    trace: Path | str | None = None,
) -> Attachment:
    """Attach with another way to place state than the live one: for comparisons."""
    from elastream.spark.sessions.settings import advised, wrong_settings

    door, wanted = _opened(target)
    for setting in advised(wrong_settings(door.spark)):
        _log.warning("%s", setting)
    write = _writer(log)
    with _LOCK:
        key = door.application_id()
        application = _APPLICATIONS.get(key)
        if application is None:
            application = _Application(
                door,
                policy,
                backlog=backlog,
                stream=warm_up_stream,
                placement=placement,
                trace=trace,
            )
            application.hold(wanted)
            unlog = application.controller.add_log(write)
            application.start()
            _APPLICATIONS[key] = application
            return Attachment(application, wanted, unlog)
        if application.controller.policy != policy:
            raise AlreadyAttachedError(
                f"the application {key} is attached already, with another policy; detach that "
                "attachment first, or give the same policy"
            )
        unlog = application.controller.add_log(write)
        application.hold(wanted)
    application.monitor.look_again()
    return Attachment(application, wanted, unlog)


def _writer(log: Log) -> LogWriter:
    """Return what writes to all the logs."""
    if log is None or callable(log) or isinstance(log, str | Path):
        return log_writer(log)
    writers = [log_writer(each) for each in log]

    def write(told: LogEntry) -> None:
        for writer in writers:
            writer(told)

    return write


def _opened(
    target: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
) -> tuple[PrivateDoor, _Wanted]:
    """Open the door of the target's application, and refuse queries that cannot be steered."""
    from elastream.spark.door.private_door import PrivateDoor
    from elastream.spark.observe.shapes import refusal
    from elastream.spark.sessions.query_session import is_session, queries_of, session_of

    if is_session(target):
        return PrivateDoor.of(target), _Wanted(None)  # type: ignore[arg-type]
    queries = queries_of(target)
    door = PrivateDoor.of(session_of(queries[0]))
    running = [door.queries.of(query) for query in queries]
    for query in running:
        why = refusal(door, query)
        if why is not None:
            raise QueryRefusedError(f"the query {query.label} {why}")
    return door, _Wanted(frozenset(query.label for query in running))
