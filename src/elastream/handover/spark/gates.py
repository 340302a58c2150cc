"""Control which output a query may write, batch by batch: at its end, and at its beginning.

A batch asks before it writes. While a handover is undecided, a batch with outputs at or beyond the
boundary waits for the decision, never longer than the protocol's patience. The greatest coordinate
written is in a file, updated before the outputs are written, so that a restarted application does
not offer windows it has already written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elastream.atomic_io import make_folder, write_json
from elastream.handover.model import Boundary
from elastream.model.errors import SparkError


@dataclass(frozen=True, slots=True)
class Permit:
    """The coordinates that a batch may put out: ``lowest`` to ``below - 1``."""

    lowest: int | None = None
    """``None`` for no bound."""
    below: int | None = None
    """``None`` for no bound."""


class OriginGate:
    """Lets all output pass until a boundary is offered."""

    def __init__(self, path: Path) -> None:
        """Continue from ``path``, the file with the greatest coordinate written."""
        self._path = path
        make_folder(path.parent)
        self._produced: int | None = json.loads(path.read_text()) if path.exists() else None
        self._barrier: int | None = None
        self._is_held = False
        self._end: int | None = None
        self._failure: str | None = None
        self._changed = threading.Condition()

    def ask(self, highest: int) -> Permit:
        """Return what a batch may write whose outputs reach up to ``highest``."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._is_barred(highest))
            if self._failure:
                raise SparkError(f"the handover failed, start the query again: {self._failure}")
            permit = Permit(below=self._end)
            last = highest if self._end is None else min(highest, self._end - 1)
            if self._produced is None or last > self._produced:
                write_json(self._path, last, synced=True)
                self._produced = last
            return permit

    def begin(self, boundary: Boundary) -> None:
        """Treat what lies before the boundary as written: it is another application's."""
        with self._changed:
            last = boundary.activation - 1
            self._produced = last if self._produced is None else max(last, self._produced)

    def hold(self) -> None:
        """Block all batches with output while a boundary is being determined."""
        with self._changed:
            self._is_held = True

    def offer(self, find: Callable[[int | None], Boundary | None]) -> Boundary | None:
        """Block what lies beyond the boundary found, between the outputs of two batches."""
        with self._changed:
            boundary = find(self._produced)
            if boundary is not None:
                self._barrier, self._is_held = boundary.activation, False
                self._changed.notify_all()
            return boundary

    def release(self) -> None:
        """Let all output pass again."""
        with self._changed:
            self._barrier, self._is_held = None, False
            self._changed.notify_all()

    def end(self, boundary: Boundary) -> None:
        """Block all output at or beyond the boundary from now on."""
        with self._changed:
            self._end, self._barrier, self._is_held = boundary.activation, None, False
            self._changed.notify_all()

    def abandon(self) -> None:
        """Fail a batch that waits for a decision: the application ends without one."""
        with self._changed:
            if self._barrier is not None or self._is_held:
                self._failure = "the application ended before it was decided"
                self._changed.notify_all()

    def fail(self, why: str) -> None:
        """Fail the waiting batch: there will be no decision."""
        with self._changed:
            self._failure = why
            self._changed.notify_all()

    def _is_barred(self, highest: int) -> bool:
        return self._is_held or (self._barrier is not None and highest >= self._barrier)


class TargetGate:
    """Blocks all output until the target owns its windows."""

    def __init__(self) -> None:
        self._state: Literal["probing", "waiting", "open", "closed"] = "probing"
        self._floor = 0
        self._boundary: Boundary | None = None
        self._changed = threading.Condition()

    def seen(self, floor: int) -> None:
        """Wait for the decision from now on; outputs below ``floor`` are never the target's."""
        with self._changed:
            if self._state == "probing":
                self._state, self._floor = "waiting", floor

    def ask(self, highest: int) -> int | None:
        """Return from where on a batch may write whose outputs reach up to ``highest``.

        ``None`` if it may not write anything.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._state != "waiting" or highest < self._floor)
            if self._state == "closed":
                raise SparkError("the query was not handed over; it stops")
            return None if self._boundary is None else self._boundary.activation

    def open(self, boundary: Boundary) -> None:
        """Let output at or beyond the boundary pass."""
        with self._changed:
            self._state, self._boundary = "open", boundary
            self._changed.notify_all()

    def close(self) -> None:
        """Block all output for good."""
        with self._changed:
            self._state = "closed"
            self._changed.notify_all()

    def abandon(self) -> None:
        """Fail a batch that waits for a decision: the application ends without one."""
        with self._changed:
            if self._state != "open":
                self._state = "closed"
                self._changed.notify_all()
