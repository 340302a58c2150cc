"""The words of reasons: numbers with their nouns, lists that stay short."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["counted", "listed"]

_MOST_LISTED: Final = 8


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun; left out, ``many`` is the noun with an ``s``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(names: Iterable[str], *, most: int = _MOST_LISTED) -> str:
    """Return names, the first ``most`` of many; ``none`` where there are none."""
    names = list(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") if names else "none"
