"""Taxi trips as a recording that can be replayed: files in the challenge's columns, or made ones.

Trips are put in the order of their ends, the time that the query goes by, and are due in proportion
to it: an hour of taxis in a minute, or whatever is asked for. Lines that are no trips are counted
and left out, so that the stream and the plain computation read the same ones.

The watermark closes a minute when a later trip has come. For the last minutes none does, so one is
added, half an hour and a minute after the last: it closes them all and is in none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elastream.harness.recording import Recording, write_recording
from elastream.model.errors import ProblemError
from elastream_lab.applications.taxi.plain import LENGTH_S, SLIDE_S
from elastream_lab.applications.taxi.trips import COLUMNS, Trip, closing_trip, parsed

__all__ = ["RecordedTrips", "record_trips"]


@dataclass(frozen=True, slots=True)
class RecordedTrips:
    """A recording, and what is in it."""

    recording: Recording
    """A line a row; the last one is not of the files."""
    trips: tuple[Trip, ...]
    """What the files have, by the time of their ends."""
    bad_lines: int
    """Lines that are no trips."""


def record_trips(files: Sequence[Path], path: Path, *, replay_s: float) -> RecordedTrips:
    """Write the trips of ``files`` to ``path``, to be replayed in so many seconds."""
    lines: list[tuple[Trip, str]] = []
    bad = 0
    for file in files:
        for line in _lines(file):
            trip = parsed(line)
            if trip is None:
                bad += 1
            else:
                lines.append((trip, line))
    if not lines:
        _refuse(files)
    lines.sort(key=lambda each: each[0].at_s)
    times_s = np.array([trip.at_s for trip, _ in lines], dtype=np.int64)
    span_s = max(1, int(times_s[-1] - times_s[0]))
    due_ms = np.floor((times_s - times_s[0]) * (replay_s * 1000 / span_s)).astype(np.int64)
    closing = closing_trip(int(times_s[-1]) + LENGTH_S + SLIDE_S)
    texts = [*(line for _, line in lines), closing]
    recording = write_recording(path, np.append(due_ms, due_ms[-1]), texts)
    return RecordedTrips(recording, tuple(trip for trip, _ in lines), bad)


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text().splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ProblemError("input", f"{file} cannot be read: {why}") from None


def _refuse(files: Sequence[Path]) -> None:
    file = files[0]
    first = next(iter(_lines(file)), "")
    columns = len(first.split(",")) if first else 0
    raise ProblemError(
        "input",
        f"{file} has no trip; its first line has {columns} columns, the challenge's have "
        f"{len(COLUMNS)}: medallion, hack_license, pickup_datetime, dropoff_datetime, ...",
    )
