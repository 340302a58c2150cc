"""The decision log on disk: a decision or sample a line (:mod:`elastream.line_files`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elastream.line_files import (
    KEEP,
    LONGEST_LINE,
    MAX_BYTES,
    LineFile,
    begins_as_record,
    lines_of,
)
from elastream.loop.decisions import VERSION, Decision, decision_of, line_of
from elastream.loop.samples import Sample, sample_line, sample_of
from elastream.model.checks import shown
from elastream.model.errors import ProblemError

__all__ = ["DecisionLog", "LogWriter", "log_writer", "read_decisions", "read_log"]

LogWriter = Callable[[Decision | Sample], None]
"""Writes what it is given somewhere."""


class DecisionLog:
    """Appends decisions and samples to a file; refuses one that is something else."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        self.path = path
        self._lines = LineFile(path, "decision log", max_bytes=max_bytes, keep=keep)

    def append(self, told: Decision | Sample) -> None:
        """Write one line, whole or not at all; raises ``OSError`` where it cannot be."""
        self._lines.append(line_of(told) if isinstance(told, Decision) else sample_line(told))


def log_writer(log: Path | str | Callable[[Decision], None] | None) -> LogWriter:
    """Return what writes decisions: to a file, to a function, or nowhere.

    Samples go to files alone.
    """
    if log is None:
        return lambda _: None
    if not callable(log):
        return DecisionLog(Path(log)).append

    def told(entry: Decision | Sample) -> None:
        if isinstance(entry, Decision):
            log(entry)

    return told


def read_decisions(
    path: Path, *, torn: Callable[[str], None] = lambda _: None
) -> Iterator[Decision]:
    """Yield the decisions in the log; samples and torn lines are passed over."""
    yield from (entry for entry in read_log(path, torn=torn) if isinstance(entry, Decision))


def read_log(
    path: Path, *, torn: Callable[[str], None] = lambda _: None
) -> Iterator[Decision | Sample]:
    """Yield what is in the log, rotated files included, the oldest first.

    A line that was torn is passed over; ``torn`` is told where. Raises ``ProblemError`` where the
    log cannot be read, is empty, or a whole line of it is neither a decision nor a sample.
    """
    found = False
    for where, line in lines_of(path):
        entry = _entry(where, line, torn)
        if entry is not None:
            found = True
            yield entry
    if not found:
        raise ProblemError(str(path), "is empty: not a decision log, or nothing is decided yet")


def _entry(where: str, line: bytes, torn: Callable[[str], None]) -> Decision | Sample | None:
    if not line.strip():
        return None
    if len(line) == LONGEST_LINE or not begins_as_record(line):
        raise ProblemError(where, "is not a decision")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        torn(where)
        return None
    return _read(where, record)


def _read(where: str, record: Any) -> Decision | Sample:
    if not isinstance(record, dict) or "v" not in record:
        raise ProblemError(where, "is not a decision: no object with a version")
    if record["v"] != VERSION:
        version = shown(record["v"])
        raise ProblemError(where, f"has version {version}; this elastream reads {VERSION}")
    try:
        return sample_of(record) if record.get("kind") == "sample" else decision_of(record)
    except ProblemError as error:
        raise ProblemError(where, f"is not a decision: {error}") from None
