"""A windowed query that knows its window, puts each result out once, and can be handed over.

:class:`WindowedQuery` says what the query is. :class:`~elastream.spark.handover.origin_stream.
OriginStream` runs it from its checkpoint and can stop after a window,
:class:`~elastream.spark.handover.target_stream.TargetStream` runs it from where its inputs are now
and can start at a window. Both play the roles that the protocol's ports ask for.

Results have a column ``coordinate`` (see :class:`~elastream.model.handover.Boundary`), those of row
windows a ``number`` instead; times are in milliseconds. Each batch asks its gate, then writes what
it may, by its number: a batch that is run again writes the same once more.

Spark takes a row for late that is as old as its watermark. The watermark therefore lies one
millisecond further behind than the lateness: a row that is late by exactly that much still counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import ProblemError
from elastream.model.handover import QueryShape, Timestamps
from elastream.planners.handover import WindowOperator, whole_at_controlling
from elastream.spark.handover.gates import Permit
from elastream.spark.handover.row_windows import LATE, NUMBER, STARTS_AT
from elastream.whole_files import write_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "COORDINATE",
    "Sink",
    "WindowedQuery",
    "WindowedStream",
    "highest",
    "json_lines",
    "within",
]

COORDINATE: Final = "coordinate"

Sink = Callable[["DataFrame", int], None]
"""Writes the results of a batch; the same batch may come again and replaces what it wrote."""


@dataclass(frozen=True, slots=True)
class WindowedQuery:
    """What both applications run."""

    shape: QueryShape
    inputs: Callable[[SparkSession, bool], tuple[DataFrame, ...]]
    """Return the input streams, each with a column ``at``; from now on where the flag is set."""
    results: Callable[[tuple[DataFrame, ...]], DataFrame]
    """Return the results of the inputs."""
    before: tuple[WindowOperator, ...] = ()
    """The windowed operators in front of the controlling one."""

    def __post_init__(self) -> None:
        window = self.shape.window
        if window.kind == "time" and window.slide > window.length:
            why = f"{window.slide} is above the length, {window.length}; Spark has no such windows"
            raise ProblemError("window.slide", why)
        if window.kind == "rows" and self.shape.inputs != 1 and not self.before:
            why = "on Spark, rows are counted on one input or on the results of a join"
            raise ProblemError("window", f"{why}, not on {self.shape.inputs} inputs")
        if window.kind == "time" and self.before:
            raise ProblemError("before", "on Spark, the last of several windows is one of rows")

    def frame(self, spark: SparkSession, *, from_now: bool) -> DataFrame:
        """Return the query, with the newest time of each input observed."""
        from pyspark.sql import functions as f

        inputs = self.inputs(spark, from_now)
        if len(inputs) != self.shape.inputs:
            raise ProblemError(
                "inputs", f"are {len(inputs)} where the shape says {self.shape.inputs}"
            )
        delay = f"{self.shape.lateness + 1} milliseconds"
        newest = f.max(f.unix_millis("at")).alias("newest")
        watched = (
            rows.withWatermark("at", delay).observe(f"input{i}", newest)
            for i, rows in enumerate(inputs)
        )
        return self.results(tuple(watched))

    def whole_at_window(self, starts: Timestamps) -> Timestamps:
        """Return from where on the controlling window gets everything, given where inputs start."""
        if not self.before:
            return starts
        return (whole_at_controlling(starts, self.before),) * len(starts)


class LateRows:
    """Counts rows that came too late; a batch may be told more than once, the last word counts."""

    def __init__(self) -> None:
        self._before = 0
        """Of all batches before the one told last."""
        self._batch: int | None = None
        self._rows = 0

    @property
    def total(self) -> int:
        """How many there were so far."""
        return self._before + self._rows

    def told(self, batch: int, rows: int) -> None:
        """Take in that a batch, the same as before or a later one, had so many."""
        if batch != self._batch:
            self._before += self._rows
        self._batch, self._rows = batch, rows


class WindowedStream:
    """A query under way; every batch goes through ``_chosen``."""

    def __init__(self, query: WindowedQuery, sink: Sink, folder: Path) -> None:
        self._query, self._sink, self._folder = query, sink, folder
        self._started = threading.Event()
        self._late = LateRows()
        self.streaming: StreamingQuery | None = None

    @property
    def late_rows(self) -> int:
        """How many rows came later than the lateness allows and were dropped, as Spark counts."""
        return self._late.total

    def stop(self) -> None:
        """End the query."""
        if self.streaming is not None:
            self.streaming.stop()

    @property
    def _is_rows(self) -> bool:
        return self._query.shape.window.kind == "rows"

    def _start(self, spark: SparkSession, *, from_now: bool, trigger_s: float) -> None:
        writer = self._query.frame(spark, from_now=from_now).writeStream.outputMode("append")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer = writer.trigger(processingTime=f"{trigger_s:g} seconds")
        self.streaming = writer.foreachBatch(self._batch).start()
        self._started.set()

    def _batch(self, results: DataFrame, number: int) -> None:
        results.persist()
        try:
            chosen = self._chosen(results, number)
            if chosen is not None:
                self._sink(chosen, number)
        finally:
            results.unpersist()

    def _chosen(self, results: DataFrame, number: int) -> DataFrame | None:
        raise NotImplementedError

    def _windows(self, results: DataFrame, number: int) -> list[tuple[int, int]]:
        """Return number and first timestamp of the row windows of a batch, in order."""
        rows = [(row[0], row[1]) for row in results.select(NUMBER, STARTS_AT).collect()]
        self._late.told(number, sum(row[0] == LATE for row in rows))
        return sorted(row for row in rows if row[0] != LATE)

    def _progress(self) -> dict[str, Any] | None:
        """Return what is known of the batch before, also from within a batch."""
        self._started.wait()
        streaming = self.streaming
        last = None if streaming is None else streaming.lastProgress
        if last is None:
            return None
        told: dict[str, Any] = json.loads(last.json)
        if not self._is_rows:
            operators = told.get("stateOperators", ())
            dropped = sum(each.get("numRowsDroppedByWatermark", 0) for each in operators)
            self._late.told(told["batchId"], dropped)
        return told


def json_lines(folder: Path) -> Sink:
    """Return a sink that writes a file of JSON lines for each batch with results."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(results: DataFrame, number: int) -> None:
        rows = sorted(json.dumps(row.asDict(), default=str) for row in results.collect())
        if rows:
            write_text(folder / f"{number:08d}.jsonl", "".join(f"{row}\n" for row in rows))

    return write


def highest(results: DataFrame) -> int | None:
    """Return the greatest coordinate of the results; ``None`` where there are none."""
    from pyspark.sql import functions as f

    found = results.agg(f.max(COORDINATE)).collect()[0][0]
    return None if found is None else int(found)


def within(permit: Permit) -> Column:
    """Return the condition that a result's coordinate is one that may be put out."""
    from pyspark.sql import functions as f

    coordinate, inside = f.col(COORDINATE), f.lit(True)
    if permit.lowest is not None:
        inside &= coordinate >= permit.lowest
    if permit.below is not None:
        inside &= coordinate < permit.below
    return inside
