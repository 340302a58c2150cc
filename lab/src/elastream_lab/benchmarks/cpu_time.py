"""CPU time of a Spark application, as the system counts it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["family_cpu_s"]


def family_cpu_s(*, with_self: bool) -> float:
    """Return the CPU time of this process's driver and executors so far, and maybe its own."""
    ticks, parents = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(file.parent.name)
        parents[pid], ticks[pid] = int(told[1]), int(told[11]) + int(told[12])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    if not with_self:
        family.discard(os.getpid())
    return sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")
