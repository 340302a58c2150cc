"""The posts of the demo: how many come when, and their words, made from a seed.

Posts come in files, and a batch takes one file. Word frequencies follow Zipf's law, so that state
partitions are unequally loaded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


EVERY_S: Final = 2.0
"""A file comes this often."""
WORDS_A_POST: Final = 4
_VOCABULARY: Final = 2000
_BUSIEST: Final = 1200
"""Posts per second."""
_QUIET: Final = 0.1
"""Share of that in the quietest moment."""
_BUSIEST_REALTIME: Final = 100
"""Posts per second in Real-time Mode, where each is a line of its own that is due at its moment."""


def busy_spell() -> tuple[int, ...]:
    """Return the posts of each file of half a minute with one busy spell."""
    return _sizes(np.array([_QUIET] * 2 + [1.0] * 7 + [_QUIET] * 5))


def realtime_spell() -> tuple[int, ...]:
    """Return those of a minute with one busy spell, for a stream in Real-time Mode."""
    shares = np.array([_QUIET] * 4 + [1.0] * 18 + [_QUIET] * 6)
    return _sizes(shares, _BUSIEST_REALTIME)


def whole_day() -> tuple[int, ...]:
    """Return those of a day in two and a half minutes: it rises to noon, and has bursts."""
    day = np.linspace(0.0, 1.0, 75)
    shares = _QUIET + (0.75 - _QUIET) * np.sin(np.pi * day) ** 3
    for begin, height in ((0.3, 0.35), (0.52, 0.2), (0.7, 0.25)):
        since = day - begin
        shares += np.where(since >= 0, height * np.exp(-since.clip(0) / 0.03), 0.0)
    return _sizes(shares)


def _sizes(shares: NDArray[np.float64], busiest: int = _BUSIEST) -> tuple[int, ...]:
    return tuple(int(size) for size in shares * busiest * EVERY_S)


def file_of_posts(posts: int, seed: int) -> str:
    """Return lines of words, a post each; the same seed gives the same posts."""
    words, cumulative = _dictionary()
    drawn = np.random.default_rng(seed).random((posts, WORDS_A_POST))
    return "\n".join(" ".join(post) for post in words[np.searchsorted(cumulative, drawn)])


@cache
def _dictionary() -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Return words and their cumulative frequencies."""
    words = np.array([f"word{number}" for number in range(_VOCABULARY)], dtype=object)
    frequency = 1.0 / np.arange(1, _VOCABULARY + 1)
    return words, np.cumsum(frequency) / frequency.sum()
