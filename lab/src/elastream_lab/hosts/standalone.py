"""Spark's own cluster on hosts: the master on one, a worker on each of the others.

Every worker has room for one executor. What they write next to a checkpoint lies below their host's
own ``/tmp``, as on machines of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elastream.model.errors import SparkError
from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS
from elastream.spark.sessions.java import java_home
from elastream_lab.hosts.namespaces import end_processes
from elastream_lab.hosts.network import Host, Network

_PORT: Final = 7077
_START_S: Final = 600.0
_POLL_S: Final = 0.2
_MEMORY: Final = "1200m"
_DEPLOY: Final = "org.apache.spark.deploy"
_REACH: Final = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
"""


class StandaloneCluster:
    """A master that runs, and workers that can be started on other hosts."""

    def __init__(self, net: Network, master: str, folder: Path, *, worker_timeout_s: int) -> None:
        self._net = net
        self._host = net[master]
        self._folder = folder
        self._room = ("--cores", "1", "--memory", _MEMORY, "--webui-port", "0")
        self._given = (f"-Dspark.worker.timeout={worker_timeout_s}",)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._used: set[Host] = set()

    @property
    def url(self) -> str:
        """What sessions and workers call the master."""
        return f"spark://{self._host.address}:{_PORT}"

    def start_master(self) -> None:
        """Start the master, and return when it listens: who comes earlier asks again much later."""
        where = ("--host", self._host.address, "--port", str(_PORT), "--webui-port", "0")
        self._start(self._host, f"{_DEPLOY}.master.Master", *where)
        deadline = time.monotonic() + _START_S
        reach = self._host.command(sys.executable, "-c", _REACH, self._host.address, str(_PORT))
        while subprocess.run(reach, check=False, stderr=subprocess.DEVNULL).returncode:  # noqa: S603
            if time.monotonic() > deadline or self._processes[-1].poll() is not None:
                raise SparkError(f"the master does not listen; see {self._folder}")
            time.sleep(_POLL_S)

    def start_worker(self, name: str) -> None:
        """Start a worker on a host."""
        host = self._net[name]
        where = ("--host", host.address, "--work-dir", "/tmp/spark-work")  # noqa: S108 - its own
        self._start(host, f"{_DEPLOY}.worker.Worker", *where, *self._room, self.url)

    def _start(self, host: Host, service: str, *arguments: str) -> None:
        import pyspark

        self._used.add(host)
        jars = Path(pyspark.__file__).parent / "jars"
        java = [str(java_home() / "bin" / "java"), "-Xmx256m", *JVM_OPTIONS.split(), *self._given]
        with (self._folder / f"{host.name}.log").open("a") as log:
            self._processes.append(
                subprocess.Popen(  # noqa: S603 - Spark's own
                    host.command(*java, "-cp", f"{jars}/*", service, *arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **environment_of(host)},
                    start_new_session=True,
                )
            )

    def end(self) -> None:
        """End all of it, executors and all else that runs on its hosts too."""
        for host in self._used:
            end_processes(host.namespace)
        for process in self._processes:
            process.wait()


def environment_of(host: Host) -> Mapping[str, str]:
    """Return what a process of Spark must know on a host."""
    import pyspark

    return {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": host.address,
        "SPARK_LOCAL_DIRS": "/tmp",  # noqa: S108 - the host's own
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }


@contextmanager
def standalone(
    net: Network,
    *,
    master: str,
    workers: Sequence[str],
    folder: Path,
    worker_timeout_s: int = 60,
) -> Iterator[StandaloneCluster]:
    """Start a cluster on hosts; its logs go to a folder, one for each host.

    ``worker_timeout_s``: after so long without a word from a worker the master takes it for lost.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cluster = StandaloneCluster(net, master, folder, worker_timeout_s=worker_timeout_s)
    try:
        cluster.start_master()
        for name in workers:
            cluster.start_worker(name)
        yield cluster
    finally:
        cluster.end()
