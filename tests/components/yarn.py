"""A real YARN on loopback: a ResourceManager and two NodeManagers, each a process of its own.

Each node has an address of its own, so that to Spark they are two hosts. What the cluster has
given out is asked over the ResourceManager's own web service, as an operator would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyspark
from tests.components.broker import free_ports
from tests.components.parts import classpath
from tests.spark.running_query import until

from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS
from elastream.spark.sessions.java import java_home

__all__ = ["CONTAINER_MB", "NODES", "QUEUE", "Yarn", "yarn"]

NODES = ("127.0.0.1", "127.0.0.2")
QUEUE = "streams"
CONTAINER_MB = 1024
"""What each container gets: the tests ask for a little less, YARN rounds up."""
_CONTAINERS_A_NODE = 2
_PATIENCE_S = 300.0
_SERVER = "org.apache.hadoop.yarn.server"
_FROM_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-", "jcl-over")
"""What the servers need of Spark's own jars."""
_RUNNING = ("NEW", "RESERVED", "ALLOCATED", "ACQUIRED", "RUNNING")


class Yarn:
    """The cluster; :func:`yarn` starts one."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(5)
        self._folder = folder
        self._excluded = folder / "excluded"
        self._excluded.write_text("")
        self._manager = folder / "manager"
        self._web = f"http://127.0.0.1:{ports[0]}/ws/v1/cluster"
        services = ("webapp", "scheduler", "resource-tracker", "admin")
        addresses = {
            f"yarn.resourcemanager.{name}.address": f"127.0.0.1:{port}"
            for name, port in zip(services, ports, strict=False)
        }
        self._common = {
            **addresses,
            "yarn.resourcemanager.address": f"127.0.0.1:{ports[4]}",
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "300",
            "yarn.resourcemanager.nodes.exclude-path": str(self._excluded),
            "yarn.scheduler.minimum-allocation-mb": str(CONTAINER_MB),
            # so that a queue can be changed while it runs
            "yarn.scheduler.configuration.store.class": "memory",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.resource.memory-mb": str(_CONTAINERS_A_NODE * CONTAINER_MB),
        }

    @property
    def environment(self) -> dict[str, str]:
        """What tells a driver where it is."""
        return {"HADOOP_CONF_DIR": str(self._manager), "YARN_CONF_DIR": str(self._manager)}

    def start(self, running: ExitStack) -> None:
        """Start all processes, and return when every node takes containers."""
        queue = "yarn.scheduler.capacity"
        _configure(self._manager, "yarn-site", self._common)
        _configure(self._manager, "core-site", {"hadoop.tmp.dir": str(self._folder / "scratch")})
        _configure(
            self._manager,
            "capacity-scheduler",
            {
                f"{queue}.root.queues": f"{QUEUE},others",
                f"{queue}.root.others.capacity": "50",
                f"{queue}.root.{QUEUE}.capacity": "50",
                f"{queue}.root.{QUEUE}.user-limit-factor": "2",
                f"{queue}.maximum-am-resource-percent": "1",
            },
        )
        manager = f"{_SERVER}.resourcemanager.ResourceManager"
        running.enter_context(_service(self._manager, manager))
        until(self._answers, "the ResourceManager answers")
        for number, host in enumerate(NODES):
            node = self._folder / f"node-{number}"
            own = dict(zip(("address", "localizer", "webapp"), free_ports(3), strict=True))
            settings = {
                "yarn.nodemanager.hostname": host,
                "yarn.nodemanager.address": f"{host}:{own['address']}",
                "yarn.nodemanager.localizer.address": f"{host}:{own['localizer']}",
                "yarn.nodemanager.webapp.address": f"{host}:{own['webapp']}",
                "yarn.nodemanager.local-dirs": str(node / "local"),
                "yarn.nodemanager.log-dirs": str(node / "logs"),
            }
            _configure(node, "yarn-site", {**self._common, **settings})
            scratch = {"hadoop.tmp.dir": str(node / "scratch")}
            _configure(node, "core-site", scratch)
            running.callback(_end_those_in, node)
            running.enter_context(_service(node, f"{_SERVER}.nodemanager.NodeManager"))
        until(lambda: len(self.nodes("RUNNING")) == len(NODES), "all nodes take containers")

    def nodes(self, *states: str) -> list[str]:
        """Return the hosts of nodes that are in one of these states."""
        reports = self._ask(f"nodes?states={','.join(states)}")["nodes"] or {}
        return sorted(node["nodeHostName"] for node in reports.get("node", ()))

    def containers(self, application: str) -> dict[str, str]:
        """Return the containers that an application has, and the node of each."""
        attempts = self._ask(f"apps/{application}/appattempts")["appAttempts"]["appAttempt"]
        attempt = attempts[-1]["appAttemptId"]
        report = self._ask(f"apps/{application}/appattempts/{attempt}/containers")
        return {
            each["containerId"]: each["assignedNodeId"]
            for each in report.get("container", ())
            if each["containerState"] in _RUNNING
        }

    def held(self, application: str) -> int:
        """Return how many containers YARN counts for an application, its master's too."""
        return int(self._ask(f"apps/{application}")["app"]["runningContainers"])

    def signal(self, container: str) -> None:
        """Let YARN kill a container."""
        self._ask(f"containers/{container}/signal/FORCEFUL_SHUTDOWN", "POST")

    def give(self, containers: int) -> None:
        """Let the queue have this many containers at most."""
        share = 100 * containers / (_CONTAINERS_A_NODE * len(NODES))
        entry = f"<entry><key>maximum-capacity</key><value>{share}</value></entry>"
        update = f"<queue-name>root.{QUEUE}</queue-name><params>{entry}</params>"
        change = f"<sched-conf><update-queue>{update}</update-queue></sched-conf>"
        self._ask("scheduler-conf", "PUT", change, "application/xml")

    def decommission(self, host: str) -> None:
        """Take a node out of service, gently: what runs there may end by itself."""
        self._excluded.write_text(f"{host}\n")
        options = ["-refreshNodes", "-g", str(int(_PATIENCE_S)), "-server"]
        client = _java(self._manager, "org.apache.hadoop.yarn.client.cli.RMAdminCLI", *options)
        ended = subprocess.run(client, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr

    def _answers(self) -> bool:
        try:
            return bool(self._ask("info"))
        except OSError:
            return False

    def _ask(
        self, what: str, how: str = "GET", body: str = "", kind: str = "application/json"
    ) -> Any:
        request = urllib.request.Request(
            f"{self._web}/{what}",
            body.encode() or None,
            {"Accept": "application/json", "Content-Type": kind},
            method=how,
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = response.read()
        return json.loads(answer) if answer.startswith((b"{", b"[")) else answer.decode()


@contextmanager
def yarn(folder: Path) -> Iterator[Yarn]:
    """Start a cluster, and end it with all that runs on it."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Yarn(folder)
    with ExitStack() as running:
        cluster.start(running)
        yield cluster


def _configure(folder: Path, name: str, settings: Mapping[str, str]) -> None:
    """Write a file of settings as Hadoop reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    properties = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in settings.items()
    )
    (folder / f"{name}.xml").write_text(f"<configuration>\n{properties}</configuration>\n")


def _java(configuration: Path, *arguments: str) -> list[str]:
    jars = Path(pyspark.__file__).parent / "jars"
    own = [str(jar) for name in _FROM_SPARK for jar in jars.glob(f"{name}*.jar")]
    path = os.pathsep.join([str(configuration), classpath("yarn"), *own])
    opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
    java = [str(java_home() / "bin" / "java"), "-Xmx300m", *JVM_OPTIONS.split(), opened]
    return [*java, f"-Dhadoop.log.dir={configuration}", "-cp", path, *arguments]


@contextmanager
def _service(folder: Path, name: str) -> Iterator[None]:
    """A process of the cluster, ended with the block; a node ends its containers first."""
    log = folder / "service.log"
    with log.open("w") as report:
        process = subprocess.Popen(
            _java(folder, name),
            cwd=folder,
            stdout=report,
            stderr=report,
            env={**os.environ, "JAVA_HOME": str(java_home())},
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_those_in(folder: Path) -> None:
    """Kill what still runs in a folder: a node that died has left its containers behind."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("cwd").readlink().is_relative_to(folder):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # it has ended meanwhile, or is not ours
            continue
