"""What does being watched cost? Spans attached without a page, with one, and with one that is read.

The query of :mod:`elastream_lab.benchmarks.overhead`, attached all the time. The three sides take
turns in every round, in another order each, and the CPU time that a batch takes more in the driver
and in Python than without a page is reported as a share of what it takes in all processes. A reader
is a process of its own, as a browser is, which reads all that comes. The goal is at most 1 %.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import elastream
from elastream.spark.sessions.embedded_cluster import embedded_session, scratch_folder
from elastream_lab.benchmarks.overhead import (
    LEAD_BATCHES,
    POLICY,
    Span,
    await_batch,
    measured_cluster,
    print_spans,
    span,
    started,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


Side = Literal["no page", "page closed", "page open"]
_SIDES: Final[tuple[Side, ...]] = ("no page", "page closed", "page open")
_READER: Final = "import sys, urllib.request as u\nfor line in u.urlopen(sys.argv[1]): pass"


def run() -> None:
    """Print what a batch takes on each side, and what being watched adds."""
    with embedded_session(measured_cluster()) as spark:
        folder = scratch_folder(spark)
        query = started(spark, folder)
        await_batch(query, LEAD_BATCHES)
        rounds = [
            {side: _watched(query, folder / "log.jsonl", side) for side in order}
            for order in permutations(_SIDES)
        ]
        query.stop()
    _print(rounds)


def _watched(query: StreamingQuery, log: Path, side: Side) -> Span:
    page = None if side == "no page" else 0
    with elastream.attach(query, POLICY, log=log, page=page) as attachment:
        if side != "page open":
            return span(query)
        with _reader(f"{attachment.page}events"):
            return span(query)


@contextmanager
def _reader(url: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", _READER, url])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _print(rounds: list[dict[Side, Span]]) -> None:
    print_spans(f"{len(rounds)} rounds", {side: [each[side] for each in rounds] for side in _SIDES})
    usual_s = statistics.median(each["no page"].cpu_s.total for each in rounds)
    for side in _SIDES[1:]:
        more = [
            (each[side].cpu_s.attached_to - each["no page"].cpu_s.attached_to) / usual_s
            for each in rounds
        ]
        error = statistics.stdev(more) / len(more) ** 0.5
        print(
            f"{side}: {statistics.mean(more):+.2%} CPU time of all that a batch takes (standard "
            f"error {error:.2%}; goal: at most 1 %)"
        )
