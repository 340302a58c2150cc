"""The records of a run, in bounded memory, for readers that read at their own pace.

Adding a record never waits for a reader. When the memory is used up, the oldest records are
forgotten, and the state they led to is kept as one whole scene, with which a new reader begins.
Records are kept as text: parsed, a scene takes several times as much memory.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from elastream.core.scene_lines import laid_over

MOST_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 80
"""Of the queue, for a record without its text."""
_SHARE_FORGOTTEN: Final = 64
"""This part of the memory is freed at a time: little enough not to delay the loop."""
_PORTION_BYTES: Final = 256 << 10
"""A portion ends with the record that reaches this."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Some records for a reader."""

    lines: tuple[str, ...]
    position: int
    """Where to read on."""
    anew: bool
    """Whether the reader must forget what it has read before."""


class History:
    """The records as lines of JSON, in ``most_bytes`` of memory.

    Only a scene that alone takes more than three quarters of that exceeds it.
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._kept: deque[tuple[str, bool]] = deque()
        """Lines, and whether each is a scene's."""
        self._kept_bytes = 0
        self._forgotten = 0
        self._base: str | None = None
        """The whole scene that the forgotten records led to."""
        self._closed = False

    @property
    def begins_later(self) -> bool:
        """Whether older records were forgotten."""
        return bool(self._forgotten)

    @property
    def closed(self) -> bool:
        """Whether no record will follow."""
        return self._closed

    def append(self, line: str, *, scene: bool = False) -> None:
        """Keep a record; ``scene`` where it is the line of a scene."""
        with self._changed:
            self._kept.append((line, scene))
            self._kept_bytes += _held(line)
            if self._kept_bytes + _held(self._base) > self._most_bytes:
                self._forget()
            self._changed.notify_all()

    def close(self) -> None:
        """Mark that no record will follow."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def read(self, position: int | None) -> Portion:
        """Return what follows ``position``; all from the beginning where that is not known."""
        with self._changed:
            begin, end = self._forgotten, self._forgotten + len(self._kept)
            anew = position is None or not begin <= position <= end
            start = begin if anew or position is None else position
            lines = [self._base] if anew and self._base is not None else []
            size, last = 0, start
            while last < end and size < _PORTION_BYTES:
                line, _ = self._kept[last - begin]
                lines.append(line)
                size += len(line)
                last += 1
            return Portion(tuple(lines), last, anew)

    def wait(self, position: int, timeout_s: float) -> bool:
        """Wait for more after ``position``, or for the end; return whether that came in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or position != self._forgotten + len(self._kept), timeout_s
            )

    def _forget(self) -> None:
        """Forget the oldest records, several at a time."""
        base = None if self._base is None else json.loads(self._base)
        free = self._most_bytes // _SHARE_FORGOTTEN
        room = max(self._most_bytes // 4, self._most_bytes - free - _held(self._base))
        while self._kept_bytes > room and len(self._kept) > 1:
            line, is_scene = self._kept.popleft()
            self._kept_bytes -= _held(line)
            self._forgotten += 1
            if is_scene:
                scene = json.loads(line)
                if base is not None or scene.get("whole"):
                    base = laid_over(base or scene, scene)
        if base is not None:
            base.pop("batches", None)
            self._base = json.dumps(base, separators=(",", ":"))


def _held(line: str | None) -> int:
    """Return the bytes of memory that a line takes."""
    return 0 if line is None else sys.getsizeof(line) + _ENTRY_BYTES
