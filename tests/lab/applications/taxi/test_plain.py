from __future__ import annotations

import gzip
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastream.model.errors import ProblemError
from elastream_lab.applications.taxi.grid import route_of
from elastream_lab.applications.taxi.plain import BEST, LENGTH_S, SLIDE_S, differing, plain_rankings
from elastream_lab.applications.taxi.recorded_trips import TimeSlice, record_trips
from elastream_lab.applications.taxi.trips import MadeTrips, Trip, closing_trip, make_trips, parsed

START_S = 1_357_000_000 - 1_357_000_000 % SLIDE_S
trips = st.lists(
    st.builds(
        Trip,
        st.integers(0, 5000).map(lambda second: START_S + second),
        st.none() | st.sampled_from([f"1.{number}-2.2" for number in range(14)]),
    ),
    max_size=60,
).map(lambda each: sorted(each, key=lambda trip: trip.at_s))


@given(trips)
@settings(max_examples=40)
def test_every_minute_is_ranked_by_its_last_half_hour_counted_anew(known: list[Trip]) -> None:
    found = plain_rankings(known)
    for end in range(START_S, START_S + 5000 + LENGTH_S + 2 * SLIDE_S, SLIDE_S):
        within = [t for t in known if t.route is not None and end - LENGTH_S <= t.at_s < end]
        counts = Counter(trip.route for trip in within)
        last = {trip.route: trip.at_s for trip in within}
        order = sorted(counts, key=lambda route: (-counts[route], -last[route], route or ""))
        expected = tuple((counts[route], last[route], route) for route in order[:BEST])
        assert tuple(map(tuple, found.get(end, ()))) == expected
    assert differing(found, found) == 0


def test_rankings_that_differ_in_a_minute_are_reported_by_their_number() -> None:
    one = plain_rankings([Trip(START_S, "1.1-2.2")])
    other = plain_rankings([Trip(START_S, "1.1-2.3")])
    assert differing(one, other) == len(one) == LENGTH_S // SLIDE_S
    assert differing(one, {}) == len(one)


def test_a_line_is_a_trip_only_with_all_columns_a_time_and_places() -> None:
    line = closing_trip(START_S)
    assert parsed(line) == Trip(START_S, "150.150-150.150")
    columns = line.split(",")
    for place, value in ((3, "yesterday"), (6, ""), (7, "nan"), (9, "north")):
        wrong = [*columns[:place], value, *columns[place + 1 :]]
        assert parsed(",".join(wrong)) is None
    assert parsed(line + ",more") is None
    assert parsed("") is None


def test_trips_are_due_in_the_order_and_proportion_of_their_ends(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    make_trips(MadeTrips(span_s=600, trips_a_minute=30, seed=1), files[0])
    make_trips(MadeTrips(span_s=600, trips_a_minute=30, seed=2), files[1])
    with files[1].open("a") as file:
        file.write("no,trip\n")
    made = record_trips(files, tmp_path / "trips.arrow", replay_s=20)
    assert (len(made.trips), made.bad_lines, made.recording.rows) == (600, 1, 602)
    assert [trip.at_s for trip in made.trips] == sorted(trip.at_s for trip in made.trips)
    due_ms = made.recording.due_ms
    assert (due_ms[0], *due_ms[-3:]) == (0, 20_000, 20_000, 24_000)
    half = made.trips[0].at_s + 300
    before = sum(trip.at_s < half for trip in made.trips)
    assert abs(made.recording.rows_due(10_000) - before) < 30


def test_the_trips_that_close_the_last_minutes_are_in_none_that_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    make_trips(MadeTrips(span_s=600, trips_a_minute=30), file)
    made = record_trips([file], tmp_path / "trips.arrow", replay_s=20)
    closing, again = map(
        parsed, next(iter(made.recording.slices(300, 302))).column("text").to_pylist()
    )
    assert closing is not None
    assert again == closing
    assert closing.at_s >= max(plain_rankings(made.trips)), "every minute is over by then"


def test_a_part_of_a_packed_file_is_read_and_no_more(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "a.csv.gz"
    make_trips(MadeTrips(span_s=3600, trips_a_minute=20), plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    whole = record_trips([packed], tmp_path / "whole.arrow", replay_s=20)
    first = datetime.fromtimestamp(whole.trips[0].at_s, UTC)
    since, until = (f"{first + timedelta(minutes=after):%Y-%m-%d %H:%M}" for after in (10, 20))
    part = record_trips(
        [packed], tmp_path / "part.arrow", replay_s=20, part=TimeSlice(since, until)
    )
    low, high = TimeSlice(since, until).bounds_s
    assert part.trips == tuple(trip for trip in whole.trips if low <= trip.at_s < high)
    assert 0 < len(part.trips) < len(whole.trips)
    with pytest.raises(ProblemError, match="none of the 1,200 trips ended in the time"):
        record_trips([plain], tmp_path / "x.arrow", replay_s=1, part=TimeSlice("2030-01-01"))
    with pytest.raises(ProblemError, match="until: 2013-01-01 is not after 2013-01-02"):
        TimeSlice("2013-01-02", "2013-01-01")
    packed.write_bytes(packed.read_bytes()[:100])
    with pytest.raises(ProblemError, match=r"a.csv.gz cannot be read: it is damaged"):
        record_trips([packed], tmp_path / "x.arrow", replay_s=1)


def test_a_swing_makes_the_middle_busier(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    assert make_trips(MadeTrips(span_s=3000, trips_a_minute=40, swing=5), file) == 2000
    at_s = [trip.at_s for line in file.read_text().splitlines() if (trip := parsed(line))]
    counts = Counter((second - min(at_s)) // 600 for second in at_s)
    assert counts[2] > 2.5 * counts[0]
    assert counts[2] > 2.5 * counts[4]


def test_a_file_without_a_trip_is_reported_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("a,b,c\n")
    with pytest.raises(ProblemError, match="its first line has 3 columns, the challenge's have 17"):
        record_trips([file], tmp_path / "trips.arrow", replay_s=1)


def test_the_closing_trip_is_on_the_map() -> None:
    trip = parsed(closing_trip(START_S))
    assert trip is not None
    assert trip.route is not None
    assert route_of((0.0, 0.0), (0.0, 0.0)) is None
