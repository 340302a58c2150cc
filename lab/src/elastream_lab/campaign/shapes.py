"""Stateful queries of every shape over the same rows; what they answer is in ``answers``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from elastream_lab.campaign.answers import BOUND_S, GAP_S, WINDOW_S
from elastream_lab.campaign.rows import DELAY_S

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SCHEMA: Final = "event LONG, key LONG, side INT, at LONG, value LONG"
Source = Callable[[], "DataFrame"]
"""Reads the rows as a stream, with a column ``time``; each call is a source of its own."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a query of one shape is built."""

    build: Callable[[Source], DataFrame]
    mode: Literal["append", "update"]
    keys: int = 0
    """Of an update: how many of the first columns say which row of the answer it is."""
    sources: int = 1
    needs_rocksdb: bool = False
    endless: bool = False
    """Whether Spark runs one batch after another also without rows, as it does where a state may
    expire by the clock: then it never says that all was processed."""


def _watermarked(source: Source, rows: str = "true") -> DataFrame:
    return source().where(rows).withWatermark("time", f"{DELAY_S} seconds")


def _counts(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    return source().groupBy("key").agg(f.count("*").alias("n"), f.sum("value").alias("total"))


def _total(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    return source().agg(f.count("*").alias("n"), f.sum("value").alias("total"))


def _by_window(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    window = f.window("time", f"{WINDOW_S} seconds")
    return _watermarked(source).groupBy(window, "key").agg(f.count("*").alias("n"))


def _windows(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    return _by_window(source).select(f.unix_timestamp("window.start").alias("start"), "key", "n")


def _chained(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    counts = (
        _by_window(source).groupBy("window").agg(f.sum("n").alias("n"), f.count("*").alias("k"))
    )
    return counts.select(f.unix_timestamp("window.start").alias("start"), "n", "k")


def _sessions(source: Source) -> DataFrame:
    from pyspark.sql import functions as f

    session = f.session_window("time", f"{round(GAP_S * 1000)} milliseconds")
    counts = _watermarked(source).groupBy(session, "key").agg(f.count("*").alias("n"))
    return counts.select("key", f.unix_timestamp("session_window.start").alias("start"), "n")


def _first_seen(source: Source) -> DataFrame:
    return source().select("event").dropDuplicates(["event"])


def _first_at_its_time(source: Source) -> DataFrame:
    return _watermarked(source).dropDuplicates(["event", "time"]).select("event", "at")


def _first_in_time(source: Source) -> DataFrame:
    return _watermarked(source).dropDuplicatesWithinWatermark(["event"]).select("event")


def _joined(source: Source, how: str) -> DataFrame:
    from pyspark.sql import functions as f

    left = _watermarked(source, "side = 0").alias("first")
    right = _watermarked(source, "side = 1").alias("then")
    match = f.expr(
        "first.event = then.event AND then.time >= first.time "
        f"AND then.time <= first.time + interval {round(BOUND_S * 1000)} milliseconds"
    )
    return left.join(right, match, how).select("first.event", f.col("then.at"))


def _counts_in_pandas(source: Source) -> DataFrame:
    import pandas as pd

    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    grouped = source().groupBy("key")
    out = "key LONG, n LONG"
    return grouped.applyInPandasWithState(count, out, "n LONG", "update", "NoTimeout")


def _in_slots(source: Source) -> Any:
    """Group rows by the window that they fall into, and their key."""
    from pyspark.sql import functions as f

    start = (f.floor(f.col("at") / WINDOW_S) * WINDOW_S).cast("long")
    return _watermarked(source).withColumn("start", start).groupBy("start", "key")


def _timeouts_in_pandas(source: Source) -> DataFrame:
    import pandas as pd

    window_s = WINDOW_S

    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        if state.hasTimedOut:
            (n,) = state.get
            state.remove()
            yield pd.DataFrame({"start": [key[0]], "key": [key[1]], "n": [n]})
            return
        n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((n,))
        state.setTimeoutTimestamp((int(key[0]) + window_s) * 1000 + 500)

    out = "start LONG, key LONG, n LONG"
    grouped: Any = _in_slots(source)
    frame: DataFrame = grouped.applyInPandasWithState(
        count, out, "n LONG", "append", "EventTimeTimeout"
    )
    return frame


def _timers(source: Source) -> DataFrame:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    window_s = WINDOW_S

    class Counts(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.handle = handle
            self.seen = handle.getValueState("seen", "n LONG")

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            seen = self.seen.get()
            n = (seen[0] if seen is not None else 0) + sum(len(frame) for frame in rows)
            self.seen.update((n,))
            self.handle.registerTimer((int(key[0]) + window_s) * 1000 + 500)
            return iter(())

        def handleExpiredTimer(  # noqa: N802 - Spark's name
            self,
            key: Any,
            timerValues: Any,  # noqa: ARG002, N803
            expiredTimerInfo: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            seen = self.seen.get()
            self.seen.clear()
            n = seen[0] if seen is not None else None  # a timer without state would be a fault
            yield pd.DataFrame({"start": [key[0]], "key": [key[1]], "n": [n]})

        def close(self) -> None:
            pass

    out = "start LONG, key LONG, n LONG"
    grouped: Any = _in_slots(source)
    frame: DataFrame = grouped.transformWithStateInPandas(Counts(), out, "Append", "EventTime")
    return frame


def _counts_that_expire(source: Source) -> DataFrame:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counts(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.seen = handle.getMapState("seen", "side INT", "n LONG", ttlDurationMs=86_400_000)

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            for frame in rows:
                for side, n in frame["side"].value_counts().items():
                    at = (int(side),)
                    before = self.seen.getValue(at)
                    self.seen.updateValue(at, ((before[0] if before else 0) + int(n),))
            n = sum(value[0] for value in self.seen.values())
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def close(self) -> None:
            pass

    grouped: Any = source().groupBy("key")
    frame: DataFrame = grouped.transformWithStateInPandas(
        Counts(), "key LONG, n LONG", "Update", "ProcessingTime"
    )
    return frame


SHAPES: Final[dict[str, Shape]] = {
    "counts": Shape(_counts, "update", keys=1),
    "total": Shape(_total, "update"),
    "windows": Shape(_windows, "append"),
    "chained windows": Shape(_chained, "append"),
    "sessions": Shape(_sessions, "append"),
    "first seen": Shape(_first_seen, "append"),
    "first seen at its time": Shape(_first_at_its_time, "append"),
    "first seen within the delay": Shape(_first_in_time, "append"),
    "join": Shape(lambda source: _joined(source, "inner"), "append", sources=2),
    "outer join": Shape(lambda source: _joined(source, "leftOuter"), "append", sources=2),
    "counts in pandas": Shape(_counts_in_pandas, "update", keys=1),
    "timeouts in pandas": Shape(_timeouts_in_pandas, "append"),
    "timers": Shape(_timers, "append", needs_rocksdb=True),
    "counts that expire in a day": Shape(
        _counts_that_expire, "update", keys=1, needs_rocksdb=True, endless=True
    ),
}
"""By name."""
