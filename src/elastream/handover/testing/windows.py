"""Windowed operators in plain Python: what a query puts out, with or without a boundary.

They say what the words of paper 002 mean, and the protocol is tested on them: an uninterrupted run
is one operator over the whole stream, a handover two operators, the second with a boundary.

Time windows start at multiples of the slide and are put out when every input has passed their end
by the lateness; windows without rows put out nothing, as on Spark. Row windows hold rows
``k s .. k s + l - 1`` of every input. A join pairs rows of two inputs that are equal in value and
share a window, at once and once, however many windows they share.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Final, NamedTuple

from elastream.handover.model import Boundary, QueryShape, Window
from elastream.handover.point import share_window

LATER_CHAIN: Final = "later chain"
"""The operation of row windows over a join whose results carry the later timestamp."""


class Row(NamedTuple):
    """A row of a stream."""

    timestamp: int
    value: Any
    """Anything with an order: a number, or what a row of a join is made of."""


_FIRST = Row(-1, None)
"""Comes before every row; timestamps are not negative."""


class Output(NamedTuple):
    """Something a query puts out."""

    coordinate: int
    """Start of its window, or for a joined pair its earlier row: a timestamp or a row number."""
    content: tuple[tuple[Row, ...], ...]
    """The rows it is made of, for each input."""


class Windowing:
    """An aggregation (``operation`` "aggregate") or a join ("join") over windows."""

    def __init__(self, shape: QueryShape, boundary: Boundary | None = None) -> None:
        self._window, self._inputs = shape.window, shape.inputs
        self._is_join = shape.operation == "join"
        self._boundary = boundary
        self._reader = [_Reader(shape.lateness, shape.window.kind == "rows") for _ in self._each()]
        self._kept: list[list[tuple[int, Row]]] = [[] for _ in self._each()]
        self._skipped = [0 for _ in self._each()]
        self._put_out_before: int | None = None

    def read(self, i: int, row: Row) -> list[Output]:
        """Take a row of input i and return what can be put out now."""
        pairs: list[Output] = []
        for accepted in self._reader[i].accept(row):
            at = self._coordinate(i, accepted)
            if at is not None:
                pairs += self._pairs(i, at, accepted) if self._is_join else []
                insort(self._kept[i], (at, accepted))
        return pairs if self._is_join else self._closed()

    def rows_before(self, i: int, timestamp: int) -> int | None:
        """Return how many rows of input i are older; ``None`` until one that is not has come.

        After a handover the rows of the previous application count too; ``timestamp`` is then not
        before the boundary.
        """
        before = self._reader[i].rows_before(timestamp)
        if before is None or self._boundary is None:
            return before
        unseen = self._boundary.activation - self._boundary.discards[i]
        return unseen + before - self._reader[i].older(self._boundary.from_timestamps[i])

    def is_past(self, boundary: Boundary) -> bool:
        """Return whether all output below the boundary is written."""
        rows = self._window.kind == "rows"
        return (rows and boundary.migration < 0) or (
            self.reached() >= boundary.migration + int(self._window.length)
        )

    @property
    def late(self) -> int:
        """How many rows were dropped because they came too late."""
        return sum(reader.late for reader in self._reader)

    def _each(self) -> range:
        return range(self._inputs)

    def _coordinate(self, i: int, row: Row) -> int | None:
        """Return the row's timestamp or number; ``None`` where the boundary leaves it out."""
        number = len(self._kept[i])
        if self._boundary is not None:
            if row.timestamp < self._boundary.from_timestamps[i]:
                return None
            if self._skipped[i] < self._boundary.discards[i]:
                self._skipped[i] += 1
                return None
            number += self._boundary.activation
        return row.timestamp if self._window.kind == "time" else number

    def reached(self) -> float:
        """Return the coordinate below which no input changes any more."""
        if self._window.kind == "time":
            return min(reader.watermark for reader in self._reader)
        base = 0 if self._boundary is None else self._boundary.activation
        return base + min(len(kept) for kept in self._kept)

    def _closed(self) -> list[Output]:
        length, slide = int(self._window.length), int(self._window.slide)
        reached = self.reached()
        first = self._next_start()
        outputs = []
        while first is not None and first + length <= reached:
            content = tuple(tuple(_between(kept, first, first + length)) for kept in self._kept)
            if any(content):
                outputs.append(Output(first, content))
            self._put_out_before = first + slide
            first = self._next_start()
        return outputs

    def _next_start(self) -> int | None:
        """Return the start of the next window that may hold rows."""
        length, slide = int(self._window.length), int(self._window.slide)
        base = self._put_out_before
        if base is None and self._boundary is not None:
            base = self._boundary.activation
        if base is None and self._window.kind == "rows":
            base = 0
        later = [
            kept[place][0]
            for kept in self._kept
            if (place := 0 if base is None else bisect_left(kept, (base, _FIRST))) < len(kept)
        ]
        if not later:
            return None
        earliest = (min(later) - length) // slide * slide + slide
        return earliest if base is None else max(base, earliest)

    def _pairs(self, i: int, at: int, row: Row) -> list[Output]:
        pairs = []
        for other_at, other in self._kept[1 - i]:
            if other.value == row.value and share_window(self._window, at, other_at):
                ordered = ((row,), (other,)) if i == 0 else ((other,), (row,))
                pairs.append(Output(min(at, other_at), ordered))
        return pairs


