"""Damage: other values at any place of a document, and other bytes anywhere in its text. Pure."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final

Place = tuple[str | int, ...]
_EXTREMES: Final[tuple[object, ...]] = (
    *(0, -1, 1, 2, 1000, 2**31, 2**63, 2**64, 10**30, 10**99, -(10**30)),
    *(0.5, -0.5, 5e-324, 1e-300, 1e-99, 1e99, 1e308, float("inf"), float("nan")),
    *(None, True, False, "", "a", "1", "\u0000", "\ud800", "x" * 600),
    *([], {}, [0], [[0]], [None], {"": 0}, [1] * 40, {"name": "a"}),
)
_SPLINTERS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\n",
    b"\x00",
    b"\xff",
    b"1e999",
)


def damaged_json(document: Any, dice: random.Random) -> bytes:
    """Return the document with one to three places changed, left out or doubled, as text."""
    changed = copy.deepcopy(document)
    for _ in range(dice.choice((1, 1, 2, 3))):
        places = list(_places(changed))
        if places:
            _change(changed, dice.choice(places), dice)
    text = json.dumps(changed).encode()
    return damaged_bytes(text, dice) if dice.random() < 0.15 else text


def damaged_bytes(text: bytes, dice: random.Random) -> bytes:
    """Return the text with a piece cut out, doubled, or something else put in."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        at, end = sorted(dice.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + 20)
        piece = dice.choice((b"", text[at:end] * 2, dice.choice(_SPLINTERS), dice.randbytes(3)))
        text = text[:at] + piece + text[end:]
    return text


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    if at:
        yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(each, (*at, name))


def _change(document: Any, at: Place, dice: random.Random) -> None:
    within: Any = document
    for name in at[:-1]:
        within = within[name]
    how, last = dice.randrange(5), at[-1]
    if how == 0:
        del within[last]
    elif how == 1 and isinstance(within, list):
        within.insert(int(last), copy.deepcopy(within[int(last)]))
    elif how == 1:
        within[f"{last}s"] = within[last]
    else:
        within[last] = copy.deepcopy(dice.choice(_EXTREMES))
