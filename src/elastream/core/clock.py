"""A clock that is never set, to measure how long things take.

The machine's clock may be set, ahead or back. All moments that the loop compares are read from this
one; people are shown the machine's (:attr:`~elastream.core.events.Tick.wall_ms`).
"""

from __future__ import annotations

import time
from typing import Final

_AHEAD_S: Final = time.time() - time.monotonic()


def steady_s() -> float:
    """Return the seconds since the epoch, by the machine's clock as it was when this was loaded."""
    return time.monotonic() + _AHEAD_S
