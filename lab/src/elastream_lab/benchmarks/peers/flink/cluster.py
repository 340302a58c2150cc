"""A Flink session cluster of processes on this machine, and its REST interface.

The processes are started without Flink's shell scripts, which keep process ids in files of their
own: each is a child of this one, and is ended by its id when the block is left, however that is.
"""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from elastream.model.errors import ElastreamError
from elastream.spark.sessions.interrupts import interrupts_ignored
from elastream_lab.benchmarks.peers.flink.configuration import FlinkConfiguration
from elastream_lab.benchmarks.peers.flink.installation import FlinkInstallation

_JOB_MANAGER: Final = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER: Final = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_LOOPBACK: Final = "127.0.0.1"
_START_S: Final = 120.0
_RESCALE_S: Final = 120.0
_END_S: Final = 20.0
_REQUEST_S: Final = 60.0
_POLL_S: Final = 0.05
_SHOWN: Final = 300
_ENDED: Final = ("FAILING", "FAILED", "CANCELLING", "CANCELED", "FINISHED", "SUSPENDED")


class FlinkError(ElastreamError):
    """Flink cannot do what was asked, or has ended."""


class FlinkJob:
    """A job that runs."""

    def __init__(self, cluster: FlinkCluster, job: str) -> None:
        self._cluster = cluster
        self._job = job

    def check(self) -> None:
        """Raise ``FlinkError`` where the job or a process of the cluster has ended."""
        self._details()

    def rescale(self, parallelism: int) -> None:
        """Ask for another parallelism, and wait until the job runs with it."""
        path = f"/jobs/{self._job}/resource-requirements"
        wanted = self._cluster.ask("GET", path)
        self._cluster.ask("PUT", path, requirements(wanted, parallelism))
        self.await_running(parallelism)

    def await_running(self, parallelism: int) -> None:
        """Wait until every part of the job runs, the widest with this many tasks."""
        _await(
            lambda: is_running(self._details(), parallelism),
            _RESCALE_S,
            f"the Flink job does not run with {parallelism} tasks",
        )

    def _details(self) -> dict[str, Any]:
        self._cluster.check()
        report = self._cluster.ask("GET", f"/jobs/{self._job}")
        if report["state"] in _ENDED:
            raise FlinkError(f"the Flink job is {report['state'].lower()}: {self._cause()}")
        return report

    def _cause(self) -> str:
        history = self._cluster.ask("GET", f"/jobs/{self._job}/exceptions")["exceptionHistory"]
        causes = [entry["stacktrace"] for entry in history.get("entries", ())]
        return " ".join(causes[0].split())[:_SHOWN] if causes else "it does not say why"


