"""The session of a program: built with what steering needs, attached, and let go."""

from __future__ import annotations

import atexit
import logging
import os
from collections import ChainMap
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastream.attachment import Attachment, attach
from elastream.launch.given import MASTER, Given, settings_around
from elastream.launch.queries import ProgramQueries
from elastream.launch.reporting import report
from elastream.launch.restarts import RestartedQueries
from elastream.launch.settings import RunSettings
from elastream.model.errors import SparkError
from elastream.spark.sessions.embedded_cluster import ProgramCluster, environment_with
from elastream.spark.sessions.interrupts import interrupts_ignored
from elastream.spark.sessions.java import java_home
from elastream.spark.steer.restarting import Restart

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession


_log = logging.getLogger(__name__)


class LaunchedSession:
    """The program's session while the program runs."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._cluster: ProgramCluster | None = None
        self._attachment: Attachment | None = None
        self._application: str | None = None
        """The application of this context that was attached, by Spark's id."""
        self.pausable = ProgramQueries(self._is_stopping)
        self.healed = RestartedQueries(lambda: self._attachment)
        self._overridden: dict[str, str] = {}
        """Settings of the program that do not hold, with what holds in their place."""
        # Before the program registers anything: its own last functions may still use the session
        atexit.register(self._end_cluster)
        os.register_at_fork(after_in_child=self._disown)

    def prepared(self, conf: SparkConf | None, master: str | None) -> SparkConf:
        """Return the settings of a context that is about to begin."""
        from pyspark import SparkConf

        given, force = _given(conf, master), self._settings.force
        chosen = given.master(self._settings.master, force=force)
        needed = given.needed(force=force, master=chosen)
        if chosen is None:
            needed |= self._own_cluster().settings(given.all)
        else:
            needed[MASTER] = chosen
        for wrong in given.contradictions():
            report(f"overridden: {wrong}")
        self._overridden = {
            name: value for name, value in needed.items() if given.all.get(name, value) != value
        }
        # A configuration that is made in a running JVM is taken as it is, else the JVM adds its own
        held = given.all if _jvm_runs() else given.program
        return SparkConf(loadDefaults=False).setAll(list({**held, **needed}.items()))

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a session's own options, without those that do not hold."""
        return {name: self._overridden.get(name, value) for name, value in options.items()}

    def environment(self) -> AbstractContextManager[None]:
        """Set the environment in which a driver that starts meanwhile finds its Java."""
        if _jvm_runs():
            return nullcontext()
        if self._cluster is not None:
            return self._cluster.environment()
        return environment_with({"JAVA_HOME": str(java_home())})

    def begun(self, context: SparkContext) -> None:
        """Note that a context has begun."""
        self._application = None
        self.pausable.clear()
        self.healed.clear()
        if self._cluster is not None:
            self._cluster.started(context)

    def attach(self, spark: SparkSession) -> None:
        """Attach the session's application, unless that was done."""
        application = spark.sparkContext.applicationId
        if application == self._application:
            return
        self._application = application
        self._await_executors(spark)
        settings = self._settings
        self._attachment = attach(
            spark,
            settings.policy,
            log=settings.log,
            page=settings.page,
            page_names=settings.page_names,
            page_token=settings.page_token,
            page_certificate=settings.page_certificate,
            control=settings.control,
            spans=settings.spans,
            restart=self._restarts(),
        )

    def _await_executors(self, spark: SparkSession) -> None:
        """Wait for the first executors of a cluster of our own."""
        if self._cluster is not None:
            self._cluster.await_first(spark)

    def let_go(self) -> None:
        """Detach; a failure of that does not concern the program.

        A query that does not start again after a pause is not waited for: it ends with the program.
        """
        attachment = self._attachment
        if attachment is not None:
            try:
                attachment.detach(patient=False)
            except Exception:
                _log.debug("detaching failed", exc_info=True)
            self._attachment = None  # until then a paused query counts as active

    def end(self) -> None:
        """Let go, and end the session with its driver now and not with the process."""
        from pyspark import SparkContext

        self.let_go()
        if self._cluster is not None:
            self._end_cluster()
        elif SparkContext._active_spark_context is not None:
            with interrupts_ignored(), suppress(Exception):  # a driver that died has nothing left
                SparkContext._active_spark_context.stop()

    def _restarts(self) -> Mapping[str, Restart]:
        """Return how queries are started again; a loop that only advises starts none."""
        if self._settings.policy.advise_only:
            return self.pausable
        return ChainMap(self.healed.starts, self.pausable)  # type: ignore[arg-type]

    def _is_stopping(self, query: str) -> bool:
        """Whether a query is stopped for a change and will be started again."""
        return self._attachment is not None and self._attachment.paused(query)

    def _end_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.end()

    def _disown(self) -> None:
        """Leave the session to the process that this one was forked from."""
        self._attachment = self._cluster = None

    def _own_cluster(self) -> ProgramCluster:
        if self._cluster is None:
            if _jvm_runs():
                raise SparkError(
                    "the driver runs already, and its master has no executors that could come or "
                    "go: give spark-submit another --master"
                )
            policy = self._settings.policy
            self._cluster = ProgramCluster(max(1, policy.min_executors), policy.max_executors)
        return self._cluster


def _given(conf: SparkConf | None, master: str | None) -> Given:
    import pyspark
    from pyspark import SparkConf, SparkContext

    program = {} if conf is None else dict(conf.getAll())
    if master:
        program[MASTER] = master
    if conf is not None and conf._jconf is not None:  # it knows what is around
        return Given(program, {})
    if _jvm_runs():
        SparkContext._ensure_initialized()
        return Given(program, dict(SparkConf().getAll()))
    return Given(program, settings_around(os.environ, Path(pyspark.__file__).parent))


def _jvm_runs() -> bool:
    """Return whether the driver's JVM runs, started by this process or by ``spark-submit``."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
