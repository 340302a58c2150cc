"""The words of reasons: numbers with their nouns, lists that stay short, names that are safe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST_LISTED: Final = 8


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun; left out, ``many`` is the noun with an ``s``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def join_names(names: Iterable[str], *, most: int = _MOST_LISTED) -> str:
    """Return names, the first ``most`` of many; ``none`` where there are none."""
    names = list(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") if names else "none"


def asked_for(by: str | None) -> str:
    """Return that something was asked for, and by whom where that is known."""
    return "asked for" if by is None else f"asked for by {by}"


def printable(text: str) -> str:
    """Return text that a terminal shows and never acts on, in one line.

    Control characters, the line's end among them, and characters that change the direction of text
    or cannot be encoded are escaped as Python does. Names of queries, reasons in a log, messages of
    another process and errors of Spark are text of others: they come through here.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
