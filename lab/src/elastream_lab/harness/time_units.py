"""Times written as numbers since 1970: their unit is known from their magnitude.

Seconds, milliseconds, microseconds and nanoseconds of the same time are a thousand times each
other, so that one of them is likely and the others lie centuries away. The marks between the units
lie in the year 5138, and in 1973 for the unit above.
"""

from __future__ import annotations

from typing import Final

UNITS_US: Final = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (float("inf"), 1e-3))
"""A number whose size is below the first has a unit of this many microseconds."""


def unit_us(number: float) -> float:
    """Return how many microseconds the unit of ``number`` has; anything else has any."""
    return next((unit for mark, unit in UNITS_US if abs(number) < mark), 1.0)
