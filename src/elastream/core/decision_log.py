"""The decision log on disk: a decision, sample or scene a line (:mod:`elastream.jsonl`)."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from elastream.core.decisions import OLDEST_VERSION, VERSION, Decision, decision_of, line_of
from elastream.core.samples import Sample, sample_line, sample_of
from elastream.core.scene_lines import SceneEncoder, checked_scene
from elastream.core.scenes import Scene
from elastream.jsonl import KEEP, LONGEST_LINE, MAX_BYTES, LineFile, begins_as_record, lines_of
from elastream.model.checks import expect_version
from elastream.model.errors import ProblemError

EMPTY = "is empty: not a decision log, or nothing is decided yet"

LogEntry = Decision | Sample | Scene
LogWriter = Callable[[LogEntry], None]
"""Writes what it is given somewhere."""


class DecisionLog:
    """Appends decisions, samples and scenes to a file; refuses one that is something else.

    For any thread: where a write hangs, the loop goes on to write in another one.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        self.path = path
        self._lines = LineFile(path, "decision log", max_bytes=max_bytes, keep=keep)
        self._scenes = SceneEncoder()
        self._lock = threading.Lock()

    def append(self, entry: LogEntry) -> None:
        """Write one line, whole or not at all; raises ``OSError`` where it cannot be."""
        with self._lock:
            try:
                self._lines.append(self._line(entry))
            except OSError:
                self._scenes.start_over()
                raise

    def _line(self, entry: LogEntry) -> str:
        if self._lines.full:  # the next file shall not need this one
            self._scenes.start_over()
        if isinstance(entry, Decision):
            return line_of(entry)
        if isinstance(entry, Sample):
            return sample_line(entry)
        _, line = self._scenes.encode(entry)
        return line


STANDARD_OUTPUT: Final = "-"
"""The name of a log that goes there."""


def log_writer(log: Path | str | Callable[[Decision], None] | None) -> LogWriter:
    """Return what writes decisions: to a file, to standard output, to a function, or nowhere.

    Samples and scenes go to files alone.
    """
    if log is None:
        return lambda _: None
    if str(log) == STANDARD_OUTPUT:
        return _print_decision
    if not callable(log):
        return DecisionLog(Path(log)).append

    def write(entry: LogEntry) -> None:
        if isinstance(entry, Decision):
            log(entry)

    return write


def _print_decision(entry: LogEntry) -> None:
    """Print a decision as a line of JSON, whole even if others print at the same time."""
    if isinstance(entry, Decision):
        sys.stdout.write(f"{line_of(entry)}\n")
        sys.stdout.flush()


def read_decisions(
    path: Path, *, torn: Callable[[str], None] = lambda _: None
) -> Iterator[Decision]:
    """Yield the decisions in the log; all else, and torn lines, are passed over."""
    yield from (entry for entry in read_log(path, torn=torn) if isinstance(entry, Decision))


def read_log(
    path: Path, *, torn: Callable[[str], None] = lambda _: None
) -> Iterator[Decision | Sample]:
    """Yield the decisions and samples in the log, rotated files included, the oldest first.

    A line that was torn is passed over, and ``torn`` called with its place. Raises ``ProblemError``
    where the log cannot be read, is empty, or a whole line of it is not one of a log.
    """
    found = False
    for where, line in lines_of(path):
        entry = entry_of(where, line, torn)
        found = found or entry is not None
        if isinstance(entry, Decision | Sample):
            yield entry
    if not found:
        raise ProblemError(str(path), EMPTY)


def entry_of(
    where: str, line: bytes, torn: Callable[[str], None] = lambda _: None
) -> Decision | Sample | dict[str, Any] | None:
    """Return what is in a line of a log: a decision, a sample, or a scene's record as it is.

    ``None`` for an empty line and a torn one; raises ``ProblemError`` for a line of something else.
    """
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


def _read(where: str, record: Any) -> Decision | Sample | dict[str, Any]:
    if not isinstance(record, dict) or "v" not in record:
        raise ProblemError(where, "is not a decision: no object with a version")
    expect_version(where, record["v"], newest=VERSION, oldest=OLDEST_VERSION)
    try:
        match record.get("kind"):
            case "sample":
                return sample_of(record)
            case "scene":
                return checked_scene(record)
            case _:
                return decision_of(record)
    except ProblemError as error:
        raise ProblemError(where, f"is not a decision: {error}") from None
