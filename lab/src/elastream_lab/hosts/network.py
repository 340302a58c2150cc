"""Hosts joined by a switch, for as long as a block lasts.

Each host is a network namespace with one address, and its processes have a ``/tmp`` of their own:
what one writes there, none of the others sees. Everything else of the file system they share, also
the folders named as shared below ``/tmp``. No host reaches the machine's own network, and no one
outside reaches a host: who talks with a process there does so by its standard streams or by files.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from elastream.model.errors import ElastreamError
from elastream_lab.hosts import namespaces
from elastream_lab.hosts.lateness import Lateness

_TMP: Final = Path("/tmp")  # noqa: S108 - that is what it is about
_END_S: Final = 10.0
_networks = itertools.count()
_ENTER: Final = """\
own=$1; shift
while [ "$1" != -- ]; do mount --bind "/tmp/$1" "$own/$1"; shift; done
shift
mount --rbind "$own" /tmp
exec "$@"
"""
"""Enter a host's own /tmp, with the shared folders in it: the mounts are seen by this process."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host; its processes see its network and its ``/tmp`` alone."""

    name: str
    address: str
    namespace: str
    tmp: Path
    """Where its ``/tmp`` lies for everyone else."""
    shared: tuple[str, ...]
    """The shared folders below ``/tmp``, relative to it."""

    def command(self, *arguments: str) -> list[str]:
        """Return how a program is started there."""
        inside = ["sh", "-e", "-c", _ENTER, "sh", str(self.tmp), *self.shared, "--", *arguments]
        return ["ip", "netns", "exec", self.namespace, *inside]

    def start(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        log: IO[Any] | int | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program there; it can be talked with, and ``log`` has what it complains of."""
        return subprocess.Popen(  # noqa: S603 - a program of ours
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
            start_new_session=True,
        )


class Network:
    """Hosts by their names, and what is between them. Delays are of one way: half a round trip."""

    def __init__(self, hosts: Sequence[Host], forwarder: subprocess.Popen[str]) -> None:
        self.hosts: Mapping[str, Host] = {host.name: host for host in hosts}
        self._port_of = {host.name: port for port, host in enumerate(hosts)}
        self._forwarder = forwarder
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Host:
        """Return a host."""
        return self.hosts[name]

    def delay(self, one: str, other: str, ms: float) -> None:
        """Let everything between two hosts take so long, either way."""
        self._ask("delay", self._port_of[one], self._port_of[other], ms / 1000)

    def slow(self, name: str, bytes_per_s: float | None) -> None:
        """Let the link of a host carry so much, in and as much out; ``None``: all there is."""
        namespaces.limit(self.hosts[name].namespace, bytes_per_s)
        self._ask("limit", self._port_of[name], bytes_per_s)

    def cut(self, name: str) -> None:
        """Cut the link of a host; its processes run on."""
        self._ask("cut", self._port_of[name])

    def mend(self, name: str) -> None:
        """Mend the link of a host."""
        self._ask("mend", self._port_of[name])

    def lose(self, name: str) -> None:
        """Let a host disappear: no one learns of it any more, and its processes end at once.

        It comes back, without them, by :meth:`mend`.
        """
        self.cut(name)
        namespaces.end_processes(self.hosts[name].namespace)

    def lateness(self) -> Lateness:
        """Return what the switch itself has added to the delays since this was asked last."""
        return Lateness(**self._ask("tell"))

    def _ask(self, what: str, *of: object) -> Any:
        with self._lock:
            given, report = self._forwarder.stdin, self._forwarder.stdout
            assert given is not None  # noqa: S101 - asked for below
            assert report is not None  # noqa: S101 - asked for below
            given.write(json.dumps({"ask": what, "of": of}) + "\n")
            given.flush()
            answer = report.readline()
        if not answer:
            raise ElastreamError("the switch between the hosts has ended")
        return json.loads(answer)


@contextmanager
def network(names: Sequence[str], *, shared: Sequence[Path] = ()) -> Iterator[Network]:
    """Make hosts, joined by links without delay or limit; all goes with the block.

    ``shared``: folders that all hosts see.
    """
    if (why := namespaces.why_not()) is not None:
        raise ElastreamError(f"hosts cannot be made: {why}")
    namespaces.sweep()
    below = tuple(
        str(each.resolve().relative_to(_TMP))
        for each in shared
        if each.resolve().is_relative_to(_TMP)
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="elastream-hosts-")))
        ours = f"{os.getpid()}-{next(_networks)}"
        hosts = []
        for number, name in enumerate(names):
            namespace = f"elastream-{ours}-{name}"
            namespaces.add(namespace)
            stack.callback(namespaces.remove, namespace)
            for each in ("", *below):
                (folder / name / each).mkdir(parents=True)
            address = f"10.77.0.{number + 1}"
            hosts.append(Host(name, address, namespace, folder / name, below))
        devices = [f"es{ours}-{number}" for number in range(len(hosts))]
        forwarder = stack.enter_context(_forwarder(devices))
        for host, device in zip(hosts, devices, strict=True):
            namespaces.join(host.namespace, device, f"{host.address}/24")
        yield Network(hosts, forwarder)


@contextmanager
def _forwarder(devices: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(  # noqa: S603 - a program of ours
        [sys.executable, "-m", "elastream_lab.hosts.forwarder", *devices],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - asked for above
        assert process.stdout is not None  # noqa: S101 - asked for above
        try:
            if process.stdout.readline() != '"ready"\n':
                raise ElastreamError("the switch between the hosts did not start")
            yield process
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
