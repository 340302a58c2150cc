"""Network namespaces of Linux, by `ip` and `tc`: a network of its own for a host's processes.

Names bear the process that made them, so that what a process has left that was killed is known.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elastream.model.errors import ElastreamError
from elastream_lab.hosts.taps import DEVICE

_OURS: Final = re.compile(r"elastream-(\d+)-")
_POLL_S: Final = 0.02
_BURST: Final = 80 << 10
"""Bytes that go at once: no less than the largest frame."""
_BURST_S: Final = 0.002
"""What a loopback of known width carries in this time goes at once."""
_NEW_NETWORK: Final = 0x40000000
"""Linux's CLONE_NEWNET."""
_HELD: Final = 8 << 20
"""Bytes that wait on a host before it drops some; TCP waits before."""


def why_not() -> str | None:
    """Return why hosts cannot be made on this machine; ``None`` where they can."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            return f"the program {program} (of iproute2) is missing"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} is missing or closed: the kernel has no TAP devices"
    name = f"elastream-{os.getpid()}-trial"
    try:
        _ip("netns", "add", name)
        _ip("netns", "exec", name, "mount", "--bind", "/tmp", "/tmp")  # noqa: S108 - seen by it alone
    except ElastreamError as error:
        return str(error)
    finally:
        with contextlib.suppress(ElastreamError):
            _ip("netns", "delete", name)
    return None


def add(name: str) -> None:
    """Make a namespace with loopback."""
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")


def join(name: str, device: str, address: str) -> None:
    """Take a device into a namespace as its only way out, with an address."""
    _ip("link", "set", device, "netns", name, "name", "eth0")
    _ip("-n", name, "address", "add", address, "dev", "eth0")
    _ip("-n", name, "link", "set", "eth0", "up")


def limit(name: str, bytes_per_s: float | None) -> None:
    """Let a host send so much a second; ``None``: all it can. What is more waits on the host."""
    if bytes_per_s is None:
        _run("tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", "pfifo_fast")
        return
    bucket = ("rate", f"{round(8 * bytes_per_s)}bit", "burst", str(_BURST), "limit", str(_HELD))
    _run("tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", "tbf", *bucket)


@contextmanager
def limited_loopback(bytes_per_s: float) -> Iterator[None]:
    """Take this thread, and what it starts, into a network that is a loopback of known width.

    Only for a thread that has no connections, in a process that goes on to start others.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as before:
        if libc.unshare(_NEW_NETWORK) != 0:
            raise ElastreamError(f"no network of its own: {os.strerror(ctypes.get_errno())}")
        try:
            _ip("link", "set", "lo", "up")
            burst = max(_BURST, round(_BURST_S * bytes_per_s))
            bucket = ("rate", f"{round(8 * bytes_per_s)}bit", "burst", f"{burst}")
            _run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", *bucket, "limit", str(_HELD))
            yield
        finally:
            libc.setns(before.fileno(), _NEW_NETWORK)


def end_processes(name: str) -> None:
    """Kill every process in a namespace, those too that come of them meanwhile."""
    while processes := _ip("netns", "pids", name).split():
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        time.sleep(_POLL_S)


def remove(name: str) -> None:
    """Remove a namespace with all its processes."""
    end_processes(name)
    _ip("netns", "delete", name)


def sweep() -> None:
    """Remove what processes have left that are no more."""
    for line in _ip("netns", "list").splitlines():
        name = line.partition(" ")[0]
        made_by = _OURS.match(name)
        if made_by is not None and not Path(f"/proc/{made_by[1]}").exists():
            with contextlib.suppress(ElastreamError):  # another has been quicker
                remove(name)


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    ended = subprocess.run(  # noqa: S603 - programs of the machine, where they lie differs
        command, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        why = ended.stderr.strip().splitlines()
        raise ElastreamError(f"{' '.join(command)}: {why[-1] if why else 'failed'}")
    return ended.stdout
