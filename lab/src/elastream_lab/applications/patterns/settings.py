"""What trace shall be built; checked when made, before Spark is started."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from elastream.model.checks import abbreviate, count, non_negative
from elastream.model.errors import ProblemError

Format = Literal["csv", "json", "parquet"]

_SUFFIXES: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSIONS: Final = frozenset({".gz", ".bz2", ".deflate", ".snappy", ".lz4", ".zst"})
_MOST_WORDS: Final = 4
"""Of a pattern: a text of 40 words has 100,000 patterns of up to four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Which records, and how they are summed up."""

    input: tuple[str, ...]
    """Files, folders or patterns; whatever Spark can read."""
    time: str
    """Column that says when a record happened."""
    text: str | None = None
    """Column whose words are the keys; or ``key``."""
    key: str | None = None
    """Column that is the key; or ``text``."""
    patterns: int | None = None
    """With ``text``: the keys are the combinations of up to this many different words of a row, as
    in the second application of papers 000 and 001; ``None``: the words."""
    tasks: int = 64
    """How many state partitions there are (m)."""
    every_s: int = 3600
    """Length of an interval."""
    window_s: int | None = None
    """A key is held for so long after its last record; ``None`` for ever."""
    value_bytes: int = 8
    """State of a key next to the key itself."""
    max_bad_share: float = 0.01
    """A greater share of rows without a time or a key is an error."""
    format: Format | None = None
    """``None`` shows it by the name of the files."""

    def __post_init__(self) -> None:
        if not self.input:
            raise ProblemError("input", "names no file")
        if (self.text is None) == (self.key is None):
            raise ProblemError("text", "give either `text` or `key`")
        if self.patterns is not None:
            count("patterns", self.patterns, least=1, most=_MOST_WORDS)
            if self.text is None:
                raise ProblemError("patterns", "needs `text`: patterns are made of its words")
        count("tasks", self.tasks, least=1, most=1_000_000)
        count("every_s", self.every_s, least=1)
        count("value_bytes", self.value_bytes)
        if non_negative("max_bad_share", self.max_bad_share) > 1:
            raise ProblemError("max_bad_share", f"{self.max_bad_share:g} is above 1")
        if self.window_s is not None and self.window_s % self.every_s:
            raise ProblemError("window_s", "is not a whole number of intervals (`every_s`)")
        for path in self.input:
            if "://" not in path and not re.search(r"[*?\[{]", path) and not Path(path).exists():
                raise ProblemError("input", f"{path} does not exist")

    @property
    def counts_leaving(self) -> bool:
        """Whether a record is work again when it leaves the window, as patterns are."""
        return self.patterns is not None and self.window_s is not None

    @property
    def kind(self) -> Format:
        """The format of the input."""
        return self.format or _kind(self.input[0])


def format_of(name: str | None) -> Format | None:
    """Return the format of that name."""
    for known in get_args(Format):
        if name == known:
            found: Format = known
            return found
    if name is not None:
        raise ProblemError("format", f"{abbreviate(name)} is not one of csv, json, parquet")
    return None


def _kind(path: str) -> Format:
    suffixes = [suffix.lower() for suffix in Path(path.rstrip("/")).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        known = ", ".join(_SUFFIXES)
        raise ProblemError("input", f"{path} is not one of {known}; say what it is with `format`")
    return found
