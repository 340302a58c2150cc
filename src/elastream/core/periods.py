"""Periods of the day in which nothing is changed: ``"08:00-09:30"``, ``"Mon-Fri 22:00-06:00"``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_FORM: Final = re.compile(
    r"(?:(?P<first>[A-Z][a-z]{2})(?:-(?P<last>[A-Z][a-z]{2}))? )?"
    r"(?P<begin>[0-2]\d:[0-5]\d)-(?P<end>[0-2]\d:[0-5]\d)"
)
_DAY_MIN: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Period:
    """A period of certain days of the week; one that ends before it begins ends on the next day."""

    days: frozenset[int]
    """The days on which it begins, 0 for Monday."""
    begin_min: int
    """Minutes since midnight."""
    end_min: int

    @classmethod
    def of(cls, field: str, text: object) -> Period:
        """Return the period that a text says."""
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        days = () if form is None else (form["first"] or "Mon", form["last"])
        named = [day for day in days if day is not None]
        begin, end = (-1, -1) if form is None else (_minutes(form["begin"]), _minutes(form["end"]))
        if form is None or not set(named) <= set(_DAYS) or max(begin, end) > _DAY_MIN:
            hint = 'give one such as "08:00-09:30" or "Mon-Fri 22:00-06:00"'
            raise ProblemError(field, f"{abbreviate(text)} is not a period; {hint}")
        if begin == end:
            raise ProblemError(field, f"{abbreviate(text)} is empty")
        if form["first"] is None:
            return cls(frozenset(range(7)), begin, end)
        first = _DAYS.index(form["first"])
        last = first if form["last"] is None else _DAYS.index(form["last"])
        return cls(frozenset((first + i) % 7 for i in range((last - first) % 7 + 1)), begin, end)

    def includes(self, wall: datetime) -> bool:
        """Whether the clocks show a moment of it."""
        minute = wall.hour * 60 + wall.minute
        if self.begin_min < self.end_min:
            return wall.weekday() in self.days and self.begin_min <= minute < self.end_min
        yesterday = (wall - timedelta(days=1)).weekday()
        late = wall.weekday() in self.days and minute >= self.begin_min
        return late or (yesterday in self.days and minute < self.end_min)


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return 60 * int(hours) + int(minutes)
