"""The records of a run, kept for readers who each read at their own pace.

Whoever adds a record never waits for a reader. What no longer fits is forgotten, the oldest first,
but for how everything stood: that becomes one whole scene, with which a new reader begins.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

from elastream.loop.scene_lines import Json, laid_over

__all__ = ["MOST_BYTES", "History", "Portion"]

MOST_BYTES: Final = 16 << 20
_LINES_A_PORTION: Final = 500


@dataclass(frozen=True, slots=True)
class Portion:
    """What a reader gets at a time."""

    lines: tuple[str, ...]
    position: int
    """Where to read on."""
    anew: bool
    """Whether the reader must forget what it has read before."""


class History:
    """The records of a run, as lines of JSON."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._changed = threading.Condition()
        self._kept: deque[tuple[str, Json | None]] = deque()
        self._bytes = 0
        self._forgotten = 0
        self._base: Json | None = None
        self._closed = False

    @property
    def begins_later(self) -> bool:
        """Whether older records were forgotten."""
        return bool(self._forgotten)

    @property
    def closed(self) -> bool:
        """Whether no record will follow."""
        return self._closed

    def append(self, line: str, scene: Json | None) -> None:
        """Keep a record; ``scene`` is what it says where it is the line of a scene."""
        with self._changed:
            self._kept.append((line, scene))
            self._bytes += len(line)
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._forget()
            self._changed.notify_all()

    def close(self) -> None:
        """Say that no record will follow."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def read(self, position: int | None) -> Portion:
        """Return what follows ``position``; all from the beginning where that is not known."""
        with self._changed:
            begin, end = self._forgotten, self._forgotten + len(self._kept)
            anew = position is None or not begin <= position <= end
            start = begin if anew or position is None else position
            last = min(end, start + _LINES_A_PORTION)
            lines = [self._kept[place - begin][0] for place in range(start, last)]
            if anew and self._base is not None:
                lines.insert(0, json.dumps(self._base, separators=(",", ":")))
            return Portion(tuple(lines), last, anew)

    def wait(self, position: int, timeout_s: float) -> bool:
        """Return whether there is more after ``position``, or nothing will be, in so long."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or position != self._forgotten + len(self._kept), timeout_s
            )

    def _forget(self) -> None:
        line, scene = self._kept.popleft()
        self._bytes -= len(line)
        self._forgotten += 1
        if scene is not None and (self._base is not None or scene.get("whole")):
            base = laid_over(self._base or scene, scene)
            self._base = {name: value for name, value in base.items() if name != "batches"}
