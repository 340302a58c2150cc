"""A real Kubernetes API server on loopback, with the etcd that it keeps its objects in.

That is all of Kubernetes that runs here: no one schedules pods, and no one runs them but the
stand-in of :mod:`tests.components.pods`.
"""

from __future__ import annotations

import base64
import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.components.broker import free_ports
from tests.components.parts import FOLDER
from tests.spark.running_query import until

__all__ = ["ApiServer", "Refused", "api_server", "missing_api_server"]

_ETCD = FOLDER / "bin" / "etcd"
_SERVER = FOLDER / "bin" / "kube-apiserver"
_POD = "/api/v1/namespaces/default/pods"
_QUOTA = "/api/v1/namespaces/default/resourcequotas"


def missing_api_server() -> str | None:
    """Return what is not built; ``None`` where nothing is missing."""
    there = _ETCD.exists() and _SERVER.exists()
    return None if there else "Kubernetes' API server not built; make api-server does that, by Go"


class Refused(Exception):  # noqa: N818 - an answer, no error
    """What the server does not do, with its own code and reason."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class ApiServer:
    """The server, and what an operator asks it for; :func:`api_server` starts one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        store, peers, port = free_ports(3)
        self.master = f"k8s://https://127.0.0.1:{port}"
        self._url = f"https://127.0.0.1:{port}"
        self._token = secrets.token_hex(16)
        self._certificate = folder / "apiserver.crt"
        self._commands = (
            [
                str(_ETCD),
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{store}",
                f"--advertise-client-urls=http://127.0.0.1:{store}",
                f"--listen-peer-urls=http://127.0.0.1:{peers}",
                "--unsafe-no-fsync",
            ],
            [
                str(_SERVER),
                f"--etcd-servers=http://127.0.0.1:{store}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--secure-port={port}",
                f"--cert-dir={folder}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=AlwaysAllow",
                "--disable-admission-plugins=ServiceAccount",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://127.0.0.1",
                f"--service-account-key-file={folder / 'accounts.key'}",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
            ],
        )

    @property
    def settings(self) -> dict[str, str]:
        """What a driver is given, so that the server believes it and it believes the server."""
        return {
            "spark.kubernetes.authenticate.caCertFile": str(self._certificate),
            "spark.kubernetes.authenticate.oauthToken": self._token,
        }

    def start(self, running: ExitStack) -> None:
        """Start both processes, and return when the server can keep pods."""
        (self._folder / "tokens.csv").write_text(f"{self._token},tests,tests,system:masters\n")
        (self._folder / "accounts.key").write_text(_elliptic_key())
        for command in self._commands:
            running.enter_context(_service(self._folder, command))
        until(self._ready, "the API server is ready")

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return all pods by name."""
        return {each["metadata"]["name"]: each for each in self.ask("GET", _POD)["items"]}

    def delete_pod(self, name: str, **options: Any) -> None:
        """Delete a pod; what it runs is given its time to end."""
        self.ask("DELETE", f"{_POD}/{name}", options)

    def bind(self, name: str, node: str) -> None:
        """Give a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.ask("POST", f"{_POD}/{name}/binding", {"metadata": {"name": name}, "target": target})

    def tell_status(self, name: str, status: Mapping[str, Any]) -> None:
        """Say how a pod is, as its node does."""
        self.ask("PATCH", f"{_POD}/{name}/status", {"status": status})

    def allow(self, pods: int) -> None:
        """Let the namespace have no more pods than it has, ``pods``; return when that holds."""
        quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": str(pods)}}}
        self.ask("POST", _QUOTA, quota)
        used = {"hard": {"pods": str(pods)}, "used": {"pods": str(pods)}}
        self.ask("PATCH", f"{_QUOTA}/full/status", {"status": used})
        until(lambda: not self._takes_pods(), "the quota holds")

    def allow_all(self) -> None:
        """Let the namespace have as many pods as it likes; return when that holds."""
        self.ask("DELETE", f"{_QUOTA}/full")
        until(self._takes_pods, "the quota holds no more")

    def ask(self, how: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask the server for something; :class:`Refused` where it does not do it."""
        kind = "application/merge-patch+json" if how == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            method=how,
        )
        trusted = ssl.create_default_context(cafile=str(self._certificate))
        try:
            with urllib.request.urlopen(request, timeout=60, context=trusted) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")) from None

    def _ready(self) -> bool:
        try:
            self.ask("GET", "/api/v1/namespaces/default")
        except (OSError, Refused):
            return False
        return self._takes_pods()

    def _takes_pods(self) -> bool:
        container = {"name": "any", "image": "any"}
        pod = {"metadata": {"name": "tried"}, "spec": {"containers": [container]}}
        try:
            self.ask("POST", f"{_POD}?dryRun=All", pod)
        except Refused as refused:
            if refused.code != 403:
                raise
            return False
        return True


@contextmanager
def api_server(folder: Path) -> Iterator[ApiServer]:
    """Start a server, and end it with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    server = ApiServer(folder)
    with ExitStack() as running:
        server.start(running)
        yield server


@contextmanager
def _service(folder: Path, command: list[str]) -> Iterator[None]:
    with (folder / f"{Path(command[0]).name}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _elliptic_key() -> str:
    """Return a private key of the curve P-256, which signs tokens of accounts that no one has."""
    number = bytes([0x04, 32]) + b"\x01" + secrets.token_bytes(31)  # below the curve's order
    curve = bytes.fromhex("06082a8648ce3d030107")
    inner = bytes.fromhex("020101") + number + bytes([0xA0, len(curve)]) + curve
    text = base64.b64encode(bytes([0x30, len(inner)]) + inner).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    kind = "EC PRIVATE KEY"
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
