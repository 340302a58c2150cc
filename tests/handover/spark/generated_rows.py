"""Handovers of generated windows of rows: ``python -m tests.handover.spark.generated_rows N``.

As :mod:`tests.handover.spark.generated`: random aggregates over random groups, joins of windows of
rows and windows of rows over a join, with random lengths and slides over random streams, handed
over where the target happens to join.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.handover.spark.generated import Generated, run_generated
from tests.handover.spark.handing import START_MS
from tests.handover.spark.row_queries import (
    GROUPS,
    grouped_windows,
    joined_windows,
    windows_over_a_join,
)

from elastream_lab.applications.readings.source import Readings

KINDS = ("groups", "join", "groups", "chain")


def generated_rows(seed: int, folder: Path) -> Generated:
    """One of the kinds, in turn, with sizes, groups and a stream of its own."""
    dice = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    gap_ms = dice.choice([1, 4, 25])
    made = Readings(
        START_MS,
        rows=500 if kind == "chain" else 900,  # so that no group ends within the origin's windows
        gap_ms=gap_ms,
        seed=seed,
        places=dice.choice([1, 3, 8]),
        late_ms=dice.choice([0, 7, 40]),
        clock=str(folder / "clock"),
    )
    length, slide = (dice.choice([1, dice.randint(1, 6), dice.randint(1, 20)]) for _ in range(2))
    if kind == "groups":
        groups = dice.choice(sorted(GROUPS))
        query, expected = grouped_windows(made, dice, length, slide, groups)
    elif kind == "join":
        groups = dice.choice(sorted(GROUPS))
        length = min(length, 6)
        on_place = dice.random() < 0.5
        query, expected = joined_windows(made, length, slide, groups, on_place=on_place)
    else:
        groups, range_ms = dice.choice(["", "place"]), gap_ms * dice.randint(1, 8)
        query, expected = windows_over_a_join(made, range_ms, length, slide, groups)
    return query, expected, made


if __name__ == "__main__":
    sys.exit(run_generated(sys.argv[1], generated_rows))
