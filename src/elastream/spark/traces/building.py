"""Builds a trace: work and state of every task in every interval, as Spark jobs.

1. One pass over the input counts records by interval and key (and bad rows by fault). From here on
   the data is as large as the keys of each interval, not as the input; it is kept on the executors.
2. Work: records by interval and task.
3. State: the keys that a task holds at the end of an interval, and their bytes. A key *arrives* in
   the interval of its first record and, where there is a window, *leaves* when so much time has
   passed without one; arrivals and departures are summed up interval by interval.

Only the number of intervals and the counts of bad rows come to the driver.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.errors import ProblemError
from elastream.spark.traces.faults import input_refused
from elastream.spark.traces.folder import commit, prepare
from elastream.spark.traces.records import counted, key_bytes, task_of
from elastream.spark.traces.settings import TraceSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["TraceReport", "build_trace"]

_MOST_CELLS: Final = 50_000_000
"""More intervals times tasks than this come from a stray time, such as 1970, not from a load."""


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What was read and written."""

    rows: int
    """Rows of the input, the bad ones among them."""
    bad_rows: dict[str, int]
    """Bad rows by what is wrong with them."""
    intervals: int
    tasks: int
    records: int
    """Records of all good rows: words, or keys."""
    first_interval: int
    """Number of the first interval, counted from 1970."""


def build_trace(
    spark: SparkSession, settings: TraceSettings, out: Path, *, overwrite: bool = False
) -> TraceReport:
    """Write the trace to the folder ``out``; a folder without its manifest is no trace."""
    prepare(out, overwrite=overwrite)
    try:
        report = _written(spark, settings, out)
        commit(out, {"settings": asdict(settings), "report": asdict(report)})
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return report


def _written(spark: SparkSession, settings: TraceSettings, out: Path) -> TraceReport:
    counts = counted(spark, settings).persist()
    try:
        with input_refused():
            report = _checked(counts, settings)
        last = report.first_interval + report.intervals
        good = counts.where("fault is null")
        cells = _cells(spark, good, settings, report.first_interval, last)
        _write_tasks(cells, settings, out / "tasks")
        _write_totals(spark, good, settings, report.first_interval, last, out / "totals")
    finally:
        counts.unpersist()
    return report


def _checked(counts: DataFrame, settings: TraceSettings) -> TraceReport:
    """Return what was read, or refuse it: too many bad rows, no good ones, a stray time."""
    from pyspark.sql import functions as f

    found = counts.groupBy("fault").agg(
        f.sum("rows").alias("rows"),
        f.sum("records").alias("records"),
        f.min("interval").alias("first"),
        f.max("interval").alias("last"),
    )
    by_fault = {row["fault"]: row for row in found.collect()}
    good = by_fault.pop(None, None)
    bad = {str(fault): int(row["rows"]) for fault, row in sorted(by_fault.items())}
    rows = sum(bad.values()) + (int(good["rows"]) if good else 0)
    if rows == 0:
        raise ProblemError("--input", "has no rows")
    if sum(bad.values()) > settings.max_bad_share * rows:
        said = ", ".join(f"{number:,} without a {fault}" for fault, number in bad.items())
        allowed = f"--max-bad-share allows {settings.max_bad_share:.2%}"
        raise ProblemError("--input", f"of {rows:,} rows {said} that can be read; {allowed}")
    if good is None:
        raise ProblemError("--input", "has no row with a time and a key")
    intervals = int(good["last"]) - int(good["first"]) + 1
    if intervals * settings.tasks > _MOST_CELLS:
        why = f"the rows span {intervals:,} intervals; is a time wrong, or --every too short?"
        raise ProblemError("--time", why)
    return TraceReport(
        rows=rows,
        bad_rows=bad,
        intervals=intervals,
        tasks=settings.tasks,
        records=int(good["records"]),
        first_interval=int(good["first"]),
    )


def _cells(
    spark: SparkSession, good: DataFrame, settings: TraceSettings, first: int, end: int
) -> DataFrame:
    """Return ``interval, task, work, keys, state_bytes``, a row for each interval and task.

    Work, arrivals and departures, and a row of zeros for each interval and task, are events of one
    kind: one sum of them gives work and changes, a running sum of the changes the state.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    task = task_of(f.col("key"), settings.tasks).cast("int")
    keyed = good.where("key is not null").withColumn("task", task)
    held = keyed.withColumn("bytes", key_bytes(good, settings.value_bytes))
    zero = f.lit(0).cast("long")
    work = keyed.select("task", "interval", "records", zero.alias("change"), zero.alias("size"))
    changes = _changes(held, settings).select("task", "interval", zero, "change", "size")
    tasks = spark.range(settings.tasks).select(f.col("id").cast("int").alias("task"))
    every = tasks.crossJoin(spark.range(first, end).toDF("interval"))
    events = work.union(changes).union(every.select("task", "interval", zero, zero, zero))
    sums = (
        events.groupBy("task", "interval")
        .agg(*(f.sum(name).alias(name) for name in ("records", "change", "size")))
        .where(f.col("interval") < end)
    )
    so_far = Window.partitionBy("task").orderBy("interval")
    return sums.select(
        "interval",
        "task",
        f.col("records").alias("work"),
        f.sum("change").over(so_far).alias("keys"),
        f.sum("size").over(so_far).alias("state_bytes"),
    )


def _changes(held: DataFrame, settings: TraceSettings) -> DataFrame:
    """Return ``interval, task, change, size``: keys that arrive, and keys that leave."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    if settings.window_s is None:
        arrivals = held.groupBy("key", "task", "bytes").agg(f.min("interval").alias("interval"))
        return arrivals.select(
            "interval", "task", f.lit(1).alias("change"), f.col("bytes").alias("size")
        )
    window = settings.window_s // settings.every_s
    of_key = Window.partitionBy("key").orderBy("interval")
    seen = held.select(
        "interval",
        "task",
        "bytes",
        f.lag("interval").over(of_key).alias("before"),
        f.lead("interval").over(of_key).alias("after"),
    )
    arrives = f.expr(f"before is null or before + {window} < interval")
    leaves = f.expr(f"after is null or after > interval + {window}")
    came = seen.where(arrives).select("interval", "task", f.lit(1).alias("change"), "bytes")
    went = seen.where(leaves).select(
        (f.col("interval") + window).alias("interval"), "task", f.lit(-1), -f.col("bytes")
    )
    return came.union(went).withColumnRenamed("bytes", "size")


def _write_tasks(cells: DataFrame, settings: TraceSettings, out: Path) -> None:
    from pyspark.sql import functions as f

    timed = cells.withColumn("time", _begin(settings)).withColumn("date", f.to_date("time"))
    ordered = timed.repartition("date").sortWithinPartitions("date", "time", "task")
    columns = ["date", "time", "task", "work", "keys", "state_bytes"]
    ordered.select(*columns).write.partitionBy("date").parquet(str(out))


def _write_totals(
    spark: SparkSession, good: DataFrame, settings: TraceSettings, first: int, end: int, out: Path
) -> None:
    from pyspark.sql import functions as f

    sums = good.groupBy("interval").agg(
        f.sum("rows").alias("rows"), f.sum("records").alias("records")
    )
    every = spark.range(first, end).toDF("interval").join(sums, "interval", "left").fillna(0)
    timed = every.withColumn("time", _begin(settings)).coalesce(1).sort("time")
    timed.select("time", "rows", "records").write.parquet(str(out))


def _begin(settings: TraceSettings) -> Column:
    """Return the time at which an interval begins."""
    from pyspark.sql import functions as f

    return f.timestamp_seconds(f.col("interval") * settings.every_s)
