"""What the paper's queries put out, by plain computation, and how long each result took.

Paper 002, section 4. The results of Q1 to Q3 are computed again from the readings, without Spark:
each result with the moment at which the last reading that it needs is due. A result's response time
runs from that moment to the writing of the file that holds it. Times are relative to the start of
the stream, so that runs at different hours of the day can be compared row by row.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Final

from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.queries import (
    both_streams,
    joined_readings,
    pair_sums,
    row_sums,
)
from elastream_lab.applications.readings.source import Reading, Readings

_LENGTH: Final = 5
"""Rows in the windows of Q2 and Q3."""

Output = tuple[int | str, ...]
"""A result: its coordinate first, times relative to the start of the stream."""


@dataclass(frozen=True, slots=True)
class WrittenOutput:
    """A result as a run has put it out."""

    output: Output
    at_ms: float
    """When, relative to the start of the stream."""


@dataclass(frozen=True, slots=True)
class ResponsesAround:
    """Response times around a moment, in milliseconds."""

    mean_ms: float
    deviation_ms: float
    worst_ms: float
    outputs: int


@dataclass(frozen=True, slots=True)
class PaperQuery:
    """One of the paper's queries: as Spark runs it, and by plain computation."""

    name: str
    figure: int
    paper_ms: tuple[float, float, float, float]
    """Mean and deviation of the response time with a migration, then without, as published."""
    query: Callable[[Readings, int], WindowedQuery]
    """Made of the readings and the range of the join in milliseconds."""
    due: Callable[[Readings, int], dict[Output, int]]
    """All results, each with the moment it is due."""
    columns: tuple[str, ...]
    """What makes an :data:`Output`."""
    times: frozenset[str]
    """Those of the columns that are timestamps."""
    joins: bool
    """It has windows of time, which prolong the handover."""

    def written(self, results: Path, start_ms: int) -> Iterator[WrittenOutput]:
        """Yield what a run of streams that started then wrote to its folder of results."""
        for file in sorted(results.glob("[0-9]*.jsonl")):
            at_ms = file.stat().st_mtime_ns / 1e6 - start_ms
            for line in file.read_text().splitlines():
                fields = json.loads(line)
                shown = (
                    fields[name] - start_ms if name in self.times else fields[name]
                    for name in self.columns
                )
                yield WrittenOutput(tuple(shown), at_ms)


def responses(
    written: Sequence[WrittenOutput], due_ms: Mapping[Output, int]
) -> list[tuple[int, float]]:
    """Return when each result was due, and how long after that it was written."""
    return [
        (due_ms[each.output], each.at_ms - due_ms[each.output])
        for each in written
        if each.output in due_ms
    ]


def spread(
    responses_ms: Sequence[tuple[int, float]], begin_ms: float, end_ms: float
) -> ResponsesAround | None:
    """Return the spread of the response times of results due from one moment to another."""
    near = [response for due, response in responses_ms if begin_ms <= due < end_ms]
    return ResponsesAround(fmean(near), pstdev(near), max(near), len(near)) if near else None


def _due_pairs(readings: Readings, range_ms: int) -> dict[Output, int]:
    return {
        (min(s[1], t[1]), s[0], t[0], s[2], s[3], t[3]): max(s[1], t[1])
        for s, t in _pairs(readings, range_ms)
    }


def _due_row_sums(readings: Readings, range_ms: int) -> dict[Output, int]:
    del range_ms
    return _row_sums([(at, measure) for _, at, _, measure in _relative(readings).all()])


def _due_pair_sums(readings: Readings, range_ms: int) -> dict[Output, int]:
    pairs = ((max(s[1], t[1]), s[0], t[0], s[3]) for s, t in _pairs(readings, range_ms))
    return _row_sums([(at, measure) for at, _, _, measure in sorted(pairs)])


def _row_sums(rows: Sequence[tuple[int, int]]) -> dict[Output, int]:
    found: dict[Output, int] = {}
    for start in range(len(rows) - _LENGTH + 1):
        window = rows[start : start + _LENGTH]
        total = sum(measure for _, measure in window)
        found[window[0][0], start, total] = window[-1][0]
    return found


def _pairs(readings: Readings, range_ms: int) -> Iterator[tuple[Reading, Reading]]:
    left, right = (stream.all() for stream in both_streams(_relative(readings)))
    times = [at for _, at, _, _ in right]
    for s in left:
        near = slice(bisect_right(times, s[1] - range_ms), bisect_left(times, s[1] + range_ms))
        yield from ((s, t) for t in right[near] if s[2] == t[2])


def _relative(readings: Readings) -> Readings:
    return replace(readings, start_ms=0)


_PAIR: Final = ("coordinate", "s_position", "t_position", "s_place", "s_measure", "t_measure")
_SUM: Final = ("coordinate", "number", "total")

QUERIES: Final = {
    query.name: query
    for query in (
        PaperQuery(
            "q1",
            4,
            (3.750, 3.97, 3.751, 3.99),
            lambda readings, range_ms: joined_readings(readings, length_ms=range_ms),
            _due_pairs,
            _PAIR,
            frozenset({"coordinate"}),
            joins=True,
        ),
        PaperQuery(
            "q2",
            5,
            (3.101, 3.836, 3.155, 3.923),
            lambda readings, _: row_sums(readings, length=_LENGTH),
            _due_row_sums,
            _SUM,
            frozenset({"coordinate"}),
            joins=False,
        ),
        PaperQuery(
            "q3",
            6,
            (6.658, 6.217, 6.568, 6.133),
            lambda readings, range_ms: pair_sums(readings, range_ms=range_ms, length=_LENGTH),
            _due_pair_sums,
            _SUM,
            frozenset({"coordinate"}),
            joins=True,
        ),
    )
}
"""The queries by name."""
