"""The process of an executor of this application, and its death.

For executors on this machine, as those of the embedded cluster are. A process is known by its whole
command line: an executor's, of this driver's address and this application, with that id. One that
does not answer to all of it is never killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine."""

    parent: int
    command: tuple[str, ...]


def executor_process(spark: SparkSession, executor: str) -> int:
    """Return the process id of an executor of this session."""
    context = spark.sparkContext
    conf = context.getConf()
    address = f"{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')}"
    return process_of(_processes(), executor, str(context.applicationId), address)


def process_of(
    processes: Mapping[int, Process], executor: str, application: str, address: str
) -> int:
    """Return which process is that executor; raises ``SparkError`` where that is not certain.

    ``address`` is the driver's, as ``host:port``.
    """
    report = {"--executor-id": executor, "--app-id": application}
    found = {
        pid: process.parent
        for pid, process in processes.items()
        if _EXECUTOR in process.command
        and all(_value(process.command, name) == value for name, value in report.items())
        and _value(process.command, "--driver-url").endswith(f"@{address}")
    }
    # What a process is about to start bears its command line for a moment.
    own = [pid for pid, parent in found.items() if parent not in found]
    if len(own) != 1:
        raise SparkError(f"executor {executor} has {len(own)} processes on this machine, not one")
    return own[0]


def kill_process(pid: int) -> None:
    """End a process at once, as a machine would die: nothing of it gets to say goodbye."""
    os.kill(pid, signal.SIGKILL)


def _value(command: Sequence[str], option: str) -> str:
    """Return the value of an option; nothing where the command has it not."""
    at = command.index(option) + 1 if option in command else len(command)
    return command[at] if at < len(command) else ""


def _processes() -> dict[int, Process]:
    """Return what runs on this machine, as its kernel lists it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
            status = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if status[0] not in "ZX":
            found[int(folder.name)] = Process(int(status[1]), tuple(command.split("\0")))
    return found
