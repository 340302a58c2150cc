"""What a row costs a query that reads batches of a known size without a pause."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream_lab.benchmarks._cpu_time import cpu_times

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_LEAD_BATCHES: Final = 4
BATCHES: Final = 6
"""Batches that are measured, after the first ones."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """What a batch took, and a row, on the clock and in CPU time of the application."""

    batch_ms: float
    wall_us: float
    cpu_us: float

    @classmethod
    def middle(cls, costs: Sequence[RowCost]) -> RowCost:
        """Return the medians."""
        return cls(
            statistics.median(each.batch_ms for each in costs),
            statistics.median(each.wall_us for each in costs),
            statistics.median(each.cpu_us for each in costs),
        )

    def cells(self) -> tuple[str, str, str]:
        """Return them as a table has them."""
        return f"{self.batch_ms:.0f}", f"{self.wall_us:.1f}", f"{self.cpu_us:.1f}"


def row_cost(
    started: Callable[[Path], AbstractContextManager[StreamingQuery]], rows_a_batch: int
) -> RowCost:
    """Start the query in a folder that goes with it, and measure some batches."""
    with (
        tempfile.TemporaryDirectory(prefix="elastream-rows-") as folder,
        started(Path(folder)) as query,
    ):
        first = _await_batch(query, _LEAD_BATCHES)
        began_s, cpu_s = time.monotonic(), cpu_times().spark
        last = _await_batch(query, first + BATCHES)
        took_s, cpu_s = time.monotonic() - began_s, cpu_times().spark - cpu_s
        batches_ms = [
            each.durationMs["triggerExecution"]
            for each in query.recentProgress
            if first < each.batchId <= last
        ]
    rows = rows_a_batch * (last - first)
    return RowCost(statistics.median(batches_ms), 1e6 * took_s / rows, 1e6 * cpu_s / rows)


def _await_batch(query: StreamingQuery, batch: int) -> int:
    """Wait until the progress report of this batch is there; return the last that is."""
    while (last := -1 if (report := query.lastProgress) is None else report.batchId) < batch:
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        time.sleep(0.02)
    return int(last)
