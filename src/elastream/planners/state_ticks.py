"""State sizes as machine integers: sums and comparisons are exact, and fractions have room.

A size is a whole number of *ticks*, a power of two of them to the byte, so that all sizes together
are a little under a given number of ticks. What does not fit is rounded down: a cost in ticks is
never more than the true one, so a lower bound in ticks is one in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elastream.model.checks import Number

__all__ = ["Ticks"]

_FLOAT_BITS = 53
"""Whole numbers below two to this power are exact as floats."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """State sizes in ticks."""

    sizes: tuple[int, ...]
    exponent: int
    """A byte has ``2**exponent`` ticks."""

    @classmethod
    def of(cls, state: Sequence[Number], *, bits: int) -> Ticks:
        """Return the sizes with their total below ``2**bits`` ticks."""
        total = sum(state)
        magnitude = total.bit_length() if type(total) is int else math.frexp(total)[1]
        exponent = bits - magnitude - 1 if total else 0
        return cls(tuple(_scaled(size, exponent) for size in state), exponent)

    @classmethod
    def for_floats(cls, state: Sequence[Number]) -> Ticks:
        """Return sizes whose sums are exact as floats too: bytes where they serve."""
        total = sum(state)
        if type(total) is int and total < 1 << _FLOAT_BITS:
            return cls(tuple(map(int, state)), 0)
        return cls.of(state, bits=_FLOAT_BITS)


def _scaled(size: Number, exponent: int) -> int:
    if isinstance(size, float):
        return math.floor(math.ldexp(size, exponent))
    return size << exponent if exponent >= 0 else size >> -exponent
