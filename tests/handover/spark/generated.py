"""Handovers over generated windows and streams: ``python -m tests.handover.spark.generated N``.

Runs this many of them, or those named by ``FIRST-LAST``, in a session of its own with ``local[2]``:
each takes seconds there. A line for each; the exit code is 0 if all of them are exact.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.handover.spark.expected import Expected, pair_windows, pairs, row_windows, sums
from tests.handover.spark.grouped_sums import grouped_sums
from tests.handover.spark.handing import START_MS, check_whole, handover, written

from elastream.handover.spark.application_session import application_session
from elastream.handover.spark.windowed import WindowedQuery
from elastream_lab.applications.readings.queries import (
    joined_readings,
    pair_sums,
    row_sums,
)
from elastream_lab.applications.readings.source import Readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Generated = tuple[WindowedQuery, Expected, Readings]
"""The query, what it puts out, and the readings that set its pace."""
Generate = Callable[[int, Path], Generated]


def generated(seed: int, folder: Path) -> Generated:
    """Time windows, a join, row windows and row windows over a join, in turn.

    Sizes from 1 to 50, streams from dense (several readings a millisecond) to sparse, bursts of
    equal timestamps and long gaps in all of them, some out of order, a second input that starts
    with the first or later.
    """
    dice = random.Random(seed)

    def size() -> int:
        return dice.choice([dice.randint(1, 6), dice.randint(1, 50)])

    length, slide, apart = size(), size(), size()
    kind = ("time", "join", "rows", "chain")[seed % 4]
    gap_ms = dice.choice([1, 4, 25, 60])
    if kind in ("join", "chain"):  # readings further apart than the range have no partners
        gap_ms = min(gap_ms, apart)
    made = Readings(
        START_MS,
        rows=500 if kind in ("join", "chain") else 900,
        gap_ms=gap_ms,
        seed=seed,
        places=dice.choice([2, 8]),
        late_ms=dice.choice([0, 0, 7]),
        clock=str(folder / "clock"),
    )
    later_ms = dice.choice([0, 20 * gap_ms])
    if kind == "time":
        slide = min(slide, length)
        query = grouped_sums(made, length_ms=length, slide_ms=slide)
        return query, sums(made, length, slide), made
    if kind == "join":
        query = joined_readings(made, length_ms=apart, later_ms=later_ms)
        return query, pairs(made, apart, later_ms), made
    if kind == "rows":
        query = row_sums(made, length=length, slide=slide)
        return query, row_windows(made, length, slide), made
    length, slide = min(length, 8), min(slide, 8)
    query = pair_sums(made, range_ms=apart, length=length, slide=slide, later_ms=later_ms)
    return query, pair_windows(made, apart, length, slide, later_ms), made


def check_generated(
    spark: SparkSession, seed: int, folder: Path, generate: Generate = generated
) -> str:
    """Hand the query over, compare every result, and return what was done."""
    query, expected, made = generate(seed, folder)
    with handover(spark, query, folder, step_ms=max(2, 10 * made.gap_ms)) as run:
        run.serve()
        run.await_until(lambda: bool(written(folder / "origin-out")))
        check_whole(run, expected)
        own, taken = (written(folder / name).total() for name in ("origin-out", "target-out"))
    window = query.shape.window
    return (
        f"{query.shape.name}: {query.shape.operation}, {window.kind} {window.length}/{window.slide}"
        f", gap {made.gap_ms} ms, lateness {made.late_ms} ms: {own} + {taken} results"
    )


def run_generated(wanted: str, generate: Generate = generated) -> int:
    """Run this many, or those from a first to a last, and return how many failed."""
    first, last = wanted.split("-") if "-" in wanted else ("0", str(int(wanted) - 1))
    failed = 0
    with application_session(master="local[2]", partitions=2) as spark:
        for seed in range(int(first), int(last) + 1):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    report = check_generated(spark, seed, Path(folder), generate)
                except AssertionError:
                    failed += 1
                    report = f"FAILED\n{traceback.format_exc()[-3000:]}"
            print(f"{seed} ({time.monotonic() - began:.0f} s) {report}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(run_generated(sys.argv[1]))
