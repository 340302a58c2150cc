"""A clock that jumps, for one process of Python.

``time.time`` is replaced before elastream is loaded: its loop and its monitor then read a clock
that is shifted by this many seconds. The JVM's clock, and so the times of batches, stays as it is:
what follows is that the two no longer agree, as after a jump between two readings.
"""

from __future__ import annotations

import time
from typing import Final

_real: Final = time.time


class MovedClock:
    """The wall clock, shifted."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def install(self) -> None:
        """Let this process read it from now on."""
        time.time = self._now

    def jump(self, seconds: float) -> None:
        """Move it by so much, on top of earlier jumps."""
        self.ahead_s += seconds

    def _now(self) -> float:
        return _real() + self.ahead_s
