"""What else the machine had to do while something was measured on it.

A virtual machine may get less than its cores: its host counts the time that it gave to others as
stolen. Nothing inside shows it but batches that take twice as long, so studies tell it, and long
ones measure again what it spoilt, when the host is quiet.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)
_STOLEN: Final = 7
MUCH: Final = 0.05
"""A share of stolen time above which figures of time are not to be believed."""
_PROBE_S: Final = 2.0
_REST_S: Final = 18.0
"""Between two looks at a host that is busy."""
_LOOKS: Final = 180
"""In all: an hour of waiting."""


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """Times of all cores together since the machine began, in ticks."""

    all: int
    idle: int
    stolen: int

    @classmethod
    def of(cls, stat: str) -> MachineTimes:
        """Read the text that Linux has of them."""
        ticks = [int(part) for part in stat.split("\n", 1)[0].split()[1:9]]
        return cls(sum(ticks), sum(ticks[i] for i in _IDLE), ticks[_STOLEN])

    def __sub__(self, before: MachineTimes) -> MachineTimes:
        return MachineTimes(
            self.all - before.all, self.idle - before.idle, self.stolen - before.stolen
        )


def machine_times() -> MachineTimes | None:
    """Return the times up to now; ``None`` where the system does not tell them."""
    try:
        return MachineTimes.of(_STAT.read_text("ascii"))
    except OSError:
        return None


def stolen_share(before: MachineTimes | None, after: MachineTimes | None) -> float:
    """Return the share of the time in between that the host kept; 0 where it is not known."""
    if before is None or after is None or after.all <= before.all:
        return 0.0
    spent = after - before
    return spent.stolen / spent.all


def report(before: MachineTimes | None, after: MachineTimes | None) -> str | None:
    """Return what the machine did in between in a sentence; ``None`` where it is not known."""
    if before is None or after is None or after.all <= before.all:
        return None
    spent = after - before
    busy = 1 - (spent.idle + spent.stolen) / spent.all
    stolen = stolen_share(before, after)
    line = f"The machine was busy for {busy:.0%} of its time; its host kept {stolen:.0%} from it."
    if stolen > MUCH:
        line += " Times measured meanwhile say little: run it again."
    return line


class QuietHost:
    """Whether to measure something again, and when: once the host is quiet.

    ``tries``: how often in all. For a host that stays busy it waits an hour in all, not more.
    ``probe`` returns the share that the host keeps now of a machine that has all to do.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        tries: int,
        probe: Callable[[], float] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._say, self._tries, self._looks = say, tries, _LOOKS
        self._probe = _kept_of_all_cores if probe is None else probe
        self._sleep = sleep

    def try_again(self, stolen: float, what: str) -> bool:
        """Return whether it was disturbed and may be tried again, when the time for it has come."""
        if stolen <= MUCH or self._tries < 1:
            return False
        self._tries -= 1
        self._say(f"{what} again: the host kept {stolen:.0%} of the time")
        self._wait()
        return True

    def _wait(self) -> None:
        waits = False
        while self._looks > 0 and (kept := self._probe()) > MUCH:
            if not waits:
                self._say(f"waiting for the host, which keeps {kept:.0%}")
            waits = True
            self._looks -= 1
            self._sleep(_REST_S)


def _kept_of_all_cores() -> float:
    """Return what the host keeps while all cores are asked for: it takes nothing of idle ones."""
    cores = os.cpu_count() or 1
    began, until_s = machine_times(), time.monotonic() + _PROBE_S
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(_burn, [until_s] * cores))
    return stolen_share(began, machine_times())


def _burn(until_s: float) -> None:
    block = bytes(1 << 20)  # hashing that much lets other threads run
    while time.monotonic() < until_s:
        hashlib.sha256(block)
