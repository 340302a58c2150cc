"""The rows that both systems count: one word each, in a file for either of them.

A recording for the replay source, and the same rows in a file of fixed width that Flink's source
maps into memory: the row number finds the row, so that a source that starts again reads nothing
but what it needs. In this order:

- *filling*: the words with ballast, once each, which makes the state as large as asked for;
- *lead*: made words, in small steps, because the first batches of a JVM take long;
- *backlog*: made words that are there all at once, in equal parts, for the throughput;
- *timed*: a steady stream, each row due at its time. Every tenth of them is a word with ballast,
  drawn in turn from the part of the state that is hot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream_lab.harness.made_posts import SteadyPosts, make_steady_posts
from elastream_lab.harness.recording import Recording, write_recording
from elastream_lab.harness.word_count import BALLAST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


BALLAST_BYTES: Final = 16 << 10
"""State of each word with ballast."""

_HOT_EVERY: Final = 10
_WORD_BYTES: Final = 24
_FIXED: Final = np.dtype([("due_ms", ">i8"), ("word", f"S{_WORD_BYTES}")])


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How many rows of which kind."""

    state_bytes: int
    hot_share: float
    rows_a_second: float
    seconds: float
    """For so long there are timed rows."""
    lead: int
    backlog: int

    @property
    def ballast_words(self) -> int:
        """How many words with ballast there are."""
        return max(1, self.state_bytes // BALLAST_BYTES)

    @property
    def hot_words(self) -> int:
        """How many of them the stream goes on to update."""
        return round(self.ballast_words * self.hot_share)


@dataclass(frozen=True)
class PeerRows:
    """The rows, and where one kind ends and the next begins."""

    recording: Recording
    fixed: Path
    """The same rows in the file of fixed width."""
    filling: int
    """Position after the words with ballast."""
    lead: int
    """Position after the rows of the lead."""
    first: int
    """Position of the first timed row."""


def make_rows(plan: RowPlan, folder: Path) -> PeerRows:
    """Write the rows to the folder."""
    ballast = [f"{BALLAST}{number}" for number in range(plan.ballast_words)]
    untimed = plan.lead + plan.backlog
    timed = round(plan.seconds * plan.rows_a_second)
    words = [*ballast, *_made_words(untimed + timed, folder)]
    first = len(ballast) + untimed
    if plan.hot_words:
        for number, position in enumerate(range(first, len(words), _HOT_EVERY)):
            words[position] = ballast[number % plan.hot_words]
    due_ms = np.zeros(len(words), dtype=np.int64)
    due_ms[first:] = np.arange(timed) * (1000 / plan.rows_a_second)
    fixed = folder / "rows.fixed"
    _write_fixed(fixed, due_ms, words)
    recording = write_recording(folder / "rows.arrow", due_ms, words)
    return PeerRows(recording, fixed, len(ballast), len(ballast) + plan.lead, first)


def running_counts(words: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return, for each row, how many rows up to it have its word: what a count must tell there."""
    order = np.argsort(words, kind="stable")
    in_order = words[order]
    begins = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]])
    begin_of = np.repeat(begins, np.diff(np.r_[begins, len(words)]))
    counts = np.empty(len(words), dtype=np.int64)
    counts[order] = np.arange(len(words)) - begin_of + 1
    return counts


def words_of(fixed: Path, until: int) -> NDArray[np.bytes_]:
    """Return the words of the first rows of a file of fixed width."""
    words: NDArray[np.bytes_] = np.fromfile(fixed, dtype=_FIXED, count=until)["word"]
    return words


def _made_words(number: int, folder: Path) -> list[str]:
    """Return this many words that follow Zipf, as the demo's posts do."""
    posts = SteadyPosts(replay_s=1.0, posts_a_second=number // 2 + 1)  # of two words and more
    made = make_steady_posts(posts, folder / "made.arrow")
    texts = (text for rows in made.slices(0, made.rows) for text in rows.column("text").to_pylist())
    return [word for text in texts for word in text.split()][:number]


def _write_fixed(path: Path, due_ms: NDArray[np.int64], words: Sequence[str]) -> None:
    rows = np.zeros(len(words), dtype=_FIXED)
    rows["due_ms"] = due_ms
    rows["word"] = np.array(words, dtype=f"S{_WORD_BYTES}")
    rows.tofile(path)
