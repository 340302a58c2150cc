"""Processes of this machine, as the kernel lists them: bare machines have no ``ps``."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 600.0


def kill(spark: SparkSession, executor: str) -> None:
    """Kill the process of an executor of this session, as a machine would die."""
    (pid,) = (
        pid
        for pid, command in executor_processes(spark).items()
        if f"--executor-id {executor} " in command
    )
    os.kill(pid, signal.SIGKILL)


def executor_processes(spark: SparkSession) -> dict[int, str]:
    """The command line of every executor of this session, those that start up too."""
    conf = spark.sparkContext.getConf()
    driver = f"@{conf.get('spark.driver.host')}:{conf.get('spark.driver.port')} "
    # by the driver's address: applications that start in the same second have the same id
    found = {pid: line for pid, line in _commands().items() if driver in line}
    # what a process is about to start bears its command line for a moment
    return {
        pid: line
        for pid, line in found.items()
        if (status := _status(pid)) and status[0] != "Z" and int(status[1]) not in found
    }


def descendants(pid: int) -> dict[int, str]:
    """The command line of every process that came of this one."""
    parents = {child: int(_status(child)[1]) for child in _commands() if _status(child)}
    found = [pid]
    for parent in found:
        found.extend(child for child, its in parents.items() if its == parent)
    commands = _commands()
    return {child: commands.get(child, "") for child in found[1:]}


def of_session(pid: int) -> list[int]:
    """The processes of the session that a process began with, those it left behind too."""
    statuses = {member: _status(member) for member in _commands()}
    return [
        member
        for member, status in statuses.items()
        if status and status[0] != "Z" and status[3] == str(pid)
    ]


def alive(family: dict[int, str]) -> list[str]:
    """Those of the processes that run on; given a moment, as init reaps orphans."""
    deadline = time.monotonic() + _PATIENCE_S
    while left := [line for pid, line in family.items() if _runs(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return left


def _runs(pid: int) -> bool:
    status = _status(pid)
    return bool(status) and status[0] != "Z"


def _commands() -> dict[int, str]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            raw = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        found[int(folder.name)] = raw.replace(b"\0", b" ").decode(errors="replace")
    return found


def _status(pid: int) -> list[str]:
    """State, parent, group and session; nothing where the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()[:4]
