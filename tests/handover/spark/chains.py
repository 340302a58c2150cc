"""Queries with several windows, sessions, deduplication and timers, and what they put out.

Each is computed a second time in plain Python over the same readings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tests.handover.spark.expected import SLACK_MS, Expected, Result

from elastream.handover.model import QueryShape, Start, Window
from elastream.handover.point import WindowOperator
from elastream.handover.spark.windowed import COORDINATE, WindowedQuery
from elastream_lab.applications.readings.queries import both_streams
from elastream_lab.applications.readings.source import Readings, readings_stream

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Made = tuple[WindowedQuery, Expected]


def sums_over_a_join(made: Readings, range_ms: int, length: int, slide: int) -> Made:
    """Windows over the pairs of two streams, by the time of the first stream's reading."""
    both = both_streams(made)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        left, right = (
            rows.select(*(f.col(name).alias(f"{side}_{name}") for name in rows.columns))
            for rows, side in zip(inputs, "st", strict=True)
        )
        reach = f.expr(f"INTERVAL {range_ms / 1000:.3f} SECONDS")
        near = (f.col("s_at") > f.col("t_at") - reach) & (f.col("s_at") < f.col("t_at") + reach)
        pairs = left.join(right, (f.col("s_place") == f.col("t_place")) & near)
        return _summed(pairs, "s_at", length, slide, "s_place", "t_measure")

    shape = QueryShape("sums over pairs", Window.of("time", length, slide), 2, "sum", made.late_ms)
    before = (WindowOperator(Window.of("time", range_ms, 1), earliest=False),)
    streams = [each.all() for each in both]
    found = [
        (s[1], s[2], t[3])
        for s in streams[0]
        for t in streams[1]
        if s[2] == t[2] and abs(s[1] - t[1]) < range_ms
    ]
    newest = min(max(row[1] for row in rows) for rows in streams) - made.late_ms - 1
    query = WindowedQuery(shape, _inputs(both), results, before)
    return query, _windows(found, length, slide, newest, newest - range_ms)


def greatest_of_sums(made: Readings, short: int, length: int, slide: int) -> Made:
    """Windows over the sums of shorter windows: how many there were, and their total."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        span = f.window("at", f"{short} milliseconds").alias("short")
        sums = inputs[0].groupBy(span, "place").agg(f.sum("measure").alias("measure"))
        timed = sums.select(f.window_time("short").alias("at"), "place", "measure")
        return _summed(timed, "at", length, slide, "place", "measure")

    shape = QueryShape("sums of sums", Window.of("time", length, slide), 1, "sum", made.late_ms)
    before = (WindowOperator(Window.of("time", short, short), earliest=False),)
    sums = Counter[tuple[int, str]]()
    for _, at, place, measure in made.all():
        sums[at - at % short, place] += measure
    found = [(start + short - 1, place, total) for (start, place), total in sums.items()]
    newest = _newest(made)
    query = WindowedQuery(shape, _inputs([made]), results, before)
    return query, _windows(found, length, slide, newest, newest - short)


def counts_without_copies(made: Readings, length: int, slide: int, *, within: bool) -> Made:
    """Windows over readings of which each place and time counts once."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        rows = inputs[0].select("at", "place", f.unix_millis("at").alias("measure"))
        keys = ["place", "measure"]
        once = (
            rows.dropDuplicatesWithinWatermark(keys)
            if within
            else rows.dropDuplicates(["at", *keys])
        )
        return _summed(once, "at", length, slide, "place", "measure")

    shape = QueryShape("without copies", Window.of("time", length, slide), 1, "sum", made.late_ms)
    found = [(at, place, at) for at, place in _once(made)]
    newest = _newest(made)
    query = WindowedQuery(shape, _inputs([made]), results)
    return query, _windows(found, length, slide, newest, newest)


