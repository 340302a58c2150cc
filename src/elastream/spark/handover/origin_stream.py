"""The query that is handed over: runs from its checkpoint, and can stop after a window.

Plays :class:`~elastream.handover.ports.OriginQuery`. What an application that starts again
must not offer anew, the greatest coordinate put out, is in a file beside the checkpoint.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.handover import Boundary, Timestamps
from elastream.planners.handover import expect_near, row_boundary, time_boundary
from elastream.spark.handover.gates import OriginGate, Produced
from elastream.spark.handover.row_windows import LATE, NUMBER
from elastream.spark.handover.windowed import (
    COORDINATE,
    Sink,
    WindowedQuery,
    WindowedStream,
    highest,
    within,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OriginStream"]

_FURTHEST_AHEAD_MS: Final = 86_400_000
"""A target's rows may be a day ahead of an origin that lags; beyond that, clocks disagree."""
_RECENT_ROWS: Final = 100_000
"""Row windows: so many row times are remembered to count back to a target's first."""


class OriginStream(WindowedStream):
    """The query that is handed over."""

    def __init__(self, query: WindowedQuery, sink: Sink, folder: Path) -> None:
        super().__init__(query, sink, folder)
        self.gate = OriginGate(Produced(folder / "produced.json"))
        self._row_times: list[tuple[int, int]] = []
        self._end: Boundary | None = None
        self._newest_ms: int | None = None
        self._reached: int | None = None
        self._written: int | None = None

    def start(self, spark: SparkSession, *, trigger_s: float = 0.5) -> None:
        """Start the query, or go on with it where its checkpoint ends."""
        self._start(spark, from_now=False, trigger_s=trigger_s)

    def stop(self) -> None:
        """End the query, also one whose batch waits for a decision."""
        self.gate.abandon()
        super().stop()

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back what lies beyond; ``None`` if it is not known yet."""
        newest = self._newest()
        if newest is None:
            return None
        expect_near(whole_from, newest, _FURTHEST_AHEAD_MS)
        window, starts = self._query.shape.window, self._query.whole_at_window(whole_from)

        def find(produced: int | None) -> Boundary | None:
            if window.kind == "time":
                return time_boundary(window, produced, starts)
            counted = self._counted(max(starts))
            if counted is None:
                return None
            at, before = counted
            inputs = len(starts)
            return row_boundary(window, produced, (at,) * inputs, (before,) * inputs)

        return self.gate.offer(find)

    def release(self) -> None:
        """Put out what was held back."""
        self.gate.release()

    def stop_after(self, boundary: Boundary) -> None:
        """Put out what lies below the boundary and drop the rest."""
        self._end = boundary
        self.gate.end(boundary)

    def is_finished(self) -> bool:
        """Tell whether a batch has put out the last window."""
        if self._end is None:
            return False
        if self._is_rows:
            return self._written is not None and self._written >= self._end.migration
        progress = self._progress() or {}
        watermark = progress.get("eventTime", {}).get("watermark")
        if watermark is None:
            return False
        passed_ms = datetime.fromisoformat(watermark).timestamp() * 1000
        return passed_ms >= self._end.migration + int(self._query.shape.window.length)

    def _newest(self) -> int | None:
        """Return the newest time of any input in the batch before; ``None`` if it had no rows."""
        observed = (self._progress() or {}).get("observedMetrics", {})
        seen = [each.get("newest") for each in observed.values()]
        self._newest_ms = max(
            (at for at in (*seen, self._newest_ms) if at is not None), default=None
        )
        return self._newest_ms

    def _counted(self, at: int) -> tuple[int, int] | None:
        """Return a time no earlier, and how many rows come before it; ``None`` until known."""
        if not self._row_times:
            return None
        at = max(at, self._row_times[0][1] + 1)
        return next(((at, number) for number, when in self._row_times if when >= at), None)

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        if self._is_rows:
            slide = int(self._query.shape.window.slide)
            starts = [start for start in self._counted_on(results, number) if start % slide == 0]
            last = max(starts, default=None)
            own = results.where(f"{NUMBER} <> {LATE} AND {NUMBER} % {slide} = 0")
            results = own.withColumnRenamed(NUMBER, COORDINATE)
        else:
            self._progress()  # counts the late rows
            last = highest(results)
        if last is None:
            return None
        permit = self.gate.ask(last)
        self._reached = last
        return results.where(within(permit))

    def _batch(self, results: DataFrame, number: int) -> None:
        super()._batch(results, number)
        self._written = self._reached

    def _counted_on(self, results: DataFrame, number: int) -> list[int]:
        """Remember when the rows were, and return the numbers of the batch."""
        windows = self._windows(results, number)
        known = self._row_times[-1][0] if self._row_times else -1
        new = [window for window in windows if window[0] > known]
        self._row_times = (self._row_times + new)[-_RECENT_ROWS:]
        return [start for start, _ in windows]
