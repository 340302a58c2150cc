"""The reference application against a computation in plain Python."""

from __future__ import annotations

import csv
import os
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from elastream_lab.applications.taxi.frequent_routes import BEST, frequent_routes
from elastream_lab.applications.taxi.grid import route_of
from elastream_lab.applications.taxi.trips import MadeTrips, make_trips, schema

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Ranking = list[tuple[int, datetime, str]]
MINUTE = timedelta(minutes=1)


def plain_rankings(trips: Path) -> dict[datetime, Ranking]:
    """The best routes of every minute in which some trip of the last 30 is known."""
    arrived: list[tuple[datetime, str]] = []
    with trips.open(newline="") as file:
        for row in csv.reader(file):
            pickup, dropoff = (
                (float(row[6]), float(row[7])),
                (float(row[8]), float(row[9])),
            )
            route = route_of(pickup, dropoff)
            if route is not None:
                arrived.append((datetime.fromisoformat(row[3]), route))
    first, last = (at.replace(second=0) for at in (arrived[0][0], arrived[-1][0]))
    rankings = {}
    end = first + MINUTE
    while end <= last + 30 * MINUTE:
        known = [(at, route) for at, route in arrived if end - 30 * MINUTE <= at < end]
        trips_of = Counter(route for _, route in known)
        latest = dict(sorted((route, at) for at, route in known))
        best = sorted(trips_of, key=lambda r: (-trips_of[r], -latest[r].timestamp(), r))[:BEST]
        rankings[end] = [(trips_of[route], latest[route], route) for route in best]
        end += MINUTE
    return rankings


def found(rows: list[Row]) -> dict[datetime, Ranking]:
    assert len({row["minute"] for row in rows}) == len(rows), "a minute is reported twice"
    return {
        row["minute"]: [
            (entry["trips"], datetime.fromtimestamp(entry["latest"]), entry["route"])
            for entry in row["best"]
        ]
        for row in rows
    }


@pytest.mark.slow
def test_every_ranking_of_the_stream_equals_the_plain_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = tmp_path / "trips.csv"
    assert make_trips(MadeTrips(span_s=3000, trips_a_minute=16), whole) == 800
    folder = tmp_path / "parts"
    folder.mkdir()
    lines = whole.read_text().splitlines(keepends=True)
    for part in range(4):
        file = folder / f"{part}.csv"
        file.write_text("".join(lines[part * 200 : part * 200 + 200]))
        os.utime(file, (part, part))  # they are read in the order of these times
    reader = spark.readStream.schema(schema()).option("maxFilesPerTrigger", 1)
    rows: list[Row] = []
    query = (
        frequent_routes(reader.csv(str(folder)))
        .writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    expected = plain_rankings(whole)
    streamed = found(rows)
    assert streamed == {minute: expected[minute] for minute in streamed}
    assert len(streamed) >= 45, "all minutes but those the watermark still holds are reported"


@pytest.mark.slow
def test_a_table_is_ranked_as_the_stream_is(spark: SparkSession, tmp_path: Path) -> None:
    trips = tmp_path / "trips.csv"
    make_trips(MadeTrips(seed=2, span_s=600, trips_a_minute=60), trips)
    table = spark.read.schema(schema()).csv(str(trips))
    assert found(frequent_routes(table).collect()) == plain_rankings(trips)
