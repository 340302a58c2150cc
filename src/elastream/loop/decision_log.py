"""The decision log on disk: lines are appended whole, old files rotated away, torn lines survived.

A line is written by one append. Where the disk is full or a limit cuts the write short, the file is
cut back to where it was, so that no reader ever sees half a line in the middle; where even that
fails, the next line begins on a new one. After a crash the last line may be torn: readers pass over
it and the next writer cuts it off. A file that has grown to ``max_bytes`` is renamed to ``NAME.1``,
that one to ``NAME.2`` and so on, ``keep`` of them; readers read them all, the oldest first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from elastream.loop.decisions import VERSION, Decision, decision_of, line_of
from elastream.loop.samples import Sample, sample_line, sample_of
from elastream.model.checks import shown
from elastream.model.errors import ProblemError

__all__ = ["DecisionLog", "LogWriter", "log_writer", "read_decisions", "read_log"]

LogWriter = Callable[[Decision | Sample], None]
"""Writes what it is given somewhere."""

MAX_BYTES: Final = 64 << 20
KEEP: Final = 4
_LONGEST_LINE: Final = 16 << 20
"""Bytes. A longer line is not ours."""
_BEGINNING: Final = b'{"v":'


class DecisionLog:
    """Appends decisions and samples to a file; refuses one that is something else."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._torn = False
        _cut_torn_line(path)

    def append(self, told: Decision | Sample) -> None:
        """Write one line, whole or not at all; raises ``OSError`` where it cannot be."""
        text = line_of(told) if isinstance(told, Decision) else sample_line(told)
        line = (b"\n" if self._torn else b"") + text.encode() + b"\n"
        self._rotate_when_full()
        with self.path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                written = file.write(line)
                if written != len(line):
                    raise OSError(f"{written} of {len(line)} bytes were written")
            except OSError:
                self._torn = not _cut_back(file.fileno(), before)
                raise
        self._torn = False

    def _rotate_when_full(self) -> None:
        if not self.path.exists() or self.path.stat().st_size < self._max_bytes:
            return
        for number in range(self._keep - 1, 0, -1):
            older = _rotated(self.path, number)
            if older.exists():
                older.replace(_rotated(self.path, number + 1))
        if self._keep:
            self.path.replace(_rotated(self.path, 1))
        else:
            self.path.unlink()


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
    older = _rotations(path)
    newest = [path] if path.exists() or not older else []
    for file in (*reversed(older), *newest):
        for where, line in _lines(file):
            entry = _entry(where, line, torn)
            if entry is not None:
                found = True
                yield entry
    if not found:
        raise ProblemError(str(path), "is empty: not a decision log, or nothing is decided yet")


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                yield f"{path}, line {number}", line
    except OSError as error:
        raise ProblemError(str(path), f"cannot be read: {error.strerror or error}") from None


def _entry(where: str, line: bytes, torn: Callable[[str], None]) -> Decision | Sample | None:
    if not line.strip():
        return None
    if len(line) == _LONGEST_LINE or not _begins_as_record(line):
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


def _begins_as_record(line: bytes) -> bool:
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _rotations(path: Path) -> list[Path]:
    """Return the rotated files that there are, the youngest first."""
    found: list[Path] = []
    while (older := _rotated(path, len(found) + 1)).exists():
        found.append(older)
    return found


def _cut_back(descriptor: int, size: int) -> bool:
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        return False
    return True


def _cut_torn_line(path: Path) -> None:
    """Cut off what follows the last line's end, after a look that the file is a decision log."""
    try:
        if not path.exists() or path.stat().st_size == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
            return
        with path.open("r+b") as file:
            first = file.readline(_LONGEST_LINE)
            if not _begins_as_record(first):
                raise ProblemError(str(path), "exists and is not a decision log; left as it is")
            file.seek(0, os.SEEK_END)
            end = file.tell()
            file.seek(max(0, end - _LONGEST_LINE))
            tail = file.read()
            file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    except OSError as error:
        raise ProblemError(str(path), f"cannot be written: {error.strerror or error}") from None
