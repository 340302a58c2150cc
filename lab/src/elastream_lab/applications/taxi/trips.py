"""Taxi trips as the DEBS 2015 challenge has them: 17 columns, no header, by time of arrival.

:func:`make_trips` makes some from a seed, for tests and demos. A few places attract most trips,
so that some routes are frequent; which ones changes over the hours, so that the ranking moves. As
in the real data, some rows lie: a place at zero degrees.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elastream.model.checks import count, positive
from elastream_lab.applications.taxi.grid import CELLS, cell_centre, route_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


COLUMNS = (
    ("medallion", "string"),
    ("hack_license", "string"),
    ("pickup_datetime", "timestamp_ntz"),
    ("dropoff_datetime", "timestamp_ntz"),
    ("trip_time_in_secs", "int"),
    ("trip_distance", "double"),
    ("pickup_longitude", "double"),
    ("pickup_latitude", "double"),
    ("dropoff_longitude", "double"),
    ("dropoff_latitude", "double"),
    ("payment_type", "string"),
    ("fare_amount", "double"),
    ("surcharge", "double"),
    ("mta_tax", "double"),
    ("tip_amount", "double"),
    ("tolls_amount", "double"),
    ("total_amount", "double"),
)
"""Name and type of each column, in order."""

_EPOCH = datetime(2013, 1, 1)
"""Midnight in New York: the data has local times without a zone."""
_RANKS = 40
"""This many cells attract trips."""
_PHASE_S = 1200.0
"""How long the same routes are the busiest."""
_LIES = 0.02
"""Share of rows with a place that cannot be."""
_STEPS = 1001
"""Points at which the rate is sampled."""
_TIME_LENGTH = len("2013-01-01 00:00:00")


def schema() -> str:
    """Return the columns as Spark's readers take them."""
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS)


@dataclass(frozen=True, slots=True)
class MadeTrips:
    """What trips shall be made; checked when made."""

    seed: int = 1
    span_s: float = 7200.0
    """Span of the arrivals."""
    trips_a_minute: float = 180.0
    """In the mean, of the time that the trips tell."""
    swing: float = 1.0
    """How many times as many trips come in the middle as at both ends."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        for name in ("span_s", "trips_a_minute", "swing"):
            positive(name, getattr(self, name))


class Trip(NamedTuple):
    """What query 1 needs to know of a trip."""

    at_s: int
    """When it ended, in seconds since the epoch, its local time taken for that of Greenwich."""
    route: str | None
    """``None`` where it was not on the map."""


def parsed(line: str) -> Trip | None:
    """Return the trip of a line; ``None`` where a column is missing or is not a number."""
    columns = line.split(",")
    if len(columns) != len(COLUMNS) or len(columns[3]) != _TIME_LENGTH:
        return None
    try:
        at = datetime.fromisoformat(columns[3]).replace(tzinfo=UTC)
        places = [float(degrees) for degrees in columns[6:10]]
    except ValueError:
        return None
    if not all(map(math.isfinite, places)):
        return None
    start, end = (places[0], places[1]), (places[2], places[3])
    return Trip(int(at.timestamp()), route_of(start, end))


def closing_trip(at_s: int) -> str:
    """Return the line of a trip that ended then, in the middle of the map."""
    place = cell_centre(CELLS // 2, CELLS // 2)
    arrival_s = at_s - int(_EPOCH.replace(tzinfo=UTC).timestamp())
    return ",".join(_row(arrival_s, 60, [place, place], 0))


def make_trips(trips: MadeTrips, path: Path) -> int:
    """Write the trips to a file and return how many; equal settings give equal files."""
    rows = list(_rows(trips))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return len(rows)


def _rows(trips: MadeTrips) -> Iterator[tuple[str, ...]]:
    random = np.random.default_rng(trips.seed)
    number = round(trips.span_s / 60 * trips.trips_a_minute)
    arrivals = _arrivals(random, trips, number)
    cells = random.integers(CELLS // 3, 2 * CELLS // 3, (_RANKS, 2))
    weights = 1 / np.arange(1, _RANKS + 1)
    weights /= weights.sum()
    for arrival in arrivals:
        shift = int(arrival // _PHASE_S)
        start, end = random.choice(_RANKS, 2, p=weights)
        ranks = (start, (end + shift) % _RANKS)
        places = [_near(random, *cells[rank]) for rank in ranks]
        if random.random() < _LIES:
            places[int(random.integers(2))] = (0.0, 0.0)
        took_s = int(random.integers(60, 1800))
        yield _row(int(arrival), took_s, places, int(random.integers(1000)))


def _arrivals(random: np.random.Generator, trips: MadeTrips, number: int) -> NDArray[np.int64]:
    """Return seconds in order, by a rate that rises and falls in straight lines."""
    at = np.linspace(0, 1, _STEPS)
    rate = 1 + (trips.swing - 1) * (1 - np.abs(2 * at - 1))
    passed = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    drawn = random.uniform(0, passed[-1], number)
    return np.sort(np.interp(drawn, passed, at * trips.span_s)).astype(np.int64)


def _near(random: np.random.Generator, east: int, south: int) -> tuple[float, float]:
    """Return a place in the cell or one of its neighbours."""
    longitude, latitude = cell_centre(int(east), int(south))
    drift = random.normal(0, 0.0015, 2)
    return longitude + float(drift[0]), latitude + float(drift[1])


def _row(
    arrival_s: int, took_s: int, places: list[tuple[float, float]], taxi: int
) -> tuple[str, ...]:
    dropoff = _EPOCH + timedelta(seconds=arrival_s)
    pickup = dropoff - timedelta(seconds=took_s)
    fare = 2.5 + took_s / 60
    where = (f"{degrees:.6f}" for place in places for degrees in place)
    money = (fare, 0.5, 0.5, 0.0, 0.0, fare + 1.0)
    return (
        f"{taxi:032X}",
        f"{taxi + 5000:032X}",
        f"{pickup:%Y-%m-%d %H:%M:%S}",
        f"{dropoff:%Y-%m-%d %H:%M:%S}",
        str(took_s),
        f"{took_s / 300:.2f}",
        *where,
        "CSH",
        *(f"{dollars:.2f}" for dollars in money),
    )
