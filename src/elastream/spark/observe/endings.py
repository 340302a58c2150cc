"""What ended a query, in one line for a log or a screen."""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 200
_FRAME: Final = re.compile(
    r"^(\[STREAM_FAILED\] )?Query \[id = [^]]*\] terminated with exception: "
)
"""What Spark puts before the reason: mostly two ids, for which a log has no use."""
_WRAPPER: Final = re.compile(r"^(java\.util\.concurrent\.ExecutionException: )+")
_AFTER: Final = re.compile(r" SQLSTATE: \w+$")
_PLAN: Final = "=== Streaming Query ==="
"""Begins the description of the query, which follows the reason."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_JAVA_BELOW: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling"
"""A call into Java failed; the next line, after a colon, says why."""


def ending(fault: object) -> str:
    """Return the reason itself, of all that Spark says, cut to the length of a line.

    Of a user's Python function that failed, in the driver or in an executor, it is what the
    function raised. ``None`` is a query that ended without any exception.
    """
    if fault is None:
        return "the reason is not known"
    lines = str(fault).partition(_PLAN)[0].strip().splitlines() or [""]
    traced = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    first = _raised(lines[traced[-1] + 1 :]) if traced else ""
    return _AFTER.sub("", _WRAPPER.sub("", _FRAME.sub("", first or lines[0])))[:_MOST]


def _raised(traceback: list[str]) -> str:
    """Return what the last lines of a traceback say, which alone are not indented."""
    said = [line for line in traceback if line[:1].strip()]
    if said and said[0].startswith(_JAVA_BELOW) and len(said) > 1:
        return said[1].removeprefix(": ")
    return said[0] if said else ""
