"""Queries for ``elastream handover``: the clock of their readings is named by the environment."""

from __future__ import annotations

import os

from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import START_MS

from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.queries import (
    joined_readings,
    pair_sums,
    row_sums,
)
from elastream_lab.applications.readings.source import Readings

CLOCK = "HANDOVER_CLOCK"


def readings() -> Readings:
    return Readings(START_MS, rows=1500, gap_ms=40, places=4, clock=os.environ[CLOCK])


def sums() -> WindowedQuery:
    return grouped_sums(readings(), length_ms=3000, slide_ms=1000)


def changed_sums() -> WindowedQuery:
    """A later version of ``sums``: one more column, and a state that no checkpoint of it fits."""
    return grouped_sums(readings(), length_ms=3000, slide_ms=1000, utmost=True)


def q1() -> WindowedQuery:
    return joined_readings(readings(), length_ms=800)


def q2() -> WindowedQuery:
    return row_sums(readings(), length=5, slide=2)


def q3() -> WindowedQuery:
    return pair_sums(readings(), range_ms=800, length=5, slide=2)
