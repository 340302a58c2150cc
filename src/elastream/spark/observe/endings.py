"""What ended a query, in one line for a log."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["ending"]

_MOST: Final = 200
_FRAME: Final = re.compile(
    r"^(\[STREAM_FAILED\] )?Query \[id = [^]]*\] terminated with exception: "
)
"""What Spark puts before the reason: mostly two ids, for which a log has no use."""
_WRAPPER: Final = re.compile(r"^(java\.util\.concurrent\.ExecutionException: )+")
_AFTER: Final = re.compile(r" SQLSTATE: \w+$")


def ending(fault: str) -> str:
    """Return the reason itself, of all that Spark says, cut to the length of a line."""
    first = fault.strip().splitlines()[0]
    return _AFTER.sub("", _WRAPPER.sub("", _FRAME.sub("", first)))[:_MOST]
