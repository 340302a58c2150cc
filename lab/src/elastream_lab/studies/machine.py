"""What else the machine had to do while something was measured on it.

A virtual machine may get less than its cores: its host counts the time that it gave to others as
stolen. Nothing inside shows it but batches that take twice as long, so studies tell it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["MUCH", "MachineTimes", "machine_times", "stolen_share", "told"]

_STAT: Final = Path("/proc/stat")
_IDLE: Final = (3, 4)
_STOLEN: Final = 7
MUCH: Final = 0.05
"""A share of stolen time above which figures of time are not to be believed."""


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


def told(before: MachineTimes | None, after: MachineTimes | None) -> str | None:
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
