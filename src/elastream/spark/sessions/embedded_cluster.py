"""The embedded cluster: real executor processes on this machine.

``local-cluster`` is Spark's own standalone cluster inside the driver: each executor is a process
with its own memory, its own RocksDB and its own death, so that "an executor dies" and "state
moves" mean the same here as on a real cluster.

``local-cluster[max,cores,memory]`` launches all its executors at once; the surplus is taken away
before it is up and comes back when the pool grows. Settings favour a quick start on
a small machine.
:func:`embedded` makes a session; :class:`ProgramCluster` is for a context that a program makes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.model.checks import count
from elastream.model.errors import ProblemError, SparkError
from elastream.spark.internals.spark_internals import SparkInternals, keep_first_executors
from elastream.spark.sessions.class_archive import archive_file, archive_options
from elastream.spark.sessions.interrupts import interrupts_ignored, interrupts_kept
from elastream.spark.sessions.java import java_home
from elastream.spark.sessions.processes import application_processes, await_end
from elastream.spark.sessions.settings import (
    local_disk_settings,
    names_other_storage,
    session_settings,
    state_settings,
)
from elastream.spark.sessions.spark_home import application_pattern, remove_applications, spark_home

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession


JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:-UsePerfData "
    "-Xshare:auto"
)
"""Quick to start. One level of compilation brings a code cache of 48 MB, which a long query fills:
then nothing more is compiled."""
_LOOPBACK = "127.0.0.1"
_DYNAMIC = "spark.dynamicAllocation.enabled"
_MEMORY: Final = "spark.executor.memory"
_NOT_OURS: Final = ("spark.app.name", "spark.sql.warehouse.dir")
"""The program's name is its own, and tables that it saves shall outlive it."""
_FIRM: Final = ("spark.master", _MEMORY, "spark.executor.cores", "spark.deploy.appIdPattern")
"""What the cluster stands and falls with."""
_KEPT: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Variables that hold where the user has set them."""
_UNITS: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "": 1}
_STARTS_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class EmbeddedCluster:
    """What the embedded cluster shall look like; checked when made."""

    executors: int = 2
    max_executors: int = 4
    executor_cores: int = 1
    executor_memory_mb: int = 800
    driver_memory_mb: int = 1024
    checkpoint_in_memory: bool = False
    """Keep the scratch folder in memory-backed storage, where the machine has it."""
    java: Path | None = None
    """The ``JAVA_HOME`` to use; ``None`` finds one."""
    app_name: str = "elastream"
    steered: bool = True
    """Whether the session has the settings that steering needs. Without them it is Spark as it is,
    with its state in RocksDB."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the session; they win over elastream's."""

    def __post_init__(self) -> None:
        count("max_executors", self.max_executors, least=1)
        count("executors", self.executors, least=1)
        if self.executors > self.max_executors:
            raise ProblemError(
                "executors", f"{self.executors} is above max_executors, {self.max_executors}"
            )
        count("executor_cores", self.executor_cores, least=1)
        count("executor_memory_mb", self.executor_memory_mb, least=500)
        count("driver_memory_mb", self.driver_memory_mb, least=500)

    def settings(self, scratch: Path, archive: Path | None = None) -> dict[str, str]:
        """Return the settings of the session, with its files under ``scratch``.

        ``archive``: the classes that its JVMs find ready.
        """
        memory = self.executor_memory_mb
        options = JVM_OPTIONS + archive_options(archive)
        return {
            **(session_settings() if self.steered else state_settings()),
            **({} if names_other_storage(self.config) else local_disk_settings()),
            "spark.master": f"local-cluster[{self.max_executors},{self.executor_cores},{memory}]",
            "spark.app.name": self.app_name,
            "spark.executor.memory": f"{memory}m",
            "spark.driver.memory": f"{self.driver_memory_mb}m",
            "spark.executor.extraJavaOptions": options,
            "spark.driver.extraJavaOptions": options,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.deploy.appIdPattern": application_pattern(_token(scratch)),
            # A peer on this machine that refuses a connection is dead: no use in retrying.
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "500ms",
            # What an executor logs of each task takes a tenth of a small batch.
            "spark.log.level": "WARN",
            "spark.executor.syncLogLevel.enabled": "true",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **self.config,
        }


@dataclass(frozen=True, slots=True)
class _Running:
    spark: SparkSession
    scratch: Path
    home: Path


_running: list[_Running] = []
"""At most one: a Python process can hold one Spark context."""


def embedded(cluster: EmbeddedCluster | None = None, *, timeout_s: float = 120.0) -> SparkSession:
    """Start the cluster and return its session; :func:`stop` ends both, so does the interpreter.

    Waits until exactly ``cluster.executors`` executors are alive.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    cluster = cluster or EmbeddedCluster()
    if SparkContext._active_spark_context is not None:
        raise SparkError("a Spark session runs in this process already; stop it first")
    home = cluster.java or java_home()
    shared_memory = "/dev/shm"  # noqa: S108 - a private folder is made inside
    in_memory = cluster.checkpoint_in_memory and os.access(shared_memory, os.W_OK)
    parent = shared_memory if in_memory else None
    scratch = Path(tempfile.mkdtemp(prefix="elastream-", dir=parent))
    links = spark_home(scratch)
    _end_driver()
    settings = cluster.settings(scratch, archive_file(home, links))
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        with interrupts_kept(), environment_with(spark_environment(home, links)):
            context = SparkContext(gateway=_driver(conf, scratch / "driver.log"), conf=conf)
        if conf.get(_DYNAMIC, "false") != "true":  # else Spark starts with its own first ones
            keep_first_executors(context, cluster.executors, cluster.max_executors)
        spark = SparkSession(context)
        await_executors(SparkInternals.of(spark), cluster.executors, timeout_s)
    except BaseException:
        with interrupts_ignored():
            shut_down(scratch, links)
        raise
    _running.append(_Running(spark, scratch, links))
    return spark


@contextlib.contextmanager
def embedded_session(cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """Give a session of the cluster for a block of code, which Ctrl-C may leave at any moment."""
    spark = embedded(cluster)
    try:
        yield spark
    finally:
        with interrupts_ignored():
            _silence(spark.sparkContext)
            stop(spark)


def _silence(context: SparkContext) -> None:
    """Log nothing more: queries that were left running complain when they are ended."""
    with contextlib.suppress(Exception):  # a driver that died
        context.setLogLevel("OFF")


def scratch_folder(spark: SparkSession) -> Path:
    """Return the folder that lives as long as the session; the driver's log is in it."""
    for running in _running:
        if running.spark is spark:
            return running.scratch
    raise SparkError("the session is not an embedded one, so it has no scratch folder")


