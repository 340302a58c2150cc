"""What the queries put out, by plain computation over the readings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from elastream_lab.applications.readings.queries import both_streams
from elastream_lab.applications.readings.source import Reading, Readings

Result = tuple[Any, ...]
"""The columns of a result in the order of their names; the coordinate is the first."""

SLACK_MS = 5
"""Rows that wait for a watermark are sure to come so long before it."""


@dataclass(frozen=True)
class Expected:
    """Results that must come, and those that may: the last rows wait for a watermark in vain."""

    sure: Counter[Result]
    possible: Counter[Result]

    @classmethod
    def exactly(cls, results: Counter[Result]) -> Expected:
        return cls(results, results)


def sums(made: Readings, length: int, slide: int) -> Expected:
    """Every window that some later reading closes: start, place, rows, total."""
    groups: dict[tuple[int, str], list[int]] = {}
    for _, at, place, measure in made.all():
        for start in range((at - length) // slide * slide + slide, at + 1, slide):
            groups.setdefault((start, place), []).append(measure)
    closed = max(at for _, at, _, _ in made.all()) - made.late_ms - 1
    return Expected.exactly(
        Counter(
            (start, place, len(measures), sum(measures))
            for (start, place), measures in groups.items()
            if start + max(length, slide) <= closed
        )
    )


def pairs(made: Readings, length: int, later_ms: int = 0) -> Expected:
    return Expected.exactly(
        Counter(
            (min(s[1], t[1]), s[3], s[2], s[0], t[3], t[0])
            for s, t in _pairs(made, length, later_ms)
        )
    )


def row_windows(made: Readings, length: int, slide: int) -> Expected:
    rows = [(at, measure) for at, _, measure in sorted((r[1], r[0], r[3]) for r in made.all())]
    return _windows(rows, length, slide, rows[-1][0] - made.late_ms)


def pair_windows(
    made: Readings, range_ms: int, length: int, slide: int, later_ms: int = 0
) -> Expected:
    found = sorted((max(s[1], t[1]), s[0], t[0], s[3]) for s, t in _pairs(made, range_ms, later_ms))
    ends = (max(row[1] for row in each.all()) for each in both_streams(made, later_ms))
    rows = [(at, measure) for at, _, _, measure in found]
    return _windows(rows, length, slide, min(ends) - made.late_ms)


def _windows(rows: list[tuple[int, int]], length: int, slide: int, newest: int) -> Expected:
    possible, sure = Counter[Result](), Counter[Result]()
    for start in range(0, len(rows) - length + 1, slide):
        window = rows[start : start + length]
        result = (window[0][0], start, sum(measure for _, measure in window))
        possible[result] += 1
        if window[-1][0] < newest - SLACK_MS:
            sure[result] += 1
    return Expected(sure, possible)


def _pairs(made: Readings, length: int, later_ms: int) -> list[tuple[Reading, Reading]]:
    left, right = (stream.all() for stream in both_streams(made, later_ms))
    return [(s, t) for s in left for t in right if s[2] == t[2] and abs(s[1] - t[1]) < length]
