"""Stateful queries over a source whose rows are known, and what each must answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 200
"""Rows a batch; row i has the value i, and batch b the event time START + b seconds."""
START = 3
"""Not 0: rows of the epoch count as late before there is a watermark."""
KEYS = 40
WINDOW = 3
"""Batches a window."""
LATER = 500
"""How many rows later a row's partner in the join comes."""


def numbers(spark: SparkSession) -> DataFrame:
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS)
        .option("numPartitions", 2)
        .option("startTimestamp", START * 1000)
        .load()
    )


def aggregation(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    key = (f.col("value") % KEYS).alias("key")
    return numbers(spark).groupBy(key).agg(f.count("*").alias("n"), f.sum("value").alias("total"))


def aggregation_answer(rows: int) -> dict[int, tuple[int, int]]:
    return {
        key: (len(values), sum(values)) for key in range(KEYS) if (values := range(key, rows, KEYS))
    }


def aggregation_state(spark: SparkSession, checkpoint: str) -> dict[int, tuple[int, int]]:
    rows = spark.read.format("statestore").load(checkpoint).select("key", "value").collect()
    found = {row["key"][0]: (row["value"][0], row["value"][1]) for row in rows}
    assert len(found) == len(rows), "a key has two states"
    return found


def totals(spark: SparkSession) -> DataFrame:
    """A global aggregate: one task, whatever the number of shuffle partitions."""
    from pyspark.sql import functions as f

    return numbers(spark).agg(f.count("*").alias("n"), f.sum("value").alias("total"))


def totals_answer(rows: int) -> tuple[int, int]:
    return rows, sum(range(rows))


def totals_state(spark: SparkSession, checkpoint: str) -> tuple[int, int]:
    (row,) = spark.read.format("statestore").load(checkpoint).select("value").collect()
    return row["value"][0], row["value"][1]


def windowed(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    return (
        numbers(spark)
        .withWatermark("timestamp", "1 second")
        .groupBy(f.window("timestamp", f"{WINDOW} seconds"), (f.col("value") % KEYS).alias("key"))
        .agg(f.count("*").alias("n"))
        .select(f.unix_timestamp("window.start").alias("start"), "key", "n")
    )


def windowed_answer(windows: int) -> Counter[tuple[int, int, int]]:
    """Every row of the first windows: start, key, count; each once."""
    size = ROWS * WINDOW
    return Counter(
        (START + window * WINDOW, key, len([v for v in values if v % KEYS == key]))
        for window in range(windows)
        for values in [range(window * size, (window + 1) * size)]
        for key in range(KEYS)
    )


def join(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    left = numbers(spark).withWatermark("timestamp", "30 seconds").alias("early")
    right = (
        numbers(spark)
        .withColumn("partner", f.col("value") - LATER)
        .withWatermark("timestamp", "30 seconds")
        .alias("late")
    )
    match = f.expr(
        "early.value = late.partner AND late.timestamp >= early.timestamp "
        "AND late.timestamp <= early.timestamp + interval 20 seconds"
    )
    return left.join(right, match).select(f.col("late.value").alias("value"))


def running_counts(spark: SparkSession) -> DataFrame:
    """Count rows per key with transformWithState in Python."""
    import pandas as pd
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

    class Counts(StatefulProcessor):  # inside, so that it is sent to the workers by value
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.seen = handle.getValueState("seen", "n BIGINT")
            self.last = handle.getValueState("last", "value BIGINT")

        def handleInputRows(  # noqa: N802 - Spark's name
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: ARG002, N803
        ) -> Iterator[Any]:
            seen = self.seen.get()
            n = seen[0] if seen is not None else 0
            for frame in rows:
                n += len(frame)
                self.last.update((int(frame["value"].max()),))
            self.seen.update((n,))
            yield pd.DataFrame({"key": [key[0]], "n": [n]})

        def close(self) -> None:
            pass

    return (
        numbers(spark)
        .withColumn("key", f.col("value") % KEYS)
        .groupBy("key")
        .transformWithStateInPandas(Counts(), "key BIGINT, n BIGINT", "Update", "none")
    )


FIRST = 700
"""How many keys there are to be seen for the first time."""


def first_seen(spark: SparkSession) -> DataFrame:
    """Each key once, when it is seen first."""
    from pyspark.sql import functions as f

    return numbers(spark).select((f.col("value") % FIRST).alias("key")).dropDuplicates(["key"])


SESSION = 2
"""Batches a session: its keys come in those, and never again."""


def sessions(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    visitor = (f.floor(f.col("value") / (ROWS * SESSION)) * KEYS + f.col("value") % KEYS).cast(
        "long"
    )
    return (
        numbers(spark)
        .withWatermark("timestamp", "1 second")
        .groupBy(f.session_window("timestamp", "1500 milliseconds"), visitor.alias("key"))
        .agg(f.count("*").alias("n"))
        .select("key", "n")
    )


def sessions_answer(closed: int) -> Counter[tuple[int, int]]:
    """The keys of the first sessions and their rows, each once."""
    return Counter((key, ROWS * SESSION // KEYS) for key in range(closed * KEYS))


def counts_in_pandas(spark: SparkSession) -> DataFrame:
    """Count rows per key with applyInPandasWithState."""
    import pandas as pd
    from pyspark.sql import functions as f

    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    return (
        numbers(spark)
        .withColumn("key", f.col("value") % KEYS)
        .groupBy("key")
        .applyInPandasWithState(count, "key BIGINT, n BIGINT", "n BIGINT", "update", "NoTimeout")
    )


def window_totals(spark: SparkSession) -> DataFrame:
    """Windows counted per key, and these counts summed per window: two operators in a row."""
    from pyspark.sql import functions as f

    return (
        numbers(spark)
        .withWatermark("timestamp", "1 second")
        .groupBy(f.window("timestamp", f"{WINDOW} seconds"), (f.col("value") % KEYS).alias("key"))
        .agg(f.count("*").alias("n"))
        .groupBy("window")
        .agg(f.sum("n").alias("rows"), f.count("*").alias("keys"))
        .select(f.unix_timestamp("window.start").alias("start"), "rows", "keys")
    )


def window_totals_answer(windows: int) -> Counter[tuple[int, int, int]]:
    """The first windows: start, rows, keys; each once."""
    return Counter((START + window * WINDOW, ROWS * WINDOW, KEYS) for window in range(windows))
