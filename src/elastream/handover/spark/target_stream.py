"""The query that takes over: runs from the current end of its inputs, and can start at a window.

It reports the greatest timestamp of the batches whose results it dropped, plus lateness and one:
rows missed before any row read are newer than it by at most the lateness, and results made only of
dropped batches lie below. If its inputs can be read from a time on, it reports that time at once.
The time may be before the origin's position: the boundary is then the origin's next window.

With windows of rows it starts when it owns them, with the row count of each group. Until then a
:class:`Probe` reads the inputs. They are then read from the boundary's time on, even if that has
passed.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import asdict, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.atomic_io import make_folder, write_json
from elastream.handover.ledger import Side
from elastream.handover.model import Boundary, Start, Timestamps
from elastream.handover.point import whole_from
from elastream.handover.spark.gates import TargetGate
from elastream.handover.spark.numbered_rows import TIME, Begin, group_columns
from elastream.handover.spark.origin_stream import OriginStream
from elastream.handover.spark.row_cuts import expect_counts, last_batch
from elastream.handover.spark.sinks import SinkOf
from elastream.handover.spark.windowed import (
    WindowedQuery,
    highest,
    observed,
    seen_by,
    within,
)
from elastream.model.errors import SparkError
from elastream.spark.observe.endings import ending

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class TargetStream(OriginStream):
    """The query that takes over; once it has, it can be handed on."""

    side: Side = "target"

    def __init__(
        self,
        query: WindowedQuery,
        sink: SinkOf,
        folder: Path,
        spark: SparkSession,
        *,
        since_ms: int | None = None,
        trigger_s: float = 0.5,
    ) -> None:
        super().__init__(query, sink, folder)
        self._spark: SparkSession = spark
        self._taking = TargetGate()
        self._since_ms, self._trigger_s = since_ms, trigger_s
        self._seen: dict[int, int] = {}
        self._whole_from: Timestamps | None = None
        self._probe: Probe | None = None
        self._lock = threading.Lock()

    def connect(self) -> None:
        """Start reading the inputs, from their current end or from a time on; write no output."""
        if self._query.rows is not None:
            self._look_ahead()
            return
        start = self._kept_start()
        if start.kind == "time":
            self._report((start.at_ms,) * self._query.shape.inputs)
        self._start(self._spark, start, self._trigger_s)

    def stop(self) -> None:
        """End the query, also one whose batch waits for a decision."""
        self._taking.abandon()
        if self._probe is not None:
            self._probe.stop()
        super().stop()

    def first_seen(self) -> Timestamps | None:
        """Return from when on every row is seen, once every input has delivered one."""
        if self.streaming is not None and not self.streaming.isActive:
            raise SparkError(f"the target's query has ended: {ending(self.streaming.exception())}")
        if self._probe is not None and self._whole_from is None:
            self._note_newest(dict(enumerate(self._probe.newest() or ())))
        with self._lock:
            return self._whole_from

    def expect(self, boundary: Boundary) -> None:
        """Reject a boundary whose row counts per group cannot be read here."""
        rows = self._query.rows
        if rows is not None:
            expect_counts(self._spark, boundary.counts, group_columns(rows.by))

    def activate(self, boundary: Boundary) -> None:
        """Write the output at or beyond the boundary."""
        self._taken = boundary
        self.gate.begin(boundary)
        self._taking.open(boundary)
        if self.streaming is None:
            self._begin()

    def go_on(self) -> None:
        """Start the query again on its checkpoint."""
        self._begin()
        self._is_halted = False

    def disconnect(self) -> None:
        """End the query; no output is written."""
        self._taking.close()
        self.stop()

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        progress = self._progress() if number > 0 else None
        if self._taken is None and progress is not None:
            self._note_newest(seen_by(progress, self._query.shape.inputs))
        last = highest(results)
        lowest = None if last is None else self._taking.ask(last)
        if last is None or lowest is None or last < lowest:
            return None
        return results.where(within(replace(self.gate.ask(last), lowest=lowest)))

    def _note_newest(self, newest: dict[int, int]) -> None:
        """Record how far inputs are, from batches whose results were dropped."""
        with self._lock:
            if self._whole_from is not None:
                return
            for i, at in newest.items():
                self._seen[i] = max(self._seen.get(i, 0), at)
            if len(self._seen) < self._query.shape.inputs:
                return
            lateness = self._query.shape.lateness
            self._report(tuple(whole_from(at, lateness) for _, at in sorted(self._seen.items())))

    def _look_ahead(self) -> None:
        """Determine how far the inputs are, or report from when on they are read."""
        if self._since_ms is not None:
            self._report((self._since_ms,) * self._query.shape.inputs)
            return
        folder = make_folder(self._folder) / "probe"
        shutil.rmtree(folder, ignore_errors=True)
        inputs = self._query.streams(self._spark, Start.now(time.time_ns() // 1_000_000))
        self._probe = Probe(inputs, folder, self._trigger_s)

    def _begin(self) -> None:
        """Start, or start again; windows of rows with the counts of each group before."""
        boundary = self._taken
        if self._query.rows is None or boundary is None:
            self.connect()
            return
        begun = last_batch(self._folder / "checkpoint") is not None
        begin = Begin(boundary.activation, None if begun else boundary.counts)
        reach_ms = max(self._query.whole_at_window((0,)))
        start = Start.at(boundary.activation - reach_ms)
        self._start(self._spark, start, self._trigger_s, begin)
        if self._probe is not None:
            self._probe.stop()

    def _report(self, starts: Timestamps) -> None:
        """Report from when on every row is seen, and let results from there on wait."""
        self._whole_from = starts
        self._taking.seen(max(self._query.whole_at_window(starts)))

    def _kept_start(self) -> Start:
        """Return where the checkpoint started, or starts now: it is fixed from then on."""
        path = make_folder(self._folder) / "start.json"
        if path.exists():
            return Start(**json.loads(path.read_text()))
        now_ms, since_ms = time.time_ns() // 1_000_000, self._since_ms
        start = Start.now(now_ms) if since_ms is None else Start.at(since_ms)
        write_json(path, asdict(start), synced=True)
        return start


class Probe:
    """A stream over the inputs without output, to read how far they are."""

    def __init__(self, inputs: tuple[DataFrame, ...], folder: Path, trigger_s: float) -> None:
        times = [observed(rows, i).select(TIME) for i, rows in enumerate(inputs)]
        writer = reduce(lambda one, other: one.union(other), times).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(folder))
        self._streaming: StreamingQuery = writer.trigger(
            processingTime=f"{trigger_s:g} seconds"
        ).start()
        self._inputs = len(inputs)

    def newest(self) -> list[int] | None:
        """Return the newest time of each input; ``None`` until all have had rows."""
        if not self._streaming.isActive:
            raise SparkError(
                f"the target's inputs have ended: {ending(self._streaming.exception())}"
            )
        newest: dict[int, int] = {}
        for progress in self._streaming.recentProgress:
            for i, at in seen_by(json.loads(progress.json), self._inputs).items():
                newest[i] = max(newest.get(i, at), at)
        if len(newest) < self._inputs:
            return None
        return [newest[i] for i in range(self._inputs)]

    def stop(self) -> None:
        """Stop reading."""
        self._streaming.stop()
