"""Lengths of time as people write them on a command line: ``90s``, ``15m``, ``1h``, ``1d``."""

from __future__ import annotations

import re
from typing import Final

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(option: str, text: str) -> int:
    """Return a length of time such as ``90s``, ``15m``, ``1h`` or ``1d`` in seconds."""
    match = re.fullmatch(r"(\d{1,9})([smhd])", text.strip())
    if match is None or int(match[1]) == 0:
        raise ProblemError(
            option, f"{abbreviate(text)} is not a length of time such as 15m, 1h or 1d"
        )
    return int(match[1]) * _UNITS_S[match[2]]


def length_of(seconds: int) -> str:
    """Return a length of time as ``seconds_of`` reads it, in the largest unit that fits."""
    unit = next(unit for unit in reversed(_UNITS_S) if seconds % _UNITS_S[unit] == 0)
    return f"{seconds // _UNITS_S[unit]}{unit}"
