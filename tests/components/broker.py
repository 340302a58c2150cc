"""A real Apache Kafka: broker and controller in one process, on loopback, from jars alone."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.components.parts import classpath

from elastream.spark.sessions.embedded_cluster import JVM_OPTIONS
from elastream.spark.sessions.java import java_home

__all__ = ["Broker", "broker", "free_ports"]

_PATIENCE_S = 300.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{quorum}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{quorum}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def free_ports(number: int) -> list[int]:
    """Return ports of this machine that no one listens on."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Broker:
    """A broker with a folder and a port of its own, which it keeps when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._port, quorum = free_ports(2)
        self._log = folder / "broker.log"
        self._properties = folder / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(port=self._port, quorum=quorum, folder=folder)
        )
        name = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        # As one word: an id that begins with "-" would be taken for an option
        options = ["format", f"--cluster-id={name}", "--config", str(self._properties)]
        formatted = self._run("kafka.tools.StorageTool", *options).wait(_PATIENCE_S)
        assert formatted == 0, f"the storage is not formatted: {self._log.read_text()[-2000:]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and return when it listens."""
        self._process = self._run("kafka.Kafka", str(self._properties))
        end = time.monotonic() + _PATIENCE_S
        while not self._listens():
            reports = self._log.read_text()[-2000:]
            assert self._process.poll() is None, f"the broker has ended: {reports}"
            assert time.monotonic() < end, f"the broker does not listen: {reports}"
            time.sleep(0.2)

    def kill(self) -> None:
        """End it as a machine would die."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it gently."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, how)
            self._process.wait(_PATIENCE_S)
            self._process = None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        java = [str(java_home() / "bin" / "java"), "-Xmx400m", *JVM_OPTIONS.split()]
        with self._log.open("a") as log:
            return subprocess.Popen(
                [*java, "-cp", classpath("kafka-broker"), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Start a broker, and end it with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Broker(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()
