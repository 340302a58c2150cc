"""A windowed query that knows its window, puts each result out once, and can be handed over.

:class:`WindowedQuery` says what the query is; :class:`OriginStream` runs it from its checkpoint and
can stop after a window, :class:`TargetStream` runs it from where its inputs are now and can start
at a window. Both play the roles that the protocol's ports ask for.

Results have a column ``coordinate`` (see :class:`~elastream.model.handover.Boundary`); times are in
milliseconds. Each batch asks its gate, then writes what it may, by its number: a batch that is run
again writes the same once more. A target tells the greatest timestamp of the batches whose results
it dropped, plus lateness and one: any row read tells that rows gone by are younger by no more than
the lateness, and results made of dropped batches alone lie below.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import ProblemError, SparkError
from elastream.model.handover import Boundary, QueryShape, Timestamps
from elastream.planners.handover import expect_near, row_boundary, time_boundary, whole_from
from elastream.spark.handover.gates import OriginGate, Permit, Produced, TargetGate
from elastream.spark.handover.row_windows import NUMBER, STARTS_AT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["COORDINATE", "OriginStream", "Sink", "TargetStream", "WindowedQuery", "json_lines"]

COORDINATE: Final = "coordinate"
_FURTHEST_AHEAD_MS: Final = 86_400_000
"""A target's rows may be a day ahead of an origin that lags; beyond that, clocks disagree."""
_RECENT_ROWS: Final = 100_000
"""Row windows: so many row times are remembered to count back to a target's first."""

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

    def __post_init__(self) -> None:
        window = self.shape.window
        if window.kind == "time" and window.slide > window.length:
            why = f"{window.slide} is above the length, {window.length}; Spark has no such windows"
            raise ProblemError("window.slide", why)
        if window.kind == "rows" and (self.shape.inputs != 1 or self.shape.lateness):
            raise ProblemError("window", "on Spark, rows are counted on one input that is in order")

    def frame(self, spark: SparkSession, *, from_now: bool) -> DataFrame:
        """Return the query, with the newest time of each input observed."""
        from pyspark.sql import functions as f

        inputs = self.inputs(spark, from_now)
        if len(inputs) != self.shape.inputs:
            raise ProblemError(
                "inputs", f"are {len(inputs)} where the shape says {self.shape.inputs}"
            )
        delay = f"{self.shape.lateness} milliseconds"
        newest = f.max(f.unix_millis("at")).alias("newest")
        watched = (
            rows.withWatermark("at", delay).observe(f"input{i}", newest)
            for i, rows in enumerate(inputs)
        )
        return self.results(tuple(watched))


class _Stream:
    """A query under way; every batch goes through ``_chosen``."""

    def __init__(self, query: WindowedQuery, sink: Sink, folder: Path) -> None:
        self._query, self._sink, self._folder = query, sink, folder
        self._started = threading.Event()
        self.streaming: StreamingQuery | None = None

    @property
    def _is_rows(self) -> bool:
        return self._query.shape.window.kind == "rows"

    def _start(self, spark: SparkSession, *, from_now: bool, trigger_s: float) -> None:
        writer = self._query.frame(spark, from_now=from_now).writeStream.outputMode("append")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer = writer.trigger(processingTime=f"{trigger_s:g} seconds")
        self.streaming = writer.foreachBatch(self._batch).start()
        self._started.set()

    def stop(self) -> None:
        """End the query."""
        if self.streaming is not None:
            self.streaming.stop()

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

    def _progress(self) -> dict[str, Any] | None:
        """Return what is known of the batch before, also from within a batch."""
        self._started.wait()
        streaming = self.streaming
        last = None if streaming is None else streaming.lastProgress
        return None if last is None else json.loads(last.json)


