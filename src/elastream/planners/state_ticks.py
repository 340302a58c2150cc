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


def _scaled(size: Number, exponent: int) -> int:
    if isinstance(size, float):
        return math.floor(math.ldexp(size, exponent))
    return size << exponent if exponent >= 0 else size >> -exponent
