"""``attach``: the stateful queries of an application become elastic in three lines.

Nothing is decided here. An application (a SparkContext) has one controller, which owns its
executors; a second attachment with the same policy joins it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from elastream.attachment.application import (
    APPLICATIONS,
    Application,
    Wanted,
    WarmUpStream,
    registered,
)
from elastream.attachment.notebook import in_notebook, keep_showing
from elastream.attachment.summary import summary_html, summary_text
from elastream.control.commands import Answer, answered
from elastream.control.local_door import LocalDoor, checked_path
from elastream.control.token_file import token_in
from elastream.core.decision_log import LogEntry, LogWriter, log_writer
from elastream.core.decisions import Decision
from elastream.core.events import PauseRequested, ResumeRequested, UpdateRequested
from elastream.core.explaining import explained
from elastream.core.policy import Policy
from elastream.core.state import LoopState
from elastream.model.checks import count, non_negative
from elastream.model.errors import (
    AlreadyAttachedError,
    ElastreamError,
    ProblemError,
    QueryRefusedError,
)
from elastream.model.observation import Executor, TaskId
from elastream.model.words import join_names
from elastream.page.run import Run
from elastream.page.server import (
    PageDoor,
    PageServer,
    checked_certificate,
    expect_private,
    page_address,
)
from elastream.page.spans import SpanWriter, otlp_spans
from elastream.spark.internals.query_session import is_session, queries_of, session_of
from elastream.spark.internals.repartitioning import expect_repartitioning
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.observe.watched_query import Backlog, refusal
from elastream.spark.sessions.settings import advised, wrong_settings
from elastream.spark.steer.restarting import Restart

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_log = logging.getLogger(__name__)

_TOO_EARLY: Final = Answer(False, "the loop is being attached; try again")

OneLog = Path | str | Callable[[Decision], None]
Log = OneLog | Sequence[OneLog] | None
Restarts = Restart | Mapping[str, Restart] | None


@dataclass(eq=False, repr=False)
class Attachment:
    """A hold on the controller of an application. Leaving the ``with`` block detaches.

    Several attachments of one application share its controller. Each releases the queries that it
    brought; the controller ends with the last attachment, and the queries run on.
    """

    _application: Application
    _wanted: Wanted
    _undo: ExitStack
    _page: PageServer | None

    @property
    def queries(self) -> tuple[StreamingQuery, ...]:
        """The queries under control now."""
        internals = self._application.internals
        found = (internals.queries.streaming_query(each.query) for each in self.monitor.watched())
        return tuple(query for query in found if query is not None)

    @property
    def state(self) -> LoopState:
        """What the controller knows now; immutable."""
        return self._application.state

    @property
    def monitor(self) -> SparkMonitor:
        """Reports what the application does, fact by fact: ``subscribe``."""
        return self._application.monitor

    @property
    def page(self) -> str | None:
        """The address of its page; ``None`` where it was attached without one."""
        return None if self._page is None else self._page.url

    def explain(self) -> str:
        """Return in words what would be done now and why, and what would have to change."""
        return explained(self.state)

    def executors(self) -> tuple[Executor, ...]:
        """Return those alive, oldest first: ``id``, ``host``, ``cores``, ``slots``, ``warm``."""
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
            non_negative("tau", tau)
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
                why = f"executor {executor} is not alive; {join_names(sorted(alive))} are"
                raise ProblemError("placement", why)
        self._refuse_advice()
        self._application.controller.move(placement)

    def abandon(self, why: str = "asked for") -> None:
        """Give up the change under way: what moved stays moved, the rest stays put."""
        self._application.controller.abandon(why)

    def pause(self) -> None:
        """Stop deciding and give up the change under way; watching goes on.

        While paused only what somebody asks for is done. Harmless if repeated.
        """
        if self.state.pause is None:
            self._application.request(PauseRequested())

    def resume(self) -> None:
        """Decide again, from what is there now. Harmless if repeated."""
        if self.state.pause is not None:
            self._application.request(ResumeRequested())

    def update(self, policy: Policy) -> None:
        """Follow another policy; raises ``ElastreamError``, and changes nothing, where it cannot.

        A change under way goes on where the new policy allows it.
        """
        self._application.request(UpdateRequested(policy))

    def wait(self, timeout_s: float) -> bool:
        """Return when no change is under way; ``False`` at the timeout."""
        return self._application.controller.wait(timeout_s)

    def await_queries(self, timeout_s: float | None = None) -> bool:
        """Return when no query runs any more, nor is paused; ``False`` at the timeout."""
        return self._application.await_queries(timeout_s)

    def paused(self, query: str | None = None) -> bool:
        """Whether a query, by its name, or any, is stopped for more partitions and will go on."""
        return self._application.paused(query)

    def is_restarting(self, query: str) -> bool:
        """Whether a Real-time query that has failed, by its name or id, is being started again.

        Also while it is not decided yet whether it will be.
        """
        return self._application.is_restarting(query)

    def detach(self, *, patient: bool = True) -> None:
        """Let go; the queries run on. Idempotent. Waits for the end of a pause.

        ``patient``: whether a query that does not start again after a pause is tried for minutes.
        """
        with self._undo:
            self._application.let_go(self._wanted, patient=patient)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return summary_text(self.state)

    def _repr_html_(self) -> str:
        """Return a small table of executors and what was decided last, for notebooks."""
        return summary_html(self.state, self._application.recent, self.page)

    def _ipython_display_(self) -> None:
        """Show the table in a notebook, up to date until it has let go."""
        keep_showing(self._repr_html_, lambda: self.state.phase.detached, in_notebook)

    def _refuse_advice(self) -> None:
        if self._application.controller.policy.advise_only:
            raise ElastreamError("the policy only advises; attach with advise_only=False to act")


def attach(
    target: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
    policy: Policy,
    *,
    log: Log = None,
    backlog: Backlog | None = None,
    warm_up_stream: WarmUpStream | None = None,
    trace: Path | str | None = None,
    page: int | str | None = None,
    page_names: Sequence[str] = (),
    page_token: Path | str | None = None,
    page_certificate: Path | str | None = None,
    control: Path | str | None = None,
    spans: bool | Tracer = False,
    restart: Restarts = None,
) -> Attachment:
    """Make running queries elastic within the bounds of ``policy``.

    ``target`` is a query, several, or a session: then every stateful query of the application, in
    any session, those started later too. A query joins with its first batch, leaves when it ends,
    and joins again when it is started again.

    ``log`` takes every decision: a file of JSON lines (``elastream log FILE`` reads it), ``"-"``
    for lines on standard output, a function, or several of them. ``backlog`` reads from a progress
    report how many rows wait in the source, where the source is not Kafka. ``warm_up_stream`` makes
    the throw-away stream that warms new executors; one of the queries' own shape, with their own
    kind of source, warms best. ``trace`` is a folder that keeps, in bounded space, what was seen,
    to learn from. For these three the first attachment of the application counts.

    ``page`` is a port of this machine (0 takes a free one) with a page for browsers and
    ``/metrics`` for Prometheus; ``"HOST:PORT"`` opens it to other machines. ``page_names`` are
    further host names of it: requests for unknown names are refused. It is read-only without
    ``page_token``, a file with a token (made where there is none) for those who may steer the loop
    there. ``page_certificate``, a PEM file with certificate and key, makes it HTTPS, which a token
    needs beyond this machine.

    ``control`` is the path of a local socket at which your user, and root, can steer the loop with
    ``elastream control``.

    ``spans`` makes spans of OpenTelemetry of changes and their phases: with ``True`` they are sent
    over OTLP, as the variables ``OTEL_...`` say, or a tracer of your own gets them.

    ``restart`` starts the query again on its checkpoint and returns it: for a policy with
    ``repartition``, and for a query in Real-time Mode that fails because an executor was lost. For
    several queries, or a session, a mapping has a function for each name, and may grow. Wait for
    such queries with :meth:`Attachment.await_queries`: their handles end with a pause.

    Raises :class:`~elastream.model.errors.ElastreamError`, with one line that says what to do,
    where the session, its settings or a query do not allow it, or where the application is
    attached with another policy. The queries are untouched then. Settings that only make moves
    cheaper are advised in a warning.
    """
    internals, wanted = _opened(target)
    wanted = replace(wanted, restarts=_restarts(policy, wanted, restart))
    realtime = any(internals.queries.trigger(each).realtime for each in internals.queries.active())
    for setting in advised(wrong_settings(internals.spark, realtime=realtime)):
        _log.warning("%s", setting)
    token, pem = _secrets(page, page_token, page_certificate)
    where = None if control is None else checked_path(Path(control))
    name = internals.spark.sparkContext.appName or "an application"
    with ExitStack() as undo:
        writers, server = [_writer(log)], None
        if spans is not False:
            span_writer = otlp_spans(name) if spans is True else SpanWriter(spans)
            undo.callback(span_writer.close)
            writers.append(span_writer.take)
        steered: list[Application] = []

        def door(text: bytes, by: str) -> Answer:
            return answered(steered[0], text, by) if steered else _TOO_EARLY

        if page is not None:
            run = Run(name)
            server = undo.enter_context(
                PageServer(
                    run,
                    page_address(page),
                    names=page_names,
                    door=None if token is None else PageDoor(door, token),
                    certificate=pem,
                )
            )
            writers.append(run.take)
        if where is not None:
            undo.callback(LocalDoor(where, door).close)
        with registered(internals.application_id()) as application:
            if application is not None and application.controller.policy != policy:
                raise AlreadyAttachedError(
                    f"the application {internals.application_id()} is attached already, with "
                    "another policy; detach that attachment first, or give the same policy"
                )
            joined = application is not None
            if application is None:
                application = Application(
                    internals, policy, backlog=backlog, stream=warm_up_stream, trace=trace
                )
            application.hold(wanted)
            for write in writers:
                undo.callback(application.controller.add_log(write))
            if not joined:
                application.start()
                APPLICATIONS[application.id] = application
            steered.append(application)
        attachment = Attachment(application, wanted, undo.pop_all(), server)
    if joined:
        try:
            application.monitor.look_again()
        except BaseException:
            attachment.detach()
            raise
    return attachment


def _secrets(
    page: int | str | None, token: Path | str | None, certificate: Path | str | None
) -> tuple[str | None, Path | None]:
    """Return the page's token and its certificate, checked."""
    for name, value in (("page_token", token), ("page_certificate", certificate)):
        if value is not None and page is None:
            raise ProblemError(name, "means something only with `page`")
    pem = None if certificate is None else Path(certificate)
    if pem is not None:
        checked_certificate(pem)
    if token is None or page is None:
        return None, pem
    expect_private(page_address(page), pem)
    return token_in(Path(token), field="page_token", make=True), pem