def first_seen(made: Readings, delay_ms: int) -> Made:
    """Each place and time once, at once: deduplication is the last operator."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        timed = inputs[0].withColumn(COORDINATE, f.unix_millis("at"))
        once = timed.dropDuplicatesWithinWatermark(["place", COORDINATE])
        return once.select(COORDINATE, "place")

    window = Window.of("time", delay_ms, 1)
    shape = QueryShape("first seen", window, 1, "deduplicate", made.late_ms)
    query = WindowedQuery(shape, _inputs([made]), results)
    return query, Expected.exactly(Counter((at, place) for at, place in _once(made)))


def sessions(made: Readings, gap_ms: int) -> Made:
    """Sessions of each place: rows and sum between two silences."""

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        span = f.session_window("at", f"{gap_ms} milliseconds").alias("span")
        sums = (f.count(f.lit(1)).alias("rows"), f.sum("measure").alias("total"))
        found = inputs[0].groupBy(span, "place").agg(*sums)
        return found.select(_start(), "place", "rows", "total")

    window = Window.of("time", gap_ms, 1)
    shape = QueryShape("sessions", window, 1, "sessions", made.late_ms)
    query = WindowedQuery(shape, _inputs([made]), results, sessions=True)
    newest, possible, sure = _newest(made), Counter[Result](), Counter[Result]()
    for place in sorted({row[2] for row in made.all()}):
        rows = sorted((row[1], row[3]) for row in made.all() if row[2] == place)
        for session in _split(rows, gap_ms):
            result = (session[0][0], place, len(session), sum(measure for _, measure in session))
            end = session[-1][0] + gap_ms
            possible[result] += end <= newest
            sure[result] += end <= newest - SLACK_MS
    return query, Expected(+sure, +possible)


def timed_totals(made: Readings, length: int) -> Made:
    """A processor of the user's with event-time timers: a total for each place and span."""
    import pandas as pd

    class Totals(_processor()):  # type: ignore[misc] # inside, to be sent to workers by value
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.spans = handle.getMapState("spans", "start BIGINT", "rows BIGINT, total BIGINT")

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,  # noqa: ARG002
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            for frame in rows:
                for at, measure in zip(frame["at_ms"], frame["measure"], strict=True):
                    start = (int(at) - int(at) % length,)
                    is_known = self.spans.containsKey(start)
                    rows_so_far, total = self.spans.getValue(start) if is_known else (0, 0)
                    self.spans.updateValue(start, (rows_so_far + 1, total + int(measure)))
                    self.handle.registerTimer(start[0] + length)
            return iter(())

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: ARG002, N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            start = expiredTimerInfo.getExpiryTimeInMs() - length
            rows, total = self.spans.getValue((start,))
            self.spans.removeKey((start,))
            reports = {"coordinate": [start], "place": [key[0]], "rows": [rows], "total": [total]}
            yield pd.DataFrame(reports)

        def close(self) -> None:
            pass

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        rows = inputs[0].select("at", "place", f.unix_millis("at").alias("at_ms"), "measure")
        schema = "coordinate BIGINT, place STRING, rows BIGINT, total BIGINT"
        grouped = rows.groupBy("place")
        return grouped.transformWithStateInPandas(Totals(), schema, "Append", "EventTime")

    shape = QueryShape("timers", Window.of("time", length, length), 1, "timers", made.late_ms)
    found = [(at, place, measure) for _, at, place, measure in made.all()]
    newest = _newest(made)
    query = WindowedQuery(shape, _inputs([made]), results)
    return query, _windows(found, length, length, newest, newest)


def _processor() -> type:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    return StatefulProcessor


def _inputs(streams: Iterable[Readings]) -> Any:
    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        return tuple(readings_stream(spark, each, start) for each in streams)

    return inputs


def _summed(
    rows: DataFrame, at: str, length: int, slide: int, place: str, measure: str
) -> DataFrame:
    from pyspark.sql import functions as f

    span = f.window(at, f"{length} milliseconds", f"{slide} milliseconds").alias("span")
    sums = (f.count(f.lit(1)).alias("rows"), f.sum(measure).alias("total"))
    grouped = rows.groupBy(span, f.col(place).alias("place")).agg(*sums)
    return grouped.select(_start(), "place", "rows", "total")


def _start() -> Column:
    from pyspark.sql import functions as f

    return f.unix_millis("span.start").alias(COORDINATE)


def _newest(made: Readings) -> int:
    return max(row[1] for row in made.all()) - made.late_ms - 1


def _once(made: Readings) -> set[tuple[int, str]]:
    return {(at, place) for _, at, place, _ in made.all()}


def _split(rows: list[tuple[int, int]], gap_ms: int) -> list[list[tuple[int, int]]]:
    found: list[list[tuple[int, int]]] = []
    for row in rows:
        if found and row[0] <= found[-1][-1][0] + gap_ms:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _windows(
    rows: Iterable[tuple[int, str, int]], length: int, slide: int, newest: int, surely: int
) -> Expected:
    """Windows of (time, place, measure); those that end by then may come, or surely do."""
    groups: dict[tuple[int, str], list[int]] = {}
    for at, place, measure in rows:
        for start in range((at - length) // slide * slide + slide, at + 1, slide):
            groups.setdefault((start, place), []).append(measure)
    possible, sure = Counter[Result](), Counter[Result]()
    for (start, place), measures in groups.items():
        result = (start, place, len(measures), sum(measures))
        possible[result] += start + length <= newest
        sure[result] += start + length <= surely - SLACK_MS
    return Expected(+sure, +possible)
