"""CPU time of a Spark application, as the system counts it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds of CPU time of each part of an application."""

    python: float
    """This process."""
    driver: float
    """The driver's JVM, which this process has started."""
    executors: float
    """What that has started, and so on."""

    @property
    def spark(self) -> float:
        """All but this process."""
        return self.driver + self.executors

    @property
    def attached_to(self) -> float:
        """The processes in which a controller works: all but the executors."""
        return self.python + self.driver

    @property
    def total(self) -> float:
        """All of it."""
        return self.python + self.spark

    def per(self, before: CpuTimes, batches: int) -> CpuTimes:
        """Return what each of this many batches took since another reading."""
        return CpuTimes(
            (self.python - before.python) / batches,
            (self.driver - before.driver) / batches,
            (self.executors - before.executors) / batches,
        )


def cpu_times() -> CpuTimes:
    """Return the CPU times of this process, its driver and its executors so far."""
    ticks, parents = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(file.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    python = {os.getpid()}
    drivers = {pid for pid, parent in parents.items() if parent in python}
    family = python | drivers
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more

    def seconds(pids: set[int]) -> float:
        return sum(ticks.get(pid, 0) for pid in pids) / os.sysconf("SC_CLK_TCK")

    return CpuTimes(seconds(python), seconds(drivers), seconds(family - python - drivers))