def _restarts(policy: Policy, wanted: Wanted, restart: Restarts) -> Mapping[str, Restart]:
    """Return how queries are started again, by name; refuse a policy that needs it without."""
    if policy.repartition:
        expect_repartitioning()
    if restart is None:
        if policy.repartition:
            why = "the policy lets queries be paused; give functions that start them again"
            raise ProblemError("restart", why)
        return {}
    if not callable(restart):
        return restart
    if wanted.labels is None or len(wanted.labels) != 1:
        why = "give a function for each query, by the query's name, where there may be several"
        raise ProblemError("restart", why)
    return dict.fromkeys(wanted.labels, restart)


def _writer(log: Log) -> LogWriter:
    """Return what writes to all the logs."""
    if log is None or callable(log) or isinstance(log, str | Path):
        return log_writer(log)
    writers = [log_writer(each) for each in log]

    def write(entry: LogEntry) -> None:
        for writer in writers:
            writer(entry)

    return write


def _opened(
    target: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
) -> tuple[SparkInternals, Wanted]:
    """Find the target's application, and refuse queries that cannot be steered."""
    if is_session(target):
        return SparkInternals.of(target), Wanted(None)  # type: ignore[arg-type]
    queries = queries_of(target)
    internals = SparkInternals.of(session_of(queries[0]))
    running = [internals.queries.of(query) for query in queries]
    for query in running:
        why = refusal(internals, query)
        if why is not None:
            raise QueryRefusedError(f"the query {query.label} {why}")
    return internals, Wanted(frozenset(query.label for query in running))
