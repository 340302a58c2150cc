"""A windowed query that knows its window, writes each result once, and can be handed over.

:class:`WindowedQuery` defines the query. An ``OriginStream`` runs it from its checkpoint and can
stop after a window; a ``TargetStream`` runs it from the current end of its inputs and can start at
a window. Results have a column ``coordinate`` (see :class:`~elastream.handover.model.Boundary`);
times are in milliseconds. Each batch asks its gate, then writes the permitted output under its
number: a batch that is run again writes the same again.

Spark treats a row as late if it is as old as its watermark. The watermark therefore lies one
millisecond further behind than the lateness: a row that is late by exactly that much still counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elastream.handover.ledger import Side
from elastream.handover.model import QueryShape, Start, Timestamps
from elastream.handover.point import WindowOperator, whole_at_controlling
from elastream.handover.spark.gates import Permit
from elastream.handover.spark.numbered_rows import COORDINATE as COORDINATE
from elastream.handover.spark.numbered_rows import LATE, TIME, Begin, numbered_rows
from elastream.handover.spark.row_windows import RowWindowJoin, RowWindows
from elastream.handover.spark.sinks import Sink, SinkOf, Writer, files_sink
from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class WindowedQuery:
    """The query that both applications run."""

    shape: QueryShape
    inputs: Callable[[SparkSession, Start], tuple[DataFrame, ...]]
    """Return the input streams, each with a column ``at``, read from the start that is given."""
    results: Callable[[tuple[DataFrame, ...]], DataFrame | tuple[DataFrame, ...]]
    """Return the results of the inputs; for windows of rows, the rows: two frames for a join."""
    before: tuple[WindowOperator, ...] = ()
    """The windowed operators in front of the controlling one."""
    sink: SinkOf = field(default_factory=files_sink)
    """Where results go; by default to files of JSON in the side's folder."""
    sessions: bool = False
    """The last windows are sessions; the window's length is their gap, its slide is 1."""
    rows: RowWindows | RowWindowJoin | None = None
    """For windows of rows: which rows belong together, and how the result of a window is
    computed."""

    def __post_init__(self) -> None:
        window = self.shape.window
        if window.kind == "rows" and self.rows is None:
            why = "of rows needs rows=RowWindows(...), which says what is made of a window"
            raise ProblemError("window", why)
        if window.kind == "time" and self.rows is not None:
            raise ProblemError("rows", "are for a window of rows, and this is one of time")
        if any(each.window.kind == "rows" for each in self.before):
            why = "on Spark, a window of rows is the last of several windows"
            raise ProblemError("before", why)
        if self.sessions and (window.kind, window.slide) != ("time", 1):
            raise ProblemError(
                "window", "of sessions is one of time with a slide of 1: they may begin at any time"
            )

    def frame(
        self, spark: SparkSession, start: Start | None = None, begin: Begin | None = None
    ) -> DataFrame:
        """Return the query, from all rows or from a start on, with the newest times observed.

        For windows of rows these are the rows of complete windows; :meth:`made` continues from
        there.
        """
        delay = f"{self.shape.lateness + 1} milliseconds"
        watched = (
            observed(rows.withWatermark(TIME, delay), i)
            for i, rows in enumerate(self.streams(spark, start or Start.first()))
        )
        results = self.results(tuple(watched))
        frames = results if isinstance(results, tuple) else (results,)
        needed = 1 if self.rows is None else self.rows.frames
        if len(frames) != needed:
            raise ProblemError("results", f"are {len(frames)} frames where {needed} are needed")
        if self.rows is None:
            return frames[0]
        return numbered_rows(
            frames,
            self.shape.window,
            by=self.rows.by,
            order=self.rows.order,
            reach_ms=self.rows.reach_ms,
            begin=begin,
        )

    def made(self, results: DataFrame) -> DataFrame:
        """Return the output for the frame of a batch."""
        return results if self.rows is None else self.rows.made(results, self.shape.window)

    def streams(self, spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        """Return the inputs, in the number that the shape defines."""
        inputs = self.inputs(spark, start)
        if len(inputs) != self.shape.inputs:
            raise ProblemError(
                "inputs", f"are {len(inputs)} where the shape says {self.shape.inputs}"
            )
        return inputs

    def whole_at_window(self, starts: Timestamps) -> Timestamps:
        """Return from when on the controlling window gets every row, given where inputs start."""
        if not self.before and not self.sessions:
            return starts
        whole = whole_at_controlling(starts, self.before)
        if self.sessions:  # one that seems to begin here may have begun a gap before
            whole += int(self.shape.window.length)
        return (whole,) * len(starts)

    @property
    def settled_ms(self) -> int:
        """How far the watermark must be past a window's start for it to be written.

        Spark delays the watermark of what follows an operator, by a join's range at most. A window
        with a gap behind it is one of Spark's up to the next.
        """
        window = self.shape.window
        lengths = (int(each.window.length) + 1 for each in self.before)
        return int(max(window.length, window.slide)) + sum(lengths) + 1


class WindowedStream:
    """A query under way; every batch goes through ``_chosen``."""

    side: Side

    def __init__(self, query: WindowedQuery, sink: SinkOf, folder: Path) -> None:
        self._query, self._sink_of, self._folder = query, sink, folder
        self._sink: Sink
        self._started = threading.Event()
        self._late_before, self._late_batch, self._late_in_batch = 0, -1, 0
        self.streaming: StreamingQuery | None = None
        self.name: str | None = None
        """What Spark calls the query: its logs and metrics do too."""

    @property
    def late_rows(self) -> int:
        """Number of rows dropped because they were later than allowed, by Spark's count."""
        return self._late_before + self._late_in_batch

    @property
    def has_ended(self) -> bool:
        """Whether the query was started and has ended."""
        return self.streaming is not None and not self.streaming.isActive

    def stop(self) -> None:
        """End the query."""
        if self.streaming is not None:
            self.streaming.stop()

    def _start(
        self, spark: SparkSession, start: Start, trigger_s: float, begin: Begin | None = None
    ) -> None:
        writer = self._query.frame(spark, start, begin).writeStream.outputMode("append")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer = writer.trigger(processingTime=f"{trigger_s:g} seconds")
        if self.name is not None:
            writer = writer.queryName(self.name)
        self.streaming = writer.foreachBatch(self._batch).start()
        self._sink = self._sink_of(Writer(self.side, str(self.streaming.id), self._folder))
        self._started.set()

    def _batch(self, results: DataFrame, number: int) -> None:
        results = self._query.made(results).persist()
        try:
            chosen = self._chosen(results, number)
            if chosen is not None:
                self._write(chosen, number)
        finally:
            results.unpersist()

    def _write(self, results: DataFrame, number: int) -> None:
        self._started.wait()
        self._sink(results, number)

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        raise NotImplementedError

    def _progress(self) -> dict[str, Any] | None:
        """Return the progress of the previous batch, also from within a batch."""
        self._started.wait()
        streaming = self.streaming
        last = None if streaming is None else streaming.lastProgress
        if last is None:
            return None
        progress: dict[str, Any] = json.loads(last.json)
        operators = progress.get("stateOperators", ())
        dropped = sum(each.get("numRowsDroppedByWatermark", 0) for each in operators)
        dropped += progress.get("observedMetrics", {}).get(LATE, {}).get(LATE) or 0
        if progress["batchId"] != self._late_batch:  # a batch may be reported more than once
            self._late_before += self._late_in_batch
        self._late_batch, self._late_in_batch = progress["batchId"], dropped
        return progress


def observed(rows: DataFrame, i: int) -> DataFrame:
    """Return an input whose newest time is reported in each batch's progress."""
    from pyspark.sql import functions as f

    return rows.observe(f"input{i}", f.max(f.unix_millis(TIME)).alias("newest"))


def seen_by(progress: dict[str, Any], inputs: int) -> dict[int, int]:
    """Return the newest time of each input that had rows in the batch."""
    observed = progress.get("observedMetrics", {})
    newest = {i: observed.get(f"input{i}", {}).get("newest") for i in range(inputs)}
    return {i: int(at) for i, at in newest.items() if at is not None}


def highest(results: DataFrame) -> int | None:
    """Return the greatest coordinate of the results; ``None`` if there are none."""
    from pyspark.sql import functions as f

    found = results.agg(f.max(COORDINATE)).first()
    return None if found is None or found[0] is None else int(found[0])


def within(permit: Permit) -> Column:
    """Return the condition that a result's coordinate may be written."""
    from pyspark.sql import functions as f

    coordinate, inside = f.col(COORDINATE), f.lit(True)
    if permit.lowest is not None:
        inside &= coordinate >= permit.lowest
    if permit.below is not None:
        inside &= coordinate < permit.below
    return inside
