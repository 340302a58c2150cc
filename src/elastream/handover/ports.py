"""The interfaces of the drivers of a handover to a query and to a disk."""

from __future__ import annotations

from typing import Protocol

from elastream.handover.ledger import Record
from elastream.handover.model import Boundary, Timestamps


class OriginQuery(Protocol):
    """The running query that is handed over."""

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back all output beyond it; ``None`` if it is not known yet.

        Raises an ``ElastreamError`` if the query cannot be split.
        """

    def release(self) -> None:
        """Write the output that was held back, and continue as before."""

    def stop_after(self, boundary: Boundary) -> None:
        """Write the output below the boundary and drop the rest, now and after a restart."""

    def is_finished(self) -> bool:
        """Return whether all output below the boundary is written."""

    def halt(self) -> None:
        """End the query between two batches; raises an ``ElastreamError`` if one was cut."""

    def go_on(self) -> None:
        """Start the query again on its checkpoint, after a halt."""


class TargetQuery(Protocol):
    """The query that takes over."""

    def connect(self) -> None:
        """Start reading the inputs at their current position; write no output."""

    def first_seen(self) -> Timestamps | None:
        """Return from when on every row is seen, per input; ``None`` if an input had no row."""

    def expect(self, boundary: Boundary) -> None:
        """Raise an ``ElastreamError`` if the query cannot start at the boundary."""

    def activate(self, boundary: Boundary) -> None:
        """Write the output at or beyond the boundary, from the rows read since the connection."""

    def disconnect(self) -> None:
        """Stop reading; no output is ever written."""


class RecordStore(Protocol):
    """Keeps one record across crashes."""

    def write(self, record: Record) -> None:
        """Replace the record atomically; raises ``OSError`` if the old one is still there."""

    def read(self) -> Record | None:
        """Return the record; ``None`` if there is none."""
