"""Figures that were measured several times: the median, and from the least to the most. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

_Measured = TypeVar("_Measured")
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Range:
    """One figure over all the repeats in which it was there."""

    median: float
    least: float
    most: float

    def text(self, digits: int) -> str:
        """Return it for people: the range only where the repeats differ as far as is shown."""
        middle, least, most = (f"{n:.{digits}f}" for n in (self.median, self.least, self.most))
        return middle if least == most else f"{middle} ({least}..{most})"


def over(values: Iterable[float | None]) -> Range | None:
    """Return the range of the values that are there; ``None`` where none is."""
    known = [value for value in values if value is not None]
    return Range(median(known), min(known), max(known)) if known else None


def grouped(
    results: Sequence[_Measured], key: Callable[[_Measured], _Key]
) -> dict[_Key, list[_Measured]]:
    """Return the results of each case, in the order in which the cases came first."""
    found: dict[_Key, list[_Measured]] = {}
    for result in results:
        found.setdefault(key(result), []).append(result)
    return found
