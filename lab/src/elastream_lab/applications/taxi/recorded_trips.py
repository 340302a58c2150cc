"""Taxi trips as a recording that can be replayed: files in the challenge's columns, or made ones.

Trips are put in the order of their ends, the time that the query goes by, and are due in proportion
to it: an hour of taxis in a minute, or whatever is asked for. Lines that are not trips are counted
and left out, so that the stream and the plain computation read the same ones.

The watermark closes a minute when a later trip has come. For the last minutes none does, so one is
added, half an hour and a minute after the last: it closes them all and is in none of them. What it
closes is put out by the next batch, which Spark makes without rows, but not if the query is started
again in between; so the trip comes twice, seconds apart.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from elastream.model.errors import ProblemError
from elastream_lab.applications.taxi.plain import LENGTH_S, SLIDE_S
from elastream_lab.applications.taxi.trips import COLUMNS, Trip, closing_trip, parsed
from elastream_lab.harness.recording import Recording, write_recording

_CLOSED_AGAIN_MS: Final = 4000
"""So long after the first the second trip is due that closes the last minutes."""


@dataclass(frozen=True, slots=True)
class RecordedTrips:
    """A recording, and what is in it."""

    recording: Recording
    """A line a row; the last two are not of the files."""
    trips: tuple[Trip, ...]
    """What the files have, by the time of their ends."""
    bad_lines: int
    """Lines that are not trips."""


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The trips that ended from one moment on and before another, by the files' own clock."""

    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        first, last = self.bounds_s
        if first >= last:
            raise ProblemError("until", f"{self.until} is not after {self.since}")

    @property
    def bounds_s(self) -> tuple[float, float]:
        """Both moments, in seconds since the epoch; infinite where none is given."""
        return _moment_s("since", self.since, -math.inf), _moment_s("until", self.until, math.inf)


def record_trips(
    files: Sequence[Path], path: Path, *, replay_s: float, part: TimeSlice | None = None
) -> RecordedTrips:
    """Write the trips of ``files`` to ``path``, to be replayed in this many seconds.

    Files are read line by line; only the trips of ``part`` are held.
    """
    since_s, until_s = (part or TimeSlice()).bounds_s
    lines: list[tuple[Trip, str]] = []
    bad = others = 0
    for file in files:
        for line in _lines(file):
            trip = parsed(line)
            if trip is None:
                bad += 1
            elif since_s <= trip.at_s < until_s:
                lines.append((trip, line))
            else:
                others += 1
    if not lines:
        _refuse(files, others)
    lines.sort(key=lambda each: each[0].at_s)
    times_s = np.array([trip.at_s for trip, _ in lines], dtype=np.int64)
    span_s = max(1, int(times_s[-1] - times_s[0]))
    due_ms = np.floor((times_s - times_s[0]) * (replay_s * 1000 / span_s)).astype(np.int64)
    closing = closing_trip(int(times_s[-1]) + LENGTH_S + SLIDE_S)
    texts = [*(line for _, line in lines), closing, closing]
    closing_ms = due_ms[-1] + np.array([0, _CLOSED_AGAIN_MS])
    recording = write_recording(path, np.append(due_ms, closing_ms), texts)
    return RecordedTrips(recording, tuple(trip for trip, _ in lines), bad)


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of a file that are not empty; one that ends in .gz is unpacked on the way."""
    opened = gzip.open if file.suffix == ".gz" else open
    try:
        with opened(file, "rt", encoding="utf-8", newline=None) as text:
            for line in text:
                if stripped := line.rstrip("\n"):
                    yield stripped
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else None
        what = "it is not text" if isinstance(error, UnicodeDecodeError) else "it is damaged"
        raise ProblemError("input", f"{file} cannot be read: {why or what}") from None


def _moment_s(name: str, text: str | None, otherwise: float) -> float:
    if text is None:
        return otherwise
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        why = f"{text!r} is not a time; write it as 2013-01-01 08:00"
        raise ProblemError(name, why) from None


def _refuse(files: Sequence[Path], others: int) -> None:
    if others:
        why = f"none of the {others:,} trips ended in the time that was asked for"
        raise ProblemError("since", why)
    file = files[0]
    first = next(iter(_lines(file)), "")
    columns = len(first.split(",")) if first else 0
    raise ProblemError(
        "input",
        f"{file} has no trip; its first line has {columns} columns, the challenge's have "
        f"{len(COLUMNS)}: medallion, hack_license, pickup_datetime, dropoff_datetime, ...",
    )
