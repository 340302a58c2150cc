"""A clock that nobody sets, to tell how long things take.

The machine's clock may be set, by an hour or by a second, back or ahead. Whoever waits for
something, or says for how long nothing was heard, must not notice: all moments that the loop
compares are read from this clock. What people read is told by the machine's own
(:attr:`~elastream.core.events.Tick.wall_ms`).
"""

from __future__ import annotations

import time
from typing import Final

_AHEAD_S: Final = time.time() - time.monotonic()


def steady_s() -> float:
    """Return the seconds since the epoch, had nobody set the clock since this was loaded."""
    return time.monotonic() + _AHEAD_S
