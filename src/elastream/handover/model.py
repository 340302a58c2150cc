"""Handover of a windowed query: windows, the problem, the plan, and the boundary between the sides.

Paper 002 (UniMiCo). A query with windows of length l that start every s moves from one application,
the origin, to another, the target. No state moves: the origin completes the windows it has begun,
and the target starts with the first window of which it can see every tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from elastream.model.checks import (
    Number,
    Numbers,
    abbreviate,
    count,
    non_negative,
    non_negatives,
    positive,
)
from elastream.model.errors import ProblemError

WindowKind = Literal["time", "rows"]
"""Unit of length and slide: time, or rows."""

Timestamps = tuple[int, ...]
"""One timestamp per input, in the stream's own ticks."""


@dataclass(frozen=True, slots=True)
class Window:
    """Windows of one length that start at a fixed distance.

    With a slide equal to the length they tumble, with a smaller one they overlap. With a larger one
    the rows between two windows belong to none.
    """

    kind: WindowKind
    length: Number
    """Length of a window, in time or rows; positive."""
    slide: Number
    """Distance between the starts of windows; positive."""

    @classmethod
    def of(cls, kind: object, length: object, slide: object, *, field: str = "window") -> Window:
        """Return the validated window; rows are whole numbers."""
        if kind not in get_args(WindowKind):
            known = " or ".join(f'"{name}"' for name in get_args(WindowKind))
            raise ProblemError(
                f"{field}.kind", f"{abbreviate(kind)} is not a kind of window: {known}"
            )
        rows = kind == "rows"
        return cls(
            "rows" if rows else "time",
            _size(f"{field}.length", length, whole=rows),
            _size(f"{field}.slide", slide, whole=rows),
        )


@dataclass(frozen=True, slots=True)
class HandoverProblem:
    """The information available once the target has read its first tuples."""

    window: Window
    """The controlling window: that of the last windowed operator of the query."""
    last_window: Number
    """Start of the most recent window that the origin has produced (ts_last_w)."""
    first_tuples: tuple[Number, ...]
    """Timestamp of the first tuple that the target has read, for each input (ts_start)."""
    arrivals: tuple[tuple[Number, ...], ...] | None = None
    """Row windows only: timestamps of the tuples at the origin's window, in order, for each input,
    starting with the first tuple of the last window."""

    @classmethod
    def of(
        cls,
        window: Window,
        last_window: Number,
        first_tuples: Numbers,
        arrivals: Sequence[Numbers] | None = None,
    ) -> HandoverProblem:
        """Return the validated problem."""
        last = non_negative("last_window", last_window)
        first = non_negatives("first_tuples", first_tuples)
        if not first:
            raise ProblemError("first_tuples", "is empty; give one timestamp for each input")
        if window.kind == "time":
            if arrivals is not None:
                raise ProblemError("arrivals", "only windows of rows are counted by arrivals")
            return cls(window, last, first)
        if arrivals is None:
            raise ProblemError("arrivals", "is missing; windows of rows are counted by it")
        return cls(window, last, first, _arrivals(arrivals, len(first), last))


@dataclass(frozen=True, slots=True)
class HandoverPlan:
    """Where the origin stops and the target starts."""

    migration_timestamp: Number
    """Start of the last window of the origin (ts_mi)."""
    activation_timestamp: Number | None
    """Time windows: the target uses tuples from here on; ``None`` for row windows."""
    discards: tuple[int, ...] | None
    """Row windows: number of first tuples that the target's window drops, for each input."""
    deciding_input: int
    """The input on which the target is furthest behind; it determines the boundary."""
    status: Literal["optimal"] = "optimal"

    @property
    def discard(self) -> int | None:
        """Number of dropped tuples on the deciding input: s - delta of section 3.2.2."""
        return None if self.discards is None else self.discards[self.deciding_input]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The split that origin and target agree on.

    A *coordinate* is a timestamp, or a row number for windows of rows without groups. The
    coordinate of an output is the start of its window, that of a joined pair its earlier row.
    Outputs below ``activation`` are the origin's, all others the target's.
    """

    migration: int
    """Coordinate of the start of the origin's last window."""
    activation: int
    """Coordinate of the start of the target's first window."""
    from_timestamps: Timestamps
    """The target ignores rows before these, for each input."""
    discards: tuple[int, ...]
    """Number of the remaining rows that it drops first; 0 for time windows."""
    counts: str = ""
    """Path of the number of previous rows per group; empty if no groups are counted."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a query without a checkpoint starts reading its inputs."""

    kind: Literal["first", "now", "time"]
    at_ms: int = 0
    """For ``now`` the clock of the reader, for ``time`` the start time."""

    @classmethod
    def first(cls) -> Start:
        """Return a start with all available rows."""
        return cls("first")

    @classmethod
    def now(cls, at_ms: int) -> Start:
        """Return a start with rows that arrive from now on."""
        return cls("now", at_ms)

    @classmethod
    def at(cls, at_ms: int) -> Start:
        """Return a start with every row of this time or later; earlier ones may be included."""
        return cls("time", at_ms)


@dataclass(frozen=True, slots=True)
class QueryShape:
    """What both sides must agree on before they negotiate windows; times are in ticks."""

    name: str
    window: Window
    """The controlling window."""
    inputs: int
    operation: str = "aggregate"
    """The purpose of the windows; both sides must use the same text."""
    lateness: int = 0
    """How much older a row may be than an earlier one; later rows are dropped."""

    def mismatch(self, other: QueryShape) -> str | None:
        """Return the difference to ``other`` in words; ``None`` if there is none."""
        pairs = (
            ("query", self.name, other.name),
            ("operation", self.operation, other.operation),
            ("kind of window", self.window.kind, other.window.kind),
            ("window length", self.window.length, other.window.length),
            ("window slide", self.window.slide, other.window.slide),
            ("number of inputs", self.inputs, other.inputs),
            ("lateness", self.lateness, other.lateness),
        )
        for what, ours, theirs in pairs:
            if ours != theirs:
                return f"the {what} is {abbreviate(ours)} here and {abbreviate(theirs)} there"
        return None


def _size(field: str, value: object, *, whole: bool) -> Number:
    return count(field, value, least=1) if whole else positive(field, value)


def _arrivals(arrivals: object, inputs: int, last_window: Number) -> tuple[tuple[Number, ...], ...]:
    if not isinstance(arrivals, Sequence) or isinstance(arrivals, str | bytes):
        raise ProblemError("arrivals", f"{abbreviate(arrivals)} is not a list")
    if len(arrivals) != inputs:
        raise ProblemError("arrivals", f"has {len(arrivals)} lists where there are {inputs} inputs")
    checked = tuple(non_negatives(f"arrivals[{i}]", listed) for i, listed in enumerate(arrivals))
    for i, listed in enumerate(checked):
        if not listed or listed[0] != last_window:
            first = abbreviate(listed[0]) if listed else "nothing"
            why = f"begins with {first}, not with the first tuple of the last window, {last_window}"
            raise ProblemError(f"arrivals[{i}]", why)
        for j in range(1, len(listed)):
            if listed[j] < listed[j - 1]:
                why = f"{listed[j]} comes after {listed[j - 1]}; tuples must be in order"
                raise ProblemError(f"arrivals[{i}][{j}]", why)
    return checked
