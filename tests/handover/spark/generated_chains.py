"""Handovers of generated chains: ``python -m tests.handover.spark.generated_chains N``.

As :mod:`tests.handover.spark.generated`, for queries with several windows: windows over a join,
over windows and over deduplication, sessions, deduplication alone, timers of the user's own.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.handover.spark.chains import (
    Made,
    counts_without_copies,
    first_seen,
    greatest_of_sums,
    sessions,
    sums_over_a_join,
    timed_totals,
)
from tests.handover.spark.generated import Generated, run_generated
from tests.handover.spark.handing import START_MS

from elastream_lab.applications.readings.source import Readings

KINDS = ("join", "windows", "copies", "sessions", "first seen", "copies within", "timers")


def generated_chain(seed: int, folder: Path) -> Generated:
    """One of the kinds, in turn, with sizes and a stream of its own."""
    dice = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    gap_ms = dice.choice([1, 4, 25])
    made = Readings(
        START_MS,
        rows=500 if kind == "join" else 900,
        gap_ms=gap_ms,
        seed=seed,
        places=dice.choice([2, 8]),
        late_ms=dice.choice([0, 7]),
        clock=str(folder / "clock"),
    )
    slide = gap_ms * dice.randint(2, 20)
    length = slide * dice.randint(1, 3) - dice.choice([0, 0, gap_ms])
    slide = min(slide, length)
    query, expected = _query(kind, made, dice, length, slide)
    return query, expected, made


def _query(kind: str, made: Readings, dice: random.Random, length: int, slide: int) -> Made:
    gap_ms = made.gap_ms
    if kind == "join":
        return sums_over_a_join(made, gap_ms * dice.randint(1, 20), length, slide)
    if kind == "windows":
        return greatest_of_sums(made, gap_ms * dice.randint(1, 10), length, slide)
    if kind in ("copies", "copies within"):
        return counts_without_copies(made, length, slide, within=kind == "copies within")
    if kind == "sessions":
        return sessions(made, gap_ms * dice.randint(1, 12))
    if kind == "first seen":
        return first_seen(made, length)
    return timed_totals(made, length)


if __name__ == "__main__":
    sys.exit(run_generated(sys.argv[1], generated_chain))
