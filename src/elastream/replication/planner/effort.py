"""Effort limit of the exact search, counted in table values instead of time.

A value is one table entry that an elimination adds up. The search is the other expensive part: each
of its bounds counts as the number of values that take the same time. So equal problems have equal
plans on any machine, however busy it is.
"""

from __future__ import annotations

_EACH = 10_000
"""Fixed overhead of a table, in values."""


class Effort:
    """The number of values left to compute. Started work is finished, so it may fall below 0."""

    __slots__ = ("left",)

    def __init__(self, values: float) -> None:
        self.left = values

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self.left <= 0

    def spend(self, values: int) -> None:
        """Count the values of a computed table."""
        self.left -= values + _EACH
