"""Taxi trips as the DEBS 2015 challenge has them: 17 columns, no header, by time of arrival.

:func:`make_trips` makes some from a seed, for tests and demos. A few places attract most trips,
so that some routes are frequent; which ones changes over the hours, so that the ranking moves. As
in the real data, some rows lie: a place at zero degrees.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from elastream.model.checks import amount, count
from elastream.model.errors import ProblemError
from elastream.spark.taxi.grid import CELLS, cell_centre

__all__ = ["COLUMNS", "MadeTrips", "make_trips", "schema"]

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
"""So many cells attract trips."""
_PHASE_S = 1200.0
"""How long the same routes are the busiest."""
_LIES = 0.02
"""Share of rows with a place that cannot be."""


def schema() -> str:
    """Return the columns as Spark's readers take them."""
    return ", ".join(f"{name} {kind}" for name, kind in COLUMNS)


@dataclass(frozen=True, slots=True)
class MadeTrips:
    """What trips shall be made; checked when made."""

    seed: int = 1
    seconds: float = 7200.0
    """Span of the arrivals."""
    trips_a_minute: float = 180.0

    def __post_init__(self) -> None:
        count("seed", self.seed)
        for name in ("seconds", "trips_a_minute"):
            if amount(name, getattr(self, name)) == 0:
                raise ProblemError(name, "0 is not positive")


def make_trips(trips: MadeTrips, path: Path) -> int:
    """Write the trips to a file and return how many; equal settings give equal files."""
    rows = list(_rows(trips))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return len(rows)


def _rows(trips: MadeTrips) -> Iterator[tuple[str, ...]]:
    random = np.random.default_rng(trips.seed)
    number = round(trips.seconds / 60 * trips.trips_a_minute)
    arrivals = np.sort(random.uniform(0, trips.seconds, number)).astype(int)
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
