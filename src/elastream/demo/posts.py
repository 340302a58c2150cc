"""The posts of the demo: how many come when, and their words, made from a seed.

Posts come in files, one for each trigger of the query, and a batch takes one file. Word frequencies
follow Zipf's law, so that state partitions are unequally loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


EVERY_S: Final = 2.0
"""A file comes this often."""
WORDS_A_POST: Final = 4
_VOCABULARY: Final = 2000
_SYLLABLES: Final = [consonant + vowel for consonant, vowel in product("bdfgklmnprstvz", "aeiou")]
_BUSIEST: Final = 1200
"""Posts per second."""
_QUIET: Final = 0.1
"""Share of that in the quietest moment."""


@dataclass(frozen=True)
class Load:
    """How many posts each file has."""

    sizes: tuple[int, ...]

    @classmethod
    def of(cls, shares: NDArray[np.float64]) -> Load:
        """Return the load with these shares of the busiest moment."""
        return cls(tuple(int(size) for size in shares * _BUSIEST * EVERY_S))

    @property
    def length_s(self) -> float:
        """How long it takes until the last file is due."""
        return len(self.sizes) * EVERY_S

    @property
    def busiest(self) -> float:
        """The most posts per second."""
        return max(self.sizes) / EVERY_S

    def rate(self, at_s: float) -> float:
        """Return how many posts come per second at a moment."""
        return self.sizes[min(int(at_s / EVERY_S), len(self.sizes) - 1)] / EVERY_S


def busy_spell() -> Load:
    """Return three quarters of a minute, with one busy spell."""
    return Load.of(np.array([_QUIET] * 3 + [1.0] * 9 + [_QUIET] * 9))


def whole_day() -> Load:
    """Return a day in two and a half minutes: it rises to noon, with bursts as news makes them."""
    day = np.linspace(0.0, 1.0, 75)
    shares = _QUIET + (0.75 - _QUIET) * np.sin(np.pi * day) ** 3
    for begin, height in ((0.3, 0.35), (0.52, 0.2), (0.7, 0.25)):
        since = day - begin
        shares += np.where(since >= 0, height * np.exp(-since.clip(0) / 0.03), 0.0)
    return Load.of(shares)


def file_of_posts(posts: int, seed: int) -> str:
    """Return lines of words, a post each; the same seed gives the same posts."""
    words, cumulative = _dictionary()
    drawn = np.random.default_rng(seed).random((posts, WORDS_A_POST))
    return "\n".join(" ".join(post) for post in words[np.searchsorted(cumulative, drawn)])


@cache
def _dictionary() -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Return pronounceable words, the shortest first, and their cumulative frequencies."""
    words = ("".join(parts) for length in (1, 2, 3) for parts in product(_SYLLABLES, repeat=length))
    frequency = 1.0 / np.arange(1, _VOCABULARY + 1)
    return (
        np.array(list(islice(words, _VOCABULARY)), dtype=object),
        np.cumsum(frequency) / frequency.sum(),
    )
