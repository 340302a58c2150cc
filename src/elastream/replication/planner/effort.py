"""The effort of the exact search: counted in values of tables, never timed.

A value is an entry of a table that an elimination adds up. The other work that takes time is the
search's, and each of its bounds counts for as many values as take as long. Equal problems so have
equal plans on any machine, however busy it is.
"""

from __future__ import annotations

__all__ = ["Effort"]

_EACH = 10_000
"""Whatever its size, a table takes as long as so many values."""


class Effort:
    """How many values may still be computed. What has begun is finished, so it may fall below 0."""

    __slots__ = ("left",)

    def __init__(self, values: float) -> None:
        self.left = values

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def spend(self, values: int) -> None:
        """Count the values of a table that was computed."""
        self.left -= values + _EACH
