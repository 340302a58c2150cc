"""The processes of a session on this machine, also those whose driver has died before them.

By ``/proc``; where the system has none, by ``ps``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Final, NamedTuple

_KILLED_S: Final = 10.0
"""How long a process that was killed may take to end."""


class _Process(NamedTuple):
    pid: int
    state: str
    parent: int
    command: str


def application_processes(driver: int | None, token: str) -> frozenset[int]:
    """Return the driver, its executors, and all that came of them.

    Executors are known by the id of their application, which ends with the token: when the driver
    is killed they have no parent, and go on until they notice.
    """
    running = [each for each in _processes() if each.state not in "ZX"]
    children: dict[int, list[int]] = {}
    for each in running:
        children.setdefault(each.parent, []).append(each.pid)
    ours = [each.pid for each in running if _is_of(each.command, token)]
    found = ours if driver is None else [driver, *ours]
    for pid in found:
        found.extend(child for child in children.get(pid, ()) if child not in found)
    return frozenset(found)


def await_end(family: Set[int], timeout_s: float) -> None:
    """Return when none of the processes runs; those that do at the timeout are killed."""
    deadline, is_last = time.monotonic() + timeout_s, False
    while alive := {each.pid for each in _processes() if each.state not in "ZX"} & family:
        if time.monotonic() > deadline:
            if is_last:
                return
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            deadline, is_last = time.monotonic() + _KILLED_S, True
        time.sleep(0.1)


def _is_of(command: str, token: str) -> bool:
    words = command.split()
    return any(word.startswith("app-") and word.endswith(f"-{token}") for word in words)


def _processes() -> list[_Process]:
    listing = Path("/proc").glob("[0-9]*/stat")
    return [each for file in listing if (each := _from_proc(file)) is not None] or list(_from_ps())


def _from_proc(file: Path) -> _Process | None:
    """Return one process; its name, in brackets, may hold anything."""
    try:
        state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
        command = (file.parent / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:  # it has ended meanwhile
        return None
    return _Process(int(file.parent.name), state, int(parent), command.decode(errors="replace"))


def _from_ps() -> Iterator[_Process]:
    listed = subprocess.run(
        ["ps", "-A", "-w", "-w", "-o", "pid=,stat=,ppid=,args="],  # noqa: S607 - where ps is differs by system
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    for line in listed.stdout.splitlines():
        pid, state, parent, *command = line.split(None, 3)
        yield _Process(int(pid), state[0], int(parent), " ".join(command))
