"""The map of the DEBS 2015 challenge: cells of 500 m by 500 m, and routes between them.

Query 1 looks at 300 by 300 cells, about 22,500 km². The challenge fixes the centre of cell 1.1, in
the north-west, and how many degrees 500 m are; cells are numbered eastwards, then southwards. A
route is the cell where a trip starts and the cell where it ends.
"""

from __future__ import annotations

import math

CELLS = 300
"""Cells in a row, and rows."""
SOUTH_STEP = 0.004491556
"""500 m southwards, in degrees of latitude."""
EAST_STEP = 0.005986
"""500 m eastwards, in degrees of longitude."""
NORTH = 41.474937 + SOUTH_STEP / 2
"""Latitude of the northern edge."""
WEST = -74.913585 - EAST_STEP / 2
"""Longitude of the western edge."""


def cell_of(longitude: float, latitude: float) -> str | None:
    """Return the cell of a place as ``east.south``, both from 1; ``None`` off the map."""
    east = math.floor((longitude - WEST) / EAST_STEP) + 1
    south = math.floor((NORTH - latitude) / SOUTH_STEP) + 1
    if not (1 <= east <= CELLS and 1 <= south <= CELLS):
        return None
    return f"{east}.{south}"


def cell_centre(east: int, south: int) -> tuple[float, float]:
    """Return longitude and latitude of the middle of a cell."""
    return WEST + (east - 0.5) * EAST_STEP, NORTH - (south - 0.5) * SOUTH_STEP


def route_of(start: tuple[float, float], end: tuple[float, float]) -> str | None:
    """Return ``cell-cell`` for two places, longitude first; ``None`` where one is off the map."""
    cells = cell_of(*start), cell_of(*end)
    return None if None in cells else "-".join(str(cell) for cell in cells)
