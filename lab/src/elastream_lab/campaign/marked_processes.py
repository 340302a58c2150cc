"""The processes of one run: they bear a mark in their environment, whoever started them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "ELASTREAM_TRIAL"
"""The variable; its value is of one run alone."""
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DRIVER: Final = "org.apache.spark.deploy.SparkSubmit"


@dataclass(frozen=True, slots=True)
class Marked:
    """One process."""

    pid: int
    parent: int
    command: tuple[str, ...]

    @property
    def executor(self) -> str | None:
        """The executor that it is, by Spark's id."""
        if _EXECUTOR not in self.command:
            return None
        return self.command[self.command.index("--executor-id") + 1]


def marked(value: str) -> list[Marked]:
    """Return the processes that bear the mark and have not ended."""
    mark, found = f"{MARK}={value}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            status = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile, or is another's
            continue
        if status[0] not in "ZX":
            parts = tuple(command.rstrip("\0").split("\0"))
            found.append(Marked(int(folder.name), int(status[1]), parts))
    return found


def executors(value: str) -> dict[str, int]:
    """Return the process of every executor of the run, by Spark's id."""
    processes = marked(value)
    own = {process.pid for process in processes if process.executor is not None}
    # What a process is about to start bears its command line for a moment.
    return {
        process.executor: process.pid
        for process in processes
        if process.executor is not None and process.parent not in own
    }


def jvm_of(value: str) -> int | None:
    """Return the process of the driver's JVM."""
    return next((each.pid for each in marked(value) if _DRIVER in each.command), None)


def signalled(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether there was anybody to get it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def wait_for_end(value: str, timeout_s: float) -> list[Marked]:
    """Wait until no process bears the mark; return those that still do when the time is up."""
    deadline = time.monotonic() + timeout_s
    while (left := marked(value)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def end(processes: list[Marked]) -> None:
    """End these processes at once."""
    for process in processes:
        signalled(process.pid, signal.SIGCONT)
        signalled(process.pid, signal.SIGKILL)
