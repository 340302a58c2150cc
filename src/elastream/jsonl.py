"""Files of JSON lines that are appended to while others read: whole lines, rotated.

A line is written by one append. Where the write is cut short, the file is truncated to its former
size, so that no reader sees half a line in the middle; where that fails too, the next line begins
on a new one. After a crash the last line may be torn: readers skip it and the next writer cuts it
off. A file of ``max_bytes`` is renamed to ``NAME.1``, that one to ``NAME.2`` and so on, ``keep`` of
them; readers read them all, the oldest first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elastream.model.errors import ProblemError

MAX_BYTES: Final = 64 << 20
KEEP: Final = 4
LONGEST_LINE: Final = 16 << 20
"""Bytes. A longer line is not a record."""
_BEGINNING: Final = b'{"v":'


class LineFile:
    """Appends records, lines of JSON that begin with their version; refuses any other file.

    ``what`` the file is, for messages.
    """

    def __init__(
        self, path: Path, what: str, *, max_bytes: int = MAX_BYTES, keep: int = KEEP
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._torn = False
        _cut_torn_line(path, what)

    @property
    def full(self) -> bool:
        """Whether the next line begins a new file."""
        return self.path.exists() and self.path.stat().st_size >= self._max_bytes

    def append(self, text: str) -> None:
        """Write one line, whole or not at all; raises ``OSError`` where it cannot be."""
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
        if not self.full:
            return
        for number in range(self._keep - 1, 0, -1):
            older = _rotated(self.path, number)
            if older.exists():
                older.replace(_rotated(self.path, number + 1))
        if self._keep:
            self.path.replace(_rotated(self.path, 1))
        else:
            self.path.unlink()


def lines_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every line with its place, rotated files included, the oldest first.

    Raises ``ProblemError`` where a file cannot be read. A line of ``LONGEST_LINE`` bytes is cut.
    """
    for file in files_of(path):
        yield from _lines(file)


def files_of(path: Path) -> list[Path]:
    """Return the rotated files and the file itself, the oldest first."""
    older = _rotations(path)
    newest = [path] if _exists(path) or not older else []
    return [*reversed(older), *newest]


def begins_as_record(line: bytes) -> bool:
    """Return whether a line, which may be torn, begins as a record does."""
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line)


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                yield f"{path}, line {number}", line
    except OSError as error:
        raise ProblemError(str(path), f"cannot be read: {error.strerror or error}") from None


def _rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _rotations(path: Path) -> list[Path]:
    """Return the rotated files, the youngest first."""
    found: list[Path] = []
    if not path.name:  # "." and "/" have no name that could get a number
        return found
    while _exists(older := _rotated(path, len(found) + 1)):
        found.append(older)
    return found


def _exists(path: Path) -> bool:
    """Return whether the path exists; where that cannot be known, opening it shows why."""
    try:
        return path.exists()
    except OSError:
        return False


def _cut_back(descriptor: int, size: int) -> bool:
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        return False
    return True


def _cut_torn_line(path: Path, what: str) -> None:
    """Cut off what follows the last line's end; refuse a file of another kind."""
    try:
        if not path.exists() or path.stat().st_size == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
            return
        with path.open("r+b") as file:
            first = file.readline(LONGEST_LINE)
            if not begins_as_record(first):
                raise ProblemError(str(path), f"exists and is not a {what}; unchanged")
            file.seek(0, os.SEEK_END)
            end = file.tell()
            file.seek(max(0, end - LONGEST_LINE))
            tail = file.read()
            file.truncate(end - len(tail) + tail.rfind(b"\n") + 1)
    except OSError as error:
        raise ProblemError(str(path), f"cannot be written: {error.strerror or error}") from None
