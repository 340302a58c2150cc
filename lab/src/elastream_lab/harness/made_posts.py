"""Posts made from a seed: a day with bursts, or a steady stream; the words follow Zipf.

The rate of a day at time x in [0, 1) is ``low + (1 - low) sin³(πx)``, lowest at midnight, plus a
few bursts that rise at once and decay exponentially, as news does. The day is compressed to a few
minutes. Word frequencies follow Zipf's law, so that state partitions are unequally loaded, which
is what planning by load is for. Paper 000 (section 6) replays tweets; this is a stand-in that needs
no data. A steady stream has one rate, so that whatever its response times do is the work of what
was done to it; some words may come back in turn, whatever Zipf says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from elastream_lab.harness.recording import Recording, write_recording

if TYPE_CHECKING:
    from numpy.typing import NDArray


_STEPS = 2000
"""Points at which the rate curve is sampled."""
_LOWEST = 0.25
"""Rate at midnight over rate at noon."""
_WORDS_A_POST = (2, 6)
"""Fewest and most words of a post."""
_ZIPF = 1.0

WORDS_A_POST = sum(_WORDS_A_POST) / 2
"""How many words a post has in the mean."""


@dataclass(frozen=True, slots=True)
class SteadyPosts:
    """A steady stream, after rows that are there from the start."""

    replay_s: float
    posts_a_second: float
    opening: tuple[str, ...] = ()
    """Texts of the rows before the first that is due at some time."""
    lead_rows: int = 0
    """This many made posts follow them, due at the start as well."""
    recurring: tuple[str, ...] = ()
    """Words that come back in turn, next to the others of a post: at most one in a post."""
    recurring_s: float = 20.0
    """How long it takes until all of them have come, where a post each is enough for that."""
    seed: int = 1
    vocabulary: int = 4000

    @property
    def first(self) -> int:
        """Position of the first row of the steady stream."""
        return len(self.opening) + self.lead_rows


def make_posts(
    due_ms: NDArray[np.int64], path: Path, *, seed: int = 1, vocabulary: int = 4000
) -> Recording:
    """Write posts that are due at these times, which must not decrease, to ``path``."""
    texts = _texts(vocabulary, np.random.default_rng(seed), len(due_ms))
    return write_recording(path, due_ms, list(texts))


def make_steady_posts(steady: SteadyPosts, path: Path) -> Recording:
    """Write the posts to ``path``."""
    random = np.random.default_rng(steady.seed)
    rows = round(steady.replay_s * steady.posts_a_second)
    due_ms = np.concatenate(
        [np.zeros(steady.first), np.arange(rows) * 1000 / steady.posts_a_second]
    )
    made = list(_texts(steady.vocabulary, random, steady.lead_rows + rows))
    for post, word in _recurring(steady, rows):
        made[steady.lead_rows + post] += f" {word}"
    texts = [*steady.opening, *made]
    return write_recording(path, due_ms.astype(np.int64), texts)


def _recurring(steady: SteadyPosts, posts: int) -> Iterator[tuple[int, str]]:
    """Yield which post has which of the words that come back, evenly spread."""
    words = steady.recurring
    a_post = min(1.0, len(words) / (steady.recurring_s * steady.posts_a_second))
    for number in range(int(posts * a_post)):
        yield int(number / a_post), words[number % len(words)]


def day_rate(bursts: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return the rate of a day at equal steps from its begin to its end, over that at noon."""
    day_time = np.linspace(0.0, 1.0, _STEPS + 1)
    rate: NDArray[np.float64] = _LOWEST + (1 - _LOWEST) * np.sin(np.pi * day_time) ** 3
    for begin in random.uniform(0.25, 0.8, bursts):
        height, decay = random.uniform(0.15, 0.35), random.uniform(0.01, 0.02)
        since = day_time - begin
        rate += np.where(since >= 0, height * np.exp(-since.clip(0) / decay), 0.0)
    return rate


def due_by(arrived: NDArray[np.float64], at_ms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return when each row is due, where this many have arrived at those moments."""
    rows = np.arange(0.5, int(arrived[-1]))
    due: NDArray[np.int64] = np.interp(rows, arrived, at_ms).astype(np.int64)
    return due


def _texts(vocabulary: int, random: np.random.Generator, posts: int) -> Iterator[str]:
    words = np.array(_words(vocabulary), dtype=object)
    frequency = 1.0 / np.arange(1, vocabulary + 1) ** _ZIPF
    cumulative = np.cumsum(frequency) / frequency.sum()
    fewest, most = _WORDS_A_POST
    lengths = random.integers(fewest, most + 1, posts)
    ends = np.cumsum(lengths)
    drawn = words[np.searchsorted(cumulative, random.random(int(ends[-1]) if posts else 0))]
    begins = ends - lengths
    return (" ".join(drawn[lb:ub]) for lb, ub in zip(begins, ends, strict=True))


_SYLLABLES = [consonant + vowel for consonant, vowel in product("bdfgklmnprstvz", "aeiou")]


def _words(number: int) -> list[str]:
    """Return this many pronounceable words, the shortest first."""
    made = ("".join(parts) for length in (1, 2, 3) for parts in product(_SYLLABLES, repeat=length))
    return [word for word, _ in zip(made, range(number), strict=False)]
