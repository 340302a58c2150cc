"""The query that is handed over: runs from its checkpoint, and can stop after a window.

The greatest coordinate written, which a restarted application must not offer again, is in a file
next to the checkpoint.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.handover.ledger import Side
from elastream.handover.model import Boundary, Start, Timestamps
from elastream.handover.point import expect_near, not_before, time_boundary
from elastream.handover.spark.gates import OriginGate
from elastream.handover.spark.numbered_rows import Begin
from elastream.handover.spark.row_cuts import RowCuts, last_batch
from elastream.handover.spark.sinks import SinkOf
from elastream.handover.spark.windowed import WindowedQuery, WindowedStream, highest, within
from elastream.model.errors import SparkError
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.observe.endings import ending

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FURTHEST_AHEAD_MS: Final = 86_400_000
"""A target's rows may be a day ahead of an origin that lags; beyond that, clocks disagree."""


_SESSION_START: Final = "sessionStartTime"
"""Spark's name for the start of a session in the keys of its state."""


class OriginStream(WindowedStream):
    """The query that is handed over."""

    side: Side = "origin"

    def __init__(self, query: WindowedQuery, sink: SinkOf, folder: Path) -> None:
        super().__init__(query, sink, folder)
        self.gate = OriginGate(folder / "produced.json")
        self._taken: Boundary | None = None
        self._end: Boundary | None = None
        self._newest_ms: int | None = None
        self._spark: SparkSession | None = None
        self._trigger_s = 0.5
        self._is_halted = False
        self._cuts: RowCuts | None = None
        self._checked_batch: int | None = None

    def start(self, spark: SparkSession, *, trigger_s: float = 0.5) -> None:
        """Start the query, or continue from its checkpoint."""
        self._spark, self._trigger_s = spark, trigger_s
        self._start(spark, Start.first(), trigger_s)

    def _start(
        self, spark: SparkSession, start: Start, trigger_s: float, begin: Begin | None = None
    ) -> None:
        self._close_cuts()
        if self._query.rows is not None:
            self._cuts = RowCuts(spark, self._query, self._folder)
        super()._start(spark, start, trigger_s, begin)

    def stop(self) -> None:
        """End the query, also one whose batch waits for a decision."""
        self.gate.abandon()
        self._close_cuts()
        super().stop()

    @property
    def has_ended(self) -> bool:
        """Whether the query has ended; a halt does not count as an end."""
        return super().has_ended and not self._is_halted

    def halt(self) -> None:
        """End the query between two batches; its checkpoint is complete then."""
        self._is_halted = True
        if self.streaming is not None:
            stop_gracefully(self.streaming)
            failure = self.streaming.exception()
            if failure is not None:
                raise SparkError(f"the query has ended: {ending(failure)}")

    def go_on(self) -> None:
        """Start the query again on its checkpoint."""
        if self._spark is not None:
            self.start(self._spark, trigger_s=self._trigger_s)
        self._is_halted = False

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back output beyond it; ``None`` if it is not known yet."""
        newest = self._newest()
        if newest is None:
            return None
        expect_near(whole_from, newest, _FURTHEST_AHEAD_MS)
        starts = not_before(self._taken, self._query.whole_at_window(whole_from))
        if self._cuts is not None:
            return self._cuts.found(self.gate, starts, self._watermark_ms())
        window = self._query.shape.window
        return self.gate.offer(lambda produced: time_boundary(window, produced, starts))

    def release(self) -> None:
        """Write the output that was held back."""
        if self._cuts is not None:
            self._cuts.forget()
        self.gate.release()

    def stop_after(self, boundary: Boundary) -> None:
        """Write the output below the boundary and drop the rest."""
        self._end = boundary
        self.gate.end(boundary)

    def is_finished(self) -> bool:
        """Return whether a batch has written the last window."""
        if self._end is None:
            return False
        if self._cuts is not None:
            return self._cuts.is_past(self._end)
        passed_ms = self._watermark_ms()
        if passed_ms is None or passed_ms < self._end.migration + self._query.settled_ms:
            return False
        return not self._query.sessions or self._sessions_are_over()

    def _close_cuts(self) -> None:
        if self._cuts is not None:
            self._cuts.close()

    def _watermark_ms(self) -> float | None:
        """Return the watermark of the last batch."""
        watermark = (self._progress() or {}).get("eventTime", {}).get("watermark")
        return None if watermark is None else datetime.fromisoformat(watermark).timestamp() * 1000

    def _sessions_are_over(self) -> bool:
        """Check once per batch whether the state contains a session of ours."""
        checkpoint = self._folder / "checkpoint"
        batch = last_batch(checkpoint)
        if self._spark is None or self._end is None or batch == self._checked_batch:
            return False
        self._checked_batch = batch
        return not open_sessions_before(self._spark, checkpoint, self._end.activation)

    def _newest(self) -> int | None:
        """Return the newest time of any input so far; ``None`` if no recent batch had rows."""
        streaming = self.streaming
        progresses = [] if streaming is None else streaming.recentProgress
        if self._newest_ms is not None:  # older ones are in it already
            progresses = progresses[-1:]
        for progress in progresses:
            observed = json.loads(progress.json).get("observedMetrics", {})
            seen = [each.get("newest") for each in observed.values()]
            known = [at for at in (*seen, self._newest_ms) if at is not None]
            self._newest_ms = max(known, default=None)
        return self._newest_ms

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        del number
        self._progress()  # counts the late rows
        last = highest(results)
        return None if last is None else results.where(within(self.gate.ask(last)))


def open_sessions_before(spark: SparkSession, checkpoint: Path, at_ms: int) -> bool:
    """Return whether a session that started before then is open after the last committed batch.

    A session ends when its key has been silent for a gap, so the watermark alone does not show that
    the last one is written. Spark keeps each open session under its start.
    """
    from pyspark.sql import functions as f

    metadata = spark.read.format("state-metadata").load(str(checkpoint))
    operators = [
        row["operatorId"]
        for row in metadata.select("operatorId", "operatorName").distinct().collect()
        if "session" in row["operatorName"].lower()
    ]
    for operator in operators:
        state = spark.read.format("statestore").option("operatorId", operator)
        keys = state.load(str(checkpoint)).select("key.*")
        if keys.where(f.unix_millis(_SESSION_START) < at_ms).limit(1).count():
            return True
    return False
