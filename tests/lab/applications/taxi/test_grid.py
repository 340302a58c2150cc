from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from elastream_lab.applications.taxi.grid import CELLS, cell_centre, cell_of, route_of
from elastream_lab.applications.taxi.trips import COLUMNS, MadeTrips, make_trips

cells = st.tuples(st.integers(1, CELLS), st.integers(1, CELLS))


@given(cells)
def test_the_middle_of_a_cell_is_in_it(cell: tuple[int, int]) -> None:
    assert cell_of(*cell_centre(*cell)) == f"{cell[0]}.{cell[1]}"


@given(st.sampled_from([(0, 5), (CELLS + 1, 5), (5, 0), (5, CELLS + 1)]), cells)
def test_off_the_map_there_are_neither_cells_nor_routes(
    outside: tuple[int, int], cell: tuple[int, int]
) -> None:
    place = cell_centre(*outside)
    assert cell_of(*place) is None
    assert route_of(cell_centre(*cell), place) is None


def test_the_challenge_names_the_first_cell() -> None:
    assert cell_of(-74.913585, 41.474937) == "1.1"
    assert cell_of(0.0, 0.0) is None


def test_made_trips_are_the_same_file_for_the_same_seed(tmp_path: Path) -> None:
    files = [tmp_path / name for name in "ab"]
    for file in files:
        make_trips(MadeTrips(seed=3, span_s=300), file)
    rows = [line.split(",") for line in files[0].read_text().splitlines()]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert [row[3] for row in rows] == sorted(row[3] for row in rows), "by time of arrival"