class FlinkCluster:
    """A job manager and task managers of one slot each."""

    def __init__(
        self, flink: FlinkInstallation, java: Path, configuration: FlinkConfiguration
    ) -> None:
        self._flink = flink
        self._java = java
        self._configuration = configuration
        self._folder = configuration.write()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, task_managers: int) -> None:
        """Start it, and wait until this many task managers have joined."""
        self._start("job manager", _JOB_MANAGER, self._configuration.job_manager_java)
        for _ in range(task_managers):
            self.add_task_manager()

        def joined() -> bool:
            self.check()
            try:
                return int(self.ask("GET", "/overview")["slots-total"]) == task_managers
            except FlinkError:  # it is not listening yet
                return False

        _await(joined, _START_S, f"{task_managers} task managers have not joined")

    def add_task_manager(self) -> None:
        """Start another task manager; it joins by itself."""
        name = f"task manager {len(self._processes)}"
        self._start(name, _TASK_MANAGER, self._configuration.task_manager_java)

    def submit(
        self, jar: Path, entry: str, arguments: Sequence[str], *, parallelism: int
    ) -> FlinkJob:
        """Start a job, and wait until it runs."""
        boundary = secrets.token_hex(16)
        body = multipart(boundary, jar.name, jar.read_bytes())
        kind = f"multipart/form-data; boundary={boundary}"
        stored = self._request("POST", "/jars/upload", body, kind)["filename"]
        asked = {
            "entryClass": entry,
            "programArgsList": list(arguments),
            "parallelism": parallelism,
        }
        report = self.ask("POST", f"/jars/{Path(stored).name}/run", asked)
        job = FlinkJob(self, report["jobid"])
        job.await_running(parallelism)
        return job

    def ask(self, method: str, path: str, content: object = None) -> dict[str, Any]:
        """Return what the REST interface answers."""
        body = b"" if content is None else json.dumps(content).encode()
        return self._request(method, path, body, "application/json")

    def check(self) -> None:
        """Raise ``FlinkError`` where a process has ended by itself."""
        for name, process in self._processes.items():
            if (code := process.poll()) is not None:
                said = last_line(self._log(name).read_text(errors="replace"))
                raise FlinkError(f"Flink's {name} ended with code {code}: {said}")

    def end(self) -> None:
        """End every process, in whatever state it is."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + _END_S
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, entry: str, options: Sequence[str]) -> None:
        command = [
            str(self._java / "bin" / "java"),
            *options,
            "-cp",
            ":".join(map(str, self._flink.jars)),
            entry,
            "--configDir",
            str(self._folder),
        ]
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _log(self, name: str) -> Path:
        return self._configuration.scratch / f"{name.replace(' ', '-')}.log"

    def _request(self, method: str, path: str, body: bytes, kind: str) -> dict[str, Any]:
        port = self._configuration.rest_port
        connection = http.client.HTTPConnection(_LOOPBACK, port, timeout=_REQUEST_S)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise FlinkError(f"Flink's job manager does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise FlinkError(f"Flink refuses {method} {path}: {' '.join(text.split())[:_SHOWN]}")
        fields: dict[str, Any] = json.loads(text) if text else {}
        return fields


@contextmanager
def flink_cluster(
    flink: FlinkInstallation,
    java: Path,
    scratch: Path,
    *,
    task_managers: int,
    checkpoint_s: float,
) -> Iterator[FlinkCluster]:
    """Give a running cluster with its files in ``scratch``."""
    rest_port, rpc_port = _free_ports(2)
    configuration = FlinkConfiguration(scratch, rest_port, rpc_port, checkpoint_s)
    cluster = FlinkCluster(flink, java, configuration)
    try:
        cluster.start(task_managers)
        yield cluster
    finally:
        with interrupts_ignored():
            cluster.end()


def requirements(fields: Mapping[str, Any], parallelism: int) -> dict[str, Any]:
    """Return a job's requirements with another parallelism; a source of one task keeps it."""
    return {
        vertex: {
            "parallelism": {
                "lowerBound": 1,
                "upperBound": parallelism if asked["parallelism"]["upperBound"] > 1 else 1,
            }
        }
        for vertex, asked in fields.items()
    }


def is_running(fields: Mapping[str, Any], parallelism: int) -> bool:
    """Return whether all of a job runs, its widest part with this many tasks."""
    vertices = fields["vertices"]
    return (
        fields["state"] == "RUNNING"
        and max((vertex["parallelism"] for vertex in vertices), default=0) == parallelism
        and all(vertex["status"] == "RUNNING" for vertex in vertices)
    )


def multipart(boundary: str, name: str, content: bytes) -> bytes:
    """Return a form with one file, as browsers send it."""
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="jarfile"; filename="{name}"\r\n'
        "Content-Type: application/x-java-archive\r\n\r\n"
    )
    return head.encode() + content + f"\r\n--{boundary}--\r\n".encode()


def last_line(log: str) -> str:
    """Return the last line of a log that is not part of a stack trace."""
    lines = [line for line in log.splitlines() if line.strip() and not line[0].isspace()]
    return lines[-1][:_SHOWN] if lines else "it said nothing"


def _free_ports(number: int) -> list[int]:
    """Return ports of the loopback that no one uses now."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind((_LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _await(reached: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise FlinkError(f"{otherwise} after {seconds:g} s")
        time.sleep(_POLL_S)
