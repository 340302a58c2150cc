"""What the drivers of a handover ask of a query and of a disk."""

from __future__ import annotations

from typing import Protocol

from elastream.handover.ledger import Record
from elastream.handover.model import Boundary, Timestamps

__all__ = ["OriginQuery", "RecordStore", "TargetQuery"]


class OriginQuery(Protocol):
    """The running query that is handed over."""

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back what lies beyond; ``None`` if it is not known yet.

        Raises an ``ElastreamError`` where the query cannot be cut.
        """

    def release(self) -> None:
        """Put out what was held back, and go on as if nothing had been asked."""

    def stop_after(self, boundary: Boundary) -> None:
        """Put out what lies below the boundary, drop the rest, now and after a restart."""

    def is_finished(self) -> bool:
        """Tell whether everything below the boundary is put out."""

    def halt(self) -> None:
        """End the query between two batches; raises an ``ElastreamError`` where one was cut."""

    def go_on(self) -> None:
        """Start the query again on its checkpoint, after a halt."""


class TargetQuery(Protocol):
    """The query that takes over."""

    def connect(self) -> None:
        """Start to read the inputs, from wherever they are; put out nothing."""

    def first_seen(self) -> Timestamps | None:
        """Return from where on every row is seen, for each input; ``None`` if one gave no row."""

    def expect(self, boundary: Boundary) -> None:
        """Raise an ``ElastreamError`` where the query cannot start at the boundary."""

    def activate(self, boundary: Boundary) -> None:
        """Put out what lies at the boundary or beyond, from the rows read since the connection."""

    def disconnect(self) -> None:
        """Stop reading; nothing is ever put out."""


class RecordStore(Protocol):
    """Keeps one record through a crash."""

    def write(self, record: Record) -> None:
        """Replace the record as a whole; raises ``OSError`` where the old one is still there."""

    def read(self) -> Record | None:
        """Return the record; ``None`` where there is none."""
