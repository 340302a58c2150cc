"""The query that takes over: runs from where its inputs are now, and can start at a window.

Plays :class:`~elastream.handover.ports.TargetQuery`. It tells the greatest timestamp of the
batches whose results it dropped, plus lateness and one: any row read tells that rows gone by are
younger by no more than the lateness, and results made of dropped batches alone lie below.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.model.errors import SparkError
from elastream.model.handover import Boundary, Timestamps
from elastream.planners.handover import whole_from
from elastream.spark.handover.gates import TargetGate
from elastream.spark.handover.row_windows import LATE, NUMBER
from elastream.spark.handover.windowed import (
    COORDINATE,
    Sink,
    WindowedQuery,
    WindowedStream,
    highest,
    within,
)
from elastream.whole_files import write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TargetStream"]


class TargetStream(WindowedStream):
    """The query that takes over."""

    def __init__(
        self,
        query: WindowedQuery,
        sink: Sink,
        folder: Path,
        spark: SparkSession,
        *,
        trigger_s: float = 0.5,
    ) -> None:
        super().__init__(query, sink, folder)
        self.gate = TargetGate()
        self._spark, self._trigger_s = spark, trigger_s
        self._newest: dict[int, int] = {}
        self._whole_from: Timestamps | None = None
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Start to read the inputs, from where they are now; put out nothing."""
        self._start(self._spark, from_now=True, trigger_s=self._trigger_s)

    def stop(self) -> None:
        """End the query, also one whose batch waits for a decision."""
        self.gate.abandon()
        super().stop()

    def first_seen(self) -> Timestamps | None:
        """Return from where on every row is seen, once every input gave one."""
        if self.streaming is not None and not self.streaming.isActive:
            raise SparkError(f"the target's query has ended: {self.streaming.exception()}")
        with self._lock:
            return self._whole_from

    def activate(self, boundary: Boundary) -> None:
        """Put out what lies at the boundary or beyond."""
        self.gate.open(boundary)
        if self.streaming is None:  # started again on its checkpoint
            self.connect()

    def disconnect(self) -> None:
        """End the query; nothing is put out."""
        self.gate.close()
        self.stop()

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        progress = self._progress() if number > 0 else None
        if self.gate.boundary is None and progress is not None:
            self._look(progress.get("observedMetrics", {}))
        if self._is_rows:
            return self._chosen_rows(results, number)
        last = highest(results)
        return None if last is None else results.where(within(self.gate.ask(last)))

    def _look(self, observed: dict[str, dict[str, int]]) -> None:
        """Hear from the batch before how far the inputs are; its results were dropped."""
        with self._lock:
            if self._whole_from is not None:
                return
            for i in range(self._query.shape.inputs):
                newest = observed.get(f"input{i}", {}).get("newest")
                if newest is not None:
                    self._newest[i] = max(self._newest.get(i, 0), int(newest))
            if len(self._newest) < self._query.shape.inputs:
                return
            lateness = self._query.shape.lateness
            starts = tuple(whole_from(at, lateness) for _, at in sorted(self._newest.items()))
            self._whole_from = starts
            self.gate.seen(max(self._query.whole_at_window(starts)))

    def _chosen_rows(self, results: DataFrame, number: int) -> DataFrame | None:
        from pyspark.sql import functions as f

        windows = self._windows(results, number)
        if not windows:
            return None
        self.gate.ask(windows[-1][1])
        boundary = self.gate.boundary
        if boundary is None:
            return None
        first = self._first_row(windows, boundary)
        if first is None:
            return None
        slide = int(self._query.shape.window.slide)
        start = first + boundary.discards[0]
        mine = f"{NUMBER} <> {LATE} AND {NUMBER} >= {start} AND ({NUMBER} - {start}) % {slide} = 0"
        shifted = f.col(NUMBER) - start + boundary.activation
        return results.where(mine).withColumn(COORDINATE, shifted).drop(NUMBER)

    def _first_row(self, windows: list[tuple[int, int]], boundary: Boundary) -> int | None:
        """Return the number of the first row at the boundary's time or later; kept in a file."""
        path = self._folder / "first-row.json"
        if path.exists():
            kept: int = json.loads(path.read_text())
            return kept
        found = [number for number, at in windows if at >= boundary.from_timestamps[0]]
        if not found:
            return None
        write_json(path, found[0])
        return found[0]
