"""Queries over simulated streams that can be handed over: the ports, in memory and exact.

State that survives a crash of the driver on Spark (the checkpoint and an idempotent sink) survives
it here too: rows read, open windows, outputs written. State that only the driver has, the barrier,
is lost with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from elastream.handover.ledger import Record
from elastream.handover.model import Boundary, QueryShape, Timestamps, Window
from elastream.handover.point import (
    WindowOperator,
    expect_near,
    not_before,
    row_boundary,
    time_boundary,
    whole_at_controlling,
    whole_from,
)
from elastream.handover.testing.windows import LATER_CHAIN, JoinedRows, Output, Row, Windowing


def operator_of(
    shape: QueryShape, join: Window | None, boundary: Boundary | None = None
) -> Windowing | JoinedRows:
    """Return the operator of a query; with ``join`` it is row windows over that join's results."""
    if join is None:
        return Windowing(shape, boundary)
    return JoinedRows(shape, join, boundary)


class SimulatedOrigin:
    """The query that runs from the start of the stream."""

    def __init__(
        self, shape: QueryShape, join: Window | None = None, furthest_ahead: int | None = None
    ) -> None:
        self._shape, self._join = shape, join
        self._operator: Windowing | JoinedRows | None = operator_of(shape, join)
        self._furthest_ahead = furthest_ahead
        self._newest = 0
        self._begin: Boundary | None = None
        self._barrier: int | None = None
        self._end: Boundary | None = None
        self._held: list[Output] = []
        self.put_out: list[Output] = []
        self.is_halted = False
        """It was ended between two batches."""

    def read(self, i: int, row: Row) -> None:
        """Take the next row of input i."""
        self._newest = max(self._newest, row.timestamp)
        if self._operator is not None:
            self._pass(self._operator.read(i, row))

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and bar what lies beyond; ``None`` until the rows are counted."""
        operator = self._operator
        if operator is None:
            return None
        begin = None if self._begin is None else self._begin.activation - 1
        produced = max((output.coordinate for output in self.put_out), default=begin)
        window = self._shape.window
        if self._furthest_ahead is not None:
            expect_near(whole_from, self._newest, self._furthest_ahead)
        if self._join is not None:  # one stream of results reaches the controlling window
            join = WindowOperator(self._join, self._shape.operation != LATER_CHAIN)
            whole_from = (whole_at_controlling(whole_from, [join]),) * len(whole_from)
        whole_from = not_before(self._begin, whole_from)
        if window.kind == "time":
            boundary = time_boundary(window, produced, whole_from)
        else:
            counts = [operator.rows_before(i, at) for i, at in enumerate(whole_from)]
            before = [count for count in counts if count is not None]
            if len(before) < len(counts):
                return None
            boundary = row_boundary(window, produced, whole_from, before)
        self._barrier = boundary.activation
        return boundary

    def release(self) -> None:
        """Put out what was held back."""
        self._barrier = None
        self._pass_held()

    def stop_after(self, boundary: Boundary) -> None:
        """Drop what lies beyond the boundary."""
        self._end = boundary
        self._pass_held()

    def is_finished(self) -> bool:
        """Return whether all output below the boundary is written."""
        if self._end is None or self._operator is None:
            return False
        return self._operator.is_past(self._end)

    def halt(self) -> None:
        """Read no more."""
        self.is_halted = True

    def go_on(self) -> None:
        """Read on."""
        self.is_halted = False

    def crash(self) -> None:
        """Lose what only the driver knew."""
        self._barrier = None

    def resume(self) -> None:
        """Go on after a crash, once the driver has read its record."""
        self._pass_held()

    def _pass_held(self) -> None:
        held, self._held = self._held, []
        self._pass(held)

    def _pass(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if self._end is not None and output.coordinate >= self._end.activation:
                continue
            if self._barrier is not None and output.coordinate >= self._barrier:
                self._held.append(output)
            else:
                self.put_out.append(output)


class SimulatedTarget(SimulatedOrigin):
    """The query that reads from where it connects, and puts out nothing until it is activated.

    From then on it can be handed on.
    """

    def __init__(self, shape: QueryShape, join: Window | None = None) -> None:
        super().__init__(shape, join)
        self._operator = None
        self._rows: list[tuple[int, Row]] = []
        self.is_connected = False

    def connect(self) -> None:
        """Read from now on."""
        self.is_connected = True
        self._rows = []

    def read(self, i: int, row: Row) -> None:
        """Take the next row of input i."""
        super().read(i, row)
        if self._operator is None:
            self._rows.append((i, row))

    def first_seen(self) -> Timestamps | None:
        """Return from where on every row is seen; ``None`` until every input gave one."""
        first: dict[int, int] = {}
        for i, row in self._rows:
            first.setdefault(i, row.timestamp)
        if len(first) < self._shape.inputs:
            return None
        lateness = self._shape.lateness
        return tuple(whole_from(first[i], lateness) for i in range(self._shape.inputs))

    def expect(self, boundary: Boundary) -> None:
        """Start anywhere: rows are counted here from the boundary on."""

    def activate(self, boundary: Boundary) -> None:
        """Put out what lies at the boundary or beyond; a second time changes nothing."""
        if self._operator is not None:
            return
        self._begin = boundary
        self._operator = operator_of(self._shape, self._join, boundary)
        for i, row in self._rows:
            self._pass(self._operator.read(i, row))

    def disconnect(self) -> None:
        """Read no more."""
        self.is_connected = False


class MemoryRecord:
    """A record that outlives its driver, and a disk that can be full."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.is_full = False

    def write(self, record: Record) -> None:
        """Replace the record."""
        if self.is_full:
            raise OSError("No space left on device")
        self.record = record

    def read(self) -> Record | None:
        """Return the record."""
        return self.record