def stop(spark: SparkSession, *, timeout_s: float = 30.0) -> None:
    """End the embedded session, its driver and its executors, and remove its files."""
    for running in [running for running in _running if running.spark is spark]:
        _running.remove(running)
        shut_down(running.scratch, running.home, timeout_s)


def shut_down(scratch: Path, home: Path, timeout_s: float = 30.0) -> None:
    """End the session of this process, its driver and its executors, and remove their files."""
    from pyspark import SparkContext

    driver = getattr(SparkContext._gateway, "proc", None)
    family = application_processes(None if driver is None else driver.pid, _token(scratch))
    context = SparkContext._active_spark_context
    if context is not None:
        with contextlib.suppress(Exception):  # a driver that died has nothing left to stop
            context.stop()
    _end_driver()
    await_end(family, timeout_s)
    remove_applications(home, _token(scratch))
    shutil.rmtree(scratch, ignore_errors=True)


def _token(scratch: Path) -> str:
    """Return what no other session's scratch folder ends with."""
    return scratch.name.rpartition("-")[2]


def _driver(conf: SparkConf, log: Path) -> Any:
    """Start the driver's JVM, with all that it says in ``log``."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with log.open("w") as output:
        try:
            redirected = {"stdout": output, "stderr": subprocess.STDOUT}
            return launch_gateway(conf, redirected)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            said = "; ".join(log.read_text().strip().splitlines()[:2]) or "it said nothing"
            raise SparkError(f"the Spark driver did not start: {said}") from error


@atexit.register
def _stop_all() -> None:
    while _running:
        stop(_running[-1].spark)


def await_executors(internals: SparkInternals, wanted: int, timeout_s: float) -> None:
    """Return when exactly this number of executors is alive."""
    deadline = time.monotonic() + timeout_s
    while (alive := len(internals.executors())) != wanted:
        if time.monotonic() > deadline:
            raise SparkError(f"{alive} of {wanted} executors came up within {timeout_s:g} s")
        time.sleep(0.05)


def spark_environment(java: Path, spark: Path) -> dict[str, str]:
    """Return the environment of the driver: its own Java, and a Spark home of its own."""
    return {
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def environment_with(changes: Mapping[str, str]) -> Iterator[None]:
    """Change variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_driver() -> None:
    """End the driver's JVM, which outlives its session, so that the next one gets its own."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    driver = getattr(gateway, "proc", None)
    SparkContext._gateway = None
    SparkContext._jvm = None
    with contextlib.suppress(Exception):  # the other side may be gone already
        gateway.shutdown()
    if driver is not None and driver.stdin is not None:
        driver.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(timeout=20)


class ProgramCluster:
    """The embedded cluster for a context of a program, with ``first`` to ``most`` executors.

    The program finds the cluster in its settings and, while the driver's JVM starts, in the
    environment. Its own output and settings hold, but for settings that would leave the cluster
    without executors.
    """

    def __init__(self, first: int, most: int) -> None:
        self._first, self._most = first, most
        self._java = java_home()
        self._scratch = Path(tempfile.mkdtemp(prefix="elastream-"))
        self._home = spark_home(self._scratch)

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what the program's session needs in addition to what is given."""
        memory = megabytes(given.get(_MEMORY, ""))
        cluster = EmbeddedCluster(executors=self._first, max_executors=self._most)
        if memory is not None:
            cluster = replace(cluster, executor_memory_mb=max(memory, 500))
        archive = archive_file(self._java, self._home)
        settings = cluster.settings(self._scratch, archive) | {"spark.executor.cores": "1"}
        left_out = {*_NOT_OURS, *(local_disk_settings() if names_other_storage(given) else ())}
        return {
            name: value
            for name, value in settings.items()
            if name not in left_out and (name in _FIRM or name not in given)
        }

    def environment(self) -> AbstractContextManager[None]:
        """Set the environment in which the driver's JVM finds its Java and its Spark home."""
        changes = spark_environment(self._java, self._home)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return environment_with({**changes, **kept})

    def started(self, context: SparkContext) -> None:
        """Take the executors away that are not among the first."""
        keep_first_executors(context, self._first, self._most)

    def await_first(self, spark: SparkSession) -> None:
        """Wait until the first executors are there, and no other."""
        await_executors(SparkInternals.of(spark), self._first, _STARTS_S)

    def end(self) -> None:
        """End the driver and its executors, and remove their files."""
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        with interrupts_ignored():
            if context is not None:
                _silence(context)
            shut_down(self._scratch, self._home)


def megabytes(size: str) -> int | None:
    """Return a size of memory as Spark writes it, such as ``2g``; ``None`` for what is none."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    return None if match is None else int(int(match[1]) * _UNITS[match[2]])
