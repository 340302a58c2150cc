"""What a study hands back: one figure or table of a paper, reproduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Curves:
    """How the rows are drawn: a line for each value of ``line``, or one line for each column."""

    x: str
    y: tuple[str, ...]
    """Columns; several share the picture."""
    line: str | None = None
    log: bool = False
    """Whether values are so far apart that only their ratios can be seen."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The rows of a figure, and whether they show what the paper's show."""

    figure: str
    """Number of the paper and of its figure, such as "003 fig. 9"."""
    data: str
    """What was computed on what."""
    rows: Sequence[Mapping[str, Any]]
    """Values as JSON has them; those of curves and tables are of type ``Value``."""
    curves: Curves | None
    """``None`` for a table, or where the study has a picture of its own."""
    trend_holds: bool
    says: str
    """One sentence: what the paper claims, what is seen here."""

    def as_json(self, study: str) -> dict[str, object]:
        """Return the figure as ``elastream study --json`` writes it."""
        return {
            "study": study,
            "figure": self.figure,
            "data": self.data,
            "rows": [dict(row) for row in self.rows],
            "trend_holds": self.trend_holds,
            "says": self.says,
        }


def rises(values: Sequence[float], slack: float = 0.0) -> bool:
    """Return whether each value is at least the one before, up to ``slack``, and the last above."""
    return values[-1] > values[0] and all(b >= a - slack for a, b in pairwise(values))


def falls(values: Sequence[float], slack: float = 0.0) -> bool:
    """Return whether each value is at most the one before, up to ``slack``, and the last below."""
    return rises([-value for value in values], slack)
