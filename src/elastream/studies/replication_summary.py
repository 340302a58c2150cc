"""What a part of the replication study hands back: a figure or table of paper 004, made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Summary"]


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows of a figure or table, and whether they show what the paper's show."""

    figure: str
    """As the paper numbers it."""
    data: str
    """What was computed on what."""
    rows: Sequence[Mapping[str, object]]
    trend_holds: bool
    says: str
    """One sentence: what the paper claims, what is seen here."""

    def as_json(self) -> dict[str, object]:
        """Return the summary as ``elastream study --json`` writes it."""
        return {
            "study": "replication",
            "figure": f"004 {self.figure}",
            "data": self.data,
            "rows": [dict(row) for row in self.rows],
            "trend_holds": self.trend_holds,
            "says": self.says,
        }
