"""A stand-in for what runs pods; not Kubernetes: no scheduler, no kubelet, no containers.

It takes every pod that the API server has, starts the executor that its spec asks for as a process
of this machine, with an address of its own, and shows the server how that is. A pod that is deleted
is ended as a kubelet does it: first what its ``preStop`` says, then by force when its time is up.
Images, volumes, limits of memory and cores, and networks are passed over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
from tests.components.api_server import ApiServer, Refused

from elastream.spark.sessions.java import java_home

__all__ = ["NODE", "PodRunner", "pod_runner"]

NODE = "here"
_LOOK_S = 0.2
_OPTION = "SPARK_JAVA_OPT_"
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


@dataclass
class _Run:
    """A pod that was started."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    reported: bool = False
    """Whether its end was reported to the server."""
    kill_at: float | None = None
    """When it is killed, once it was asked to end."""


class PodRunner:
    """Runs pods as processes; :func:`pod_runner` starts one."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._runs: dict[str, _Run] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.fault: BaseException | None = None
        """What ended it, where it was not asked to end."""

    def start(self) -> None:
        """Begin to look for pods."""
        self._thread.start()

    def end(self) -> None:
        """Run no more, and end all that runs."""
        self._ended.set()
        self._thread.join()
        for run in self._runs.values():
            run.process.kill()
            run.process.wait()

    def _look(self) -> None:
        try:
            while not self._ended.wait(_LOOK_S):
                pods = self._server.pods()
                for pod in pods.values():
                    with suppress(Refused):  # it has gone meanwhile
                        self._tend(pod)
                for uid in self._runs.keys() - {pod["metadata"]["uid"] for pod in pods.values()}:
                    self._runs.pop(uid).process.kill()  # deleted by force
        except BaseException as error:
            self.fault = error
            raise

    def _tend(self, pod: Mapping[str, Any]) -> None:
        about = pod["metadata"]
        run = self._runs.get(about["uid"])
        if run is None:
            if "deletionTimestamp" not in about:
                self._begin(pod)
            return
        code = run.process.poll()
        if "deletionTimestamp" in about:
            self._let_go(pod, run)
        elif code is not None and not run.reported:
            run.reported = True
            ended = {"exitCode": code if code >= 0 else 128 - code, "finishedAt": _now()}
            phase = "Failed" if code else "Succeeded"
            self._tell(pod, run, phase, {"terminated": ended})

    def _begin(self, pod: Mapping[str, Any]) -> None:
        about = pod["metadata"]
        name = about["name"]
        self._server.bind(name, NODE)
        address = f"127.0.1.{len(list(self._folder.iterdir())) + 1}"
        folder = self._folder / name
        folder.mkdir()
        (container,) = pod["spec"]["containers"]
        variables = _variables(container, {"status.podIP": address, "metadata.name": name})
        # the pod's own disk
        variables["SPARK_LOCAL_DIRS"] = str(folder / "disk")
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(
                _command(container, variables),
                cwd=folder,
                env={"PATH": os.environ["PATH"], **variables},
                stdout=log,
                stderr=log,
            )
        run = self._runs[about["uid"]] = _Run(name, address, process)
        self._tell(pod, run, "Running", {"running": {"startedAt": _now()}})

    def _let_go(self, pod: Mapping[str, Any], run: _Run) -> None:
        (container,) = pod["spec"]["containers"]
        if run.kill_at is None:
            run.kill_at = time.monotonic() + pod["metadata"]["deletionGracePeriodSeconds"]
            gently = "preStop" in container.get("lifecycle", {})  # Spark's own: a signal
            run.process.send_signal(signal.SIGPWR if gently else signal.SIGTERM)
        if run.process.poll() is None and time.monotonic() < run.kill_at:
            return
        run.process.kill()
        run.process.wait()
        self._server.delete_pod(run.name, gracePeriodSeconds=0)

    def _tell(
        self, pod: Mapping[str, Any], run: _Run, phase: str, state: Mapping[str, Any]
    ) -> None:
        (container,) = pod["spec"]["containers"]
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        reports = {"phase": phase, "podIP": run.address, "containerStatuses": [status]}
        self._server.tell_status(run.name, reports)


@contextmanager
def pod_runner(server: ApiServer, folder: Path) -> Iterator[PodRunner]:
    """Run the pods of a server as processes, and end them with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    runner = PodRunner(server, folder)
    runner.start()
    try:
        yield runner
    finally:
        runner.end()


def _variables(container: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for each in container["env"]:
        by_field = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[each["name"]] = fields[by_field] if by_field else each.get("value", "")
    return found


def _command(container: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """Return what the entry point of Spark's image makes of a container."""
    assert container["args"] == ["executor"], container["args"]
    numbered = (name for name in variables if name.startswith(_OPTION))
    options = sorted(numbered, key=lambda name: int(name.removeprefix(_OPTION)))
    memory = variables["SPARK_EXECUTOR_MEMORY"]
    arguments = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        str(java_home() / "bin" / "java"),
        *(variables[name] for name in options),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        f"{Path(pyspark.__file__).parent}/jars/*",
        _BACKEND,
        *(word for option, name in arguments.items() for word in (option, variables[name])),
    ]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