class OriginStream(_Stream):
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

    def find_boundary(self, whole_from: Timestamps) -> Boundary | None:
        """Return the boundary and hold back what lies beyond; ``None`` if it is not known yet."""
        window = self._query.shape.window

        newest = self._newest()
        if newest is None:
            return None
        expect_near(whole_from, newest, _FURTHEST_AHEAD_MS)

        def find(produced: int | None) -> Boundary | None:
            if window.kind == "time":
                return time_boundary(window, produced, whole_from)
            counted = self._counted(whole_from[0])
            if counted is None:
                return None
            at, before = counted
            return row_boundary(window, produced, (at,), [before])

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
        del number
        if self._is_rows:
            slide = int(self._query.shape.window.slide)
            self._remember(results)
            results = results.where(f"{NUMBER} % {slide} = 0").withColumnRenamed(NUMBER, COORDINATE)
        highest = _highest(results)
        if highest is None:
            return None
        permit = self.gate.ask(highest)
        self._reached = highest
        return results.where(_within(permit))

    def _batch(self, results: DataFrame, number: int) -> None:
        super()._batch(results, number)
        self._written = self._reached

    def _remember(self, results: DataFrame) -> None:
        rows = results.select(NUMBER, STARTS_AT).collect()
        known = self._row_times[-1][0] if self._row_times else -1
        new = sorted((row[0], row[1]) for row in rows if row[0] > known)
        self._row_times = (self._row_times + new)[-_RECENT_ROWS:]


class TargetStream(_Stream):
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
        if self.gate.boundary is None:
            self._look(number)
        if self._is_rows:
            return self._chosen_rows(results)
        highest = _highest(results)
        return None if highest is None else results.where(_within(self.gate.ask(highest)))

    def _look(self, number: int) -> None:
        """Hear from the batch before how far the inputs are; its results were dropped."""
        with self._lock:
            progress = self._progress() if self._whole_from is None and number > 0 else None
            for i in range(self._query.shape.inputs) if progress else ():
                seen = (progress or {}).get("observedMetrics", {}).get(f"input{i}", {})
                if seen.get("newest") is not None:
                    self._newest[i] = max(self._newest.get(i, 0), int(seen["newest"]))
            if progress is None or len(self._newest) < self._query.shape.inputs:
                return
            lateness = self._query.shape.lateness
            starts = tuple(whole_from(at, lateness) for _, at in sorted(self._newest.items()))
            self._whole_from = starts
            self.gate.seen(None if self._is_rows else max(starts))

    def _chosen_rows(self, results: DataFrame) -> DataFrame | None:
        from pyspark.sql import functions as f

        rows = sorted((row[0], row[1]) for row in results.select(NUMBER, STARTS_AT).collect())
        if not rows:
            return None
        self.gate.ask(rows[-1][0])
        boundary = self.gate.boundary
        if boundary is None:
            return None
        first = self._first_row(rows, boundary)
        if first is None:
            return None
        slide = int(self._query.shape.window.slide)
        start = first + boundary.discards[0]
        own = results.where(f"{NUMBER} >= {start} AND ({NUMBER} - {start}) % {slide} = 0")
        shifted = f.col(NUMBER) - start + boundary.activation
        return own.withColumn(COORDINATE, shifted).drop(NUMBER)

    def _first_row(self, rows: list[tuple[int, int]], boundary: Boundary) -> int | None:
        """Return the number of the first row at the boundary's time or later; kept in a file."""
        path = self._folder / "first-row.json"
        if path.exists():
            kept: int = json.loads(path.read_text())
            return kept
        found = [number for number, at in rows if at >= boundary.from_timestamps[0]]
        if not found:
            return None
        temporary = path.with_name(".first-row.json")
        temporary.write_text(json.dumps(found[0]))
        temporary.replace(path)
        return found[0]


def json_lines(folder: Path) -> Sink:
    """Return a sink that writes a file of JSON lines for each batch with results."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(results: DataFrame, number: int) -> None:
        rows = sorted(json.dumps(row.asDict(), default=str) for row in results.collect())
        if rows:
            path = folder / f"{number:08d}.jsonl"
            temporary = path.with_name(f".{path.name}")
            temporary.write_text("".join(f"{row}\n" for row in rows))
            temporary.replace(path)

    return write


def _highest(results: DataFrame) -> int | None:
    from pyspark.sql import functions as f

    found = results.agg(f.max(COORDINATE)).collect()[0][0]
    return None if found is None else int(found)


def _within(permit: Permit) -> Column:
    from pyspark.sql import functions as f

    coordinate, inside = f.col(COORDINATE), f.lit(True)
    if permit.lowest is not None:
        inside &= coordinate >= permit.lowest
    if permit.below is not None:
        inside &= coordinate < permit.below
    return inside
