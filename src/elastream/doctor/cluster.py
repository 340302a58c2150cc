"""Checks that need a running session: a method each, in order.

The session is built, attached and released as ``elastream run`` does it for a program, and
executors come and are steered as the loop does it for a query.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.core.policy import Policy
from elastream.core.ports import Ticket
from elastream.doctor.cluster_managers import on_this_machine
from elastream.doctor.findings import Check, Finding, Verdict
from elastream.doctor.settings import DoctorSettings
from elastream.extras import install_command
from elastream.goals.by_hand import ByHand
from elastream.launch.session import LaunchedSession
from elastream.launch.settings import RunSettings
from elastream.model.errors import ElastreamError, SparkError
from elastream.model.words import join_names, pluralize
from elastream.spark.internals.reach import check_reach, first_reason, throw_away
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.executor_registry import ExecutorRegistry
from elastream.spark.observe.monitor import SparkMonitor
from elastream.spark.sessions.interrupts import interrupts_kept
from elastream.spark.steer.executors import SparkExecutorPool
from elastream.spark.steer.warm_up import warm_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NAME: Final = "elastream doctor"
_CHECKPOINT: Final = "spark.sql.streaming.checkpointLocation"
_SHARED: Final = "use a folder that all machines share: HDFS, an object store, a shared volume"
_ROOM: Final = (
    "look whether the cluster has workers with enough free cores and memory "
    "(spark.executor.cores, spark.executor.memory), and what its quota is; or give more `patience`"
)


class LiveCluster:
    """A session for the doctor alone; :meth:`close` ends it."""

    def __init__(
        self, settings: DoctorSettings, given: Mapping[str, str], master: str | None
    ) -> None:
        self._settings = settings
        self._given = {"spark.ui.enabled": "false", **given, "spark.app.name": _NAME}
        self._here = on_this_machine(master)
        self._where = "this machine" if master is None else master
        self._session: LaunchedSession | None = None
        self._spark: SparkSession
        self._internals: SparkInternals

    def checks(self, needs: tuple[str, ...]) -> tuple[Check, ...]:
        """Return the checks, in order; ``needs`` are those before any of them."""

        def check(
            look: Callable[[], Finding], name: str, doing: str, *needs: str, todo: str = ""
        ) -> Check:
            return Check(name, doing, lambda: _finding_of(look, name, todo), needs)

        start = f"starting a session on {self._where}"
        ask = f"asking for {pluralize(self._settings.executors, 'executor')}"
        debug = "ELASTREAM_DEBUG=1 shows what Java says"
        unsteered = f"install a Spark that can be steered: {install_command('spark')}"
        return (
            check(self._start, "session", start, *needs, todo=debug),
            check(self._find, "internals", "finding Spark's internals", "session", todo=unsteered),
            check(self._attach, "attach", "attaching", "internals"),
            check(self._executors, "executors", ask, "attach", todo=_ROOM),
            check(
                self._checkpoint,
                "checkpoint",
                "reading and writing on every executor",
                "executors",
                todo=_SHARED,
            ),
            check(
                self._placement,
                "placement",
                "steering a throw-away query",
                "checkpoint",
                todo="please report it with the versions of Spark and of the cluster manager",
            ),
        )

    def close(self) -> None:
        """End the session and what was started for it."""
        if self._session is not None:
            self._session.end()

    def _start(self) -> Finding:
        import pyspark
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is not None:
            raise SparkError("a Spark session runs in this process already; stop it first")
        policy = Policy(max_executors=self._settings.executors, goal=ByHand())
        self._session = LaunchedSession(RunSettings(policy, master=self._settings.master))
        given = SparkConf(loadDefaults=False).setAll(list(self._given.items()))
        conf = self._session.prepared(given, None)
        with interrupts_kept(), self._session.environment():
            context = SparkContext(conf=conf)
        self._session.begun(context)
        self._spark = SparkSession(context)
        driver, client = self._spark.version, pyspark.__version__
        found = f"Spark {driver} on {self._where}"
        if driver.split(".")[:2] != client.split(".")[:2]:
            todo = "let SPARK_HOME name the Spark of the same version, or unset it"
            return Finding("session", "warn", f"{found}, under PySpark {client}", todo)
        return Finding("session", "ok", found)

    def _find(self) -> Finding:
        self._internals = SparkInternals.of(self._spark)
        return Finding("internals", "ok", "every part of Spark that steering needs is there")

    def _attach(self) -> Finding:
        if self._session is not None:
            self._session.attach(self._spark)
            self._session.let_go()
        return Finding("attach", "ok", "a loop attached to the application and let go")

    def _executors(self) -> Finding:
        wanted, registry = self._settings.executors, ExecutorRegistry(self._internals)
        pool = SparkExecutorPool(
            self._internals, registry, SparkMonitor(self._internals, registry, lambda _: False)
        )
        there = pool.grow(wanted, timeout_s=self._settings.patience_s, ticket=Ticket())
        sizes = sorted({executor.cores for executor in there})
        verdict: Verdict = "ok"
        found, todo = f"{len(there)} of {wanted} came", ""
        if len(there) < wanted:
            verdict, todo = "warn" if there else "fail", _ROOM
        elif len(sizes) > 1:
            found += f", with {join_names(map(str, sizes))} cores"
            verdict, todo = "warn", "give all the same size: a plan counts executors, not cores"
        return Finding("executors", verdict, found, todo)

    def _checkpoint(self) -> Finding:
        folder = self._folder()
        if folder is None:
            todo = "give `checkpoint`, the folder where your queries keep theirs"
            return Finding("checkpoint", "warn", "not tried: its place is not known", todo)
        entries = self._internals.executors()
        if folder == _TEMPORARY:
            with tempfile.TemporaryDirectory(prefix="elastream-doctor-") as own:
                check_reach(self._internals, entries, Path(own).as_uri())
            folder = "a folder of this machine"
        else:
            check_reach(self._internals, entries, folder)
        who = pluralize(len(entries), "executor")
        return Finding("checkpoint", "ok", f"{who} and the driver share {folder}")

    def _placement(self) -> Finding:
        folder, entries = self._folder(), self._internals.executors()
        if self._here:
            warm_up(self._internals, entries, batches=1)
        elif folder is None:
            return _unsteered("the place of checkpoints is not known")
        else:
            name = f"elastream-doctor-{uuid.uuid4().hex}"
            with throw_away(self._internals, folder, name) as own:
                warm_up(self._internals, entries, near=f"{own}/query/state", batches=1)
        names = join_names(entry.id for entry in entries)
        found = f"the state of a throw-away query went where it was sent: executors {names}"
        return Finding("placement", "ok", found)

    def _folder(self) -> str | None:
        """Return where checkpoints are; ``None`` where that is not known."""
        said = self._settings.checkpoint or self._spark.conf.get(_CHECKPOINT, None)
        return said or (_TEMPORARY if self._here else None)


_TEMPORARY: Final = ""
"""A folder of this machine that is made for the check."""


def _unsteered(why: str) -> Finding:
    todo = "to try it, give a `checkpoint` on HDFS or in an object store; begin with advise_only"
    return Finding("placement", "warn", f"not tried: {why}", todo)


def _finding_of(look: Callable[[], Finding], name: str, todo: str) -> Finding:
    """Return what a check found; what Spark or elastream refuses is a finding too."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return look()
    except ElastreamError as error:
        return Finding(name, "fail", str(error), todo)
    except (Py4JError, PySparkException) as error:
        return Finding(name, "fail", first_reason(error), todo)
