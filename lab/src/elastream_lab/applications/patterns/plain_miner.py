"""Maximal frequent patterns of a sliding window, mined plainly: what the stream must tell.

One pass in plain Python, as section 6 of papers 000 and 001 describes the detector: a sentence in
is +1 for each of its patterns, the same sentence leaving the window is -1, and what is frequent and
in no larger frequent pattern is maximal. It shares with the stream what the words of a post are,
and nothing else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from elastream.model.checks import count
from elastream.model.errors import ProblemError

Maximal = Mapping[int, frozenset[str]]
"""The maximal frequent patterns after each tick, by the posts that had come by then."""


@dataclass(frozen=True, slots=True)
class Mining:
    """What is mined; checked when made."""

    window: int = 600
    """How many posts the window holds."""
    tick: int = 100
    """After how many posts maximal patterns are reported; the window is a multiple of it."""
    least: int = 30
    """In how many posts of the window a frequent pattern is at least."""
    most_words: int = 3
    """How many words a pattern has at most: a post of w words has as many patterns as subsets."""

    def __post_init__(self) -> None:
        count("tick", self.tick, least=1, most=10**9)
        count("window", self.window, least=1, most=10**9)
        count("least", self.least, least=1)
        count("most_words", self.most_words, least=1, most=8)
        if self.window % self.tick:
            why = f"{self.window} is not a multiple of `tick`, {self.tick}"
            raise ProblemError("window", why)
        if self.window // self.tick > 100:
            raise ProblemError("window", f"{self.window} is above 100 ticks of {self.tick}")

    def ticks(self, posts: int) -> range:
        """Return the ticks reported after this many posts, each once a later post has come."""
        return range(self.tick, posts, self.tick)


def mined(posts: Sequence[Sequence[str]], mining: Mining) -> dict[int, frozenset[str]]:
    """Return the maximal frequent patterns after every tick; posts are sorted, distinct words."""
    counts: Counter[tuple[str, ...]] = Counter()
    held: deque[Sequence[str]] = deque()
    found = {}
    ticks = mining.ticks(len(posts))
    for came, words in enumerate(posts, 1):
        counts.update(_patterns(words, mining.most_words))
        held.append(words)
        if len(held) > mining.window:
            counts.subtract(_patterns(held.popleft(), mining.most_words))
        if came in ticks:
            counts = +counts
            found[came] = _maximal(counts, mining.least)
    return found


def changes(report: Maximal) -> Iterator[tuple[int, str, bool]]:
    """Yield tick, pattern and whether it became maximal frequent, or stopped being so."""
    before: frozenset[str] = frozenset()
    for tick, patterns in sorted(report.items()):
        for pattern in sorted(patterns - before):
            yield tick, pattern, True
        for pattern in sorted(before - patterns):
            yield tick, pattern, False
        before = patterns


def differing(found: Maximal, expected: Maximal) -> int:
    """Return how many ticks have other patterns; one with none need not be reported."""
    none: frozenset[str] = frozenset()
    ticks = found.keys() | expected.keys()
    return sum(found.get(tick, none) != expected.get(tick, none) for tick in ticks)


def _patterns(words: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    for size in range(1, most + 1):
        yield from combinations(words, size)


def _maximal(counts: Mapping[tuple[str, ...], int], least: int) -> frozenset[str]:
    frequent = [(set(words), words) for words, times in counts.items() if times >= least]
    return frozenset(
        " ".join(words)
        for held, words in frequent
        if not any(held < larger for larger, _ in frequent)
    )