class JoinedRows:
    """Row windows over the results of a join over time windows: the paper's Q3.

    A result carries the earlier timestamp of its rows (``operation`` "chain") or the later one
    ("later chain", as ISTREAM has it and as Q3 runs on Spark). Results reach the row windows
    ordered by it, then by content, as soon as no other can come before them; so their order depends
    on the rows alone. The row window is the controlling one.
    """

    def __init__(self, shape: QueryShape, join: Window, boundary: Boundary | None = None) -> None:
        self._start = None if boundary is None else max(boundary.from_timestamps)
        pairing = QueryShape("", join, 2, "join", shape.lateness)
        self._join = Windowing(pairing)
        self._is_later = shape.operation == LATER_CHAIN
        self._reach = 0 if self._is_later else int(join.length) - 1
        counted = QueryShape("", shape.window, 1, "aggregate")
        self._rows = Windowing(counted, boundary)
        self._waiting: list[tuple[int, Output]] = []

    def read(self, i: int, row: Row) -> list[Output]:
        """Take a row of input i and return what can be put out now."""
        for pair in self._join.read(i, row):
            at = self._timestamp(pair)
            if self._start is None or at >= self._start:
                insort(self._waiting, (at, pair))
        ready = bisect_left(
            self._waiting, self._join.reached() - self._reach, key=lambda waiting: waiting[0]
        )
        results, self._waiting = self._waiting[:ready], self._waiting[ready:]
        outputs = []
        for at, result in results:
            (left,), (right,) = result.content
            outputs += self._rows.read(0, Row(at, (left, right)))
        return outputs

    def _timestamp(self, pair: Output) -> int:
        (left,), (right,) = pair.content
        return max(left.timestamp, right.timestamp) if self._is_later else pair.coordinate

    def rows_before(self, i: int, timestamp: int) -> int | None:
        """Return how many results are older; ``None`` until one that is not has come."""
        del i
        return self._rows.rows_before(0, timestamp)

    def is_past(self, boundary: Boundary) -> bool:
        """Return whether all output below the boundary is written."""
        return self._rows.is_past(boundary)

    @property
    def late(self) -> int:
        """How many rows were dropped because they came too late."""
        return self._join.late


class _Reader:
    """One input: its watermark, its late rows, and for row windows its rows in order."""

    def __init__(self, lateness: int, ordered: bool) -> None:
        self._lateness, self._ordered = lateness, ordered and lateness > 0
        self._waiting: list[Row] = []
        self._timestamps: list[int] = []
        self.watermark = float("-inf")
        self.late = 0

    def accept(self, row: Row) -> list[Row]:
        """Return the rows that go on to the windows now."""
        if row.timestamp < self.watermark:
            self.late += 1
            return []
        self.watermark = max(self.watermark, row.timestamp - self._lateness)
        if not self._ordered:
            accepted = [row]
        else:
            insort(self._waiting, row, key=lambda waiting: waiting.timestamp)
            ready = bisect_left(self._waiting, self.watermark, key=lambda each: each.timestamp)
            accepted, self._waiting = self._waiting[:ready], self._waiting[ready:]
        for each in accepted:
            insort(self._timestamps, each.timestamp)
        return accepted

    def rows_before(self, timestamp: int) -> int | None:
        if not self._timestamps or self._timestamps[-1] < timestamp:
            return None
        return self.older(timestamp)

    def older(self, timestamp: int) -> int:
        return bisect_left(self._timestamps, timestamp)


def _between(kept: list[tuple[int, Row]], start: int, end: int) -> list[Row]:
    low = bisect_left(kept, (start, _FIRST))
    high = bisect_left(kept, (end, _FIRST))
    return [row for _, row in kept[low:high]]
