"""How late frames were passed on: what the forwarder itself adds to the delays that are set."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

_KEPT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Lateness:
    """What the forwarder added to the way of a frame, of the last frames; in milliseconds."""

    frames: int
    """How many were passed on in all."""
    bytes: int
    dropped: int
    """Frames that a narrow or a cut link did not carry."""
    median_ms: float | None
    """``None``, as those below, where no frame was passed on."""
    p99_ms: float | None
    worst_ms: float | None


class LatenessNotes:
    """Keeps the lateness of the last frames."""

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0
        self._last_s = array("d")

    def note(self, late_s: float, size: int) -> None:
        """Note a frame that was passed on so late."""
        if self.frames < _KEPT:
            self._last_s.append(late_s)
        else:
            self._last_s[self.frames % _KEPT] = late_s
        self.frames += 1
        self.bytes += size

    def report(self, dropped: int) -> Lateness:
        """Return the figures of all so far."""
        ms = sorted(1000 * late for late in self._last_s)
        if not ms:
            return Lateness(0, 0, dropped, None, None, None)
        middle, most = ms[len(ms) // 2], ms[min(len(ms) - 1, len(ms) * 99 // 100)]
        return Lateness(self.frames, self.bytes, dropped, middle, most, ms[-1])
