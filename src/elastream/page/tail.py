"""A decision log as a run, also while it is being written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

from elastream.core.decision_log import EMPTY, entry_of
from elastream.jsonl import LONGEST_LINE, files_of
from elastream.model.errors import ProblemError
from elastream.page.run import Run

_LOOK_S: Final = 0.5

_FileId = tuple[int, int]


class Tail:
    """Follows a log: first what is there, then what is added, from :meth:`start` on.

    Raises ``ProblemError`` where the file cannot be read, is empty or is not a log. A later error
    ends the run with its reason; the page stays.
    """

    def __init__(self, path: Path) -> None:
        self.run = Run(path.name, file=str(path))
        self.torn: list[str] = []
        """Where lines could not be read, which a crash may leave."""
        self._path = path
        self._ended = threading.Event()
        self._file: _FileId | None = None
        self._offset = 0
        self._lines = 0
        self.look()
        if not self._lines:
            raise ProblemError(str(path), EMPTY)

    def start(self) -> Self:
        """Look for more in a thread of its own, until :meth:`close`."""
        threading.Thread(target=self._follow, name="elastream tail", daemon=True).start()
        return self

    def look(self) -> None:
        """Take in what has been added since the last look."""
        try:
            for path in self._unread():
                with path.open("rb") as file:
                    self._read(file, path)
        except OSError as error:
            if self._file is None or not isinstance(error, FileNotFoundError):
                why = f"cannot be read: {error.strerror or error}"
                raise ProblemError(str(self._path), why) from None
            # it was being renamed; the next look finds it

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()

    def _follow(self) -> None:
        try:
            while not self._ended.wait(_LOOK_S):
                self.look()
        except ProblemError as error:
            self.run.end(f"it is not followed any more: {error}")

    def _unread(self) -> list[Path]:
        """Return the file that was read last, whatever its name is now, and all after it."""
        files = files_of(self._path)
        known = [n for n, file in enumerate(files) if _file_id(file) == self._file]
        return files[known[0] :] if known else files

    def _read(self, file: BinaryIO, path: Path) -> None:
        file_id = _file_id(path)
        if file_id != self._file:
            self._file, self._offset, self._lines = file_id, 0, 0
        for line in self._whole_lines(file):
            self._lines += 1
            entry = entry_of(f"{path}, line {self._lines}", line, self.torn.append)
            if entry is not None:
                self.run.take_line(entry, line.decode().strip())

    def _whole_lines(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield what has been added; a line without its end is still being written, or torn."""
        file.seek(self._offset)
        while line := file.readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                return
            self._offset += len(line)
            yield line


def _file_id(path: Path) -> _FileId:
    stat = path.stat()
    return stat.st_dev, stat.st_ino
