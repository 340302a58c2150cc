"""Amounts as whole multiples of one unit, so that adding and subtracting them is exact.

Every float is a whole number over a power of two. Times the largest of those powers all amounts
are whole; schedules that split and sum them then end at zero, not near it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import Number

UnitArray = NDArray[Any]
"""Whole numbers: machine integers where they fit, Python's own where they do not."""

_MACHINE = 2**63


def in_units(numbers: Iterable[Number]) -> tuple[list[int], int]:
    """Return the numbers in units, and the number of units in one; 1 if all are whole."""
    ratios = [number.as_integer_ratio() for number in numbers]
    units_in_one = max((denominator for _, denominator in ratios), default=1)
    return [top * (units_in_one // bottom) for top, bottom in ratios], units_in_one


def of_units(units: int, units_in_one: int) -> Number:
    """Return a number of units as an amount: whole if the unit is 1, else rounded once."""
    return int(units) if units_in_one == 1 else int(units) / units_in_one


def unit_array(units: Sequence[int], *, largest: int) -> UnitArray:
    """Return an array for exact arithmetic whose results are at most ``largest`` in size."""
    return np.array(units, dtype=np.int64 if largest < _MACHINE else object)
