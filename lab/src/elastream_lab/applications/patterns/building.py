"""Builds a trace: work and state of every task in every interval, as Spark jobs.

1. One pass over the input counts records by interval and key, and bad rows by fault
   (:mod:`~elastream_lab.applications.patterns.records`).
2. The counts of a key are brought together, in the order of time. Each shows what it changes: its
   records are work of their interval; a key *arrives* in an interval with records of it, and
   *leaves* when the next has some, or when so much time as the window has passed. An arrival and a
   departure in one interval cancel, so what remains is when a key was not held before or will not
   be after. Where the papers' second application is traced, the records are work once more when
   they leave the window ("-1" in section 6).
3. These changes are summed by interval and task before anything else is done with them. From here
   on the data is as large as the trace.
4. State is the running sum of the changes of a task.

Only the number of intervals and the counts of bad rows come to the driver.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.foresight.traces.folder import commit, prepare, publish
from elastream.model.errors import ProblemError
from elastream_lab.applications.patterns.faults import input_refused
from elastream_lab.applications.patterns.records import counted, task_of
from elastream_lab.applications.patterns.settings import TraceSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_MOST_CELLS: Final = 50_000_000
"""More intervals times tasks than this come from a stray time, such as 1970, not from a load."""
_AMOUNTS: Final = ("rows", "records", "work", "keys", "state_bytes")
"""What a change adds: rows and records that came, work, keys held and their bytes."""


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
    """Write the trace to the folder ``out``, which is not touched before it is whole."""
    unfinished = prepare(out, overwrite=overwrite)
    try:
        report = _written(spark, settings, unfinished)
        commit(unfinished, {"settings": asdict(settings), "report": asdict(report)})
        publish(unfinished, out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return report


def _written(spark: SparkSession, settings: TraceSettings, out: Path) -> TraceReport:
    sums = _summed(_changes(counted(spark, settings), settings)).persist()
    try:
        with input_refused():
            report = _checked(sums, settings)
        end = report.first_interval + report.intervals
        good = sums.where(f"fault is null and interval < {end}")
        intervals = spark.range(report.first_interval, end).toDF("interval")
        _write_tasks(_cells(spark, good, intervals, settings), settings, out / "tasks")
        _write_totals(good, intervals, settings, out / "totals")
    finally:
        sums.unpersist()
    return report


def _changes(counts: DataFrame, settings: TraceSettings) -> DataFrame:
    """Return ``fault, interval, task`` and what is added there; task is null for rows alone."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    window = None if settings.window_s is None else settings.window_s // settings.every_s
    there = f.col("id").isNotNull()
    after = f.lead("interval").over(Window.partitionBy("id", "hash").orderBy("interval"))
    seen = counts.select("*", f.when(there, after).alias("after"))
    end = f.lit(None).cast("long") if window is None else f.col("interval") + window
    leaves = f.when(there, f.least("after", end))
    one, size = f.when(there, 1).otherwise(0), f.coalesce("size", f.lit(0))
    changes = [
        _change(
            "interval", rows="rows", records="records", work="records", keys=one, state_bytes=size
        ),
        _change(leaves, keys=-one, state_bytes=-size),
    ]
    if settings.counts_leaving:
        changes.append(_change(f.when(there, end), work="records"))
    report = seen.select(
        "fault",
        f.when(there, task_of(f.col("hash"), settings.tasks)).cast("int").alias("task"),
        f.explode(f.array(*changes)).alias("change"),
    )
    report = report.select("fault", "change.interval", "task", *(f"change.{n}" for n in _AMOUNTS))
    return report.where("interval is not null or fault is not null")


def _change(interval: Column | str, **amounts: Column | str) -> Column:
    """Return what is added in an interval, as a struct; what is not named is zero."""
    from pyspark.sql import functions as f

    when = f.col(interval) if isinstance(interval, str) else interval
    added = [amounts.get(name, f.lit(0)) for name in _AMOUNTS]
    columns = [f.col(amount) if isinstance(amount, str) else amount for amount in added]
    typed = (c.cast("long").alias(n) for c, n in zip(columns, _AMOUNTS, strict=True))
    return f.struct(when.alias("interval"), *typed)


def _summed(changes: DataFrame, *by: str) -> DataFrame:
    from pyspark.sql import functions as f

    groups = changes.groupBy(*(by or ("fault", "interval", "task")))
    return groups.agg(*(f.sum(name).alias(name) for name in _AMOUNTS))


def _checked(sums: DataFrame, settings: TraceSettings) -> TraceReport:
    """Return what was read, or refuse it: too many bad rows, no good ones, a stray time."""
    from pyspark.sql import functions as f

    interval = f.when(f.col("rows") + f.col("records") > 0, f.col("interval"))
    found = sums.groupBy("fault").agg(
        f.sum("rows").alias("rows"),
        f.sum("records").alias("records"),
        f.min(interval).alias("first"),
        f.max(interval).alias("last"),
    )
    by_fault = {row["fault"]: row for row in found.collect()}
    good = by_fault.pop(None, None)
    bad = {str(fault): int(row["rows"]) for fault, row in sorted(by_fault.items())}
    rows = sum(bad.values()) + (int(good["rows"]) if good else 0)
    if rows == 0:
        raise ProblemError("input", "has no rows")
    if sum(bad.values()) > settings.max_bad_share * rows:
        said = ", ".join(f"{number:,} without a {fault}" for fault, number in bad.items())
        allowed = f"`max_bad_share` allows {settings.max_bad_share:.2%}"
        raise ProblemError("input", f"of {rows:,} rows {said} that can be read; {allowed}")
    if good is None:
        raise ProblemError("input", "has no row with a time and a key")
    intervals = int(good["last"]) - int(good["first"]) + 1
    if intervals * settings.tasks > _MOST_CELLS:
        why = f"the rows span {intervals:,} intervals; is a time wrong, or `every_s` too short?"
        raise ProblemError("time", why)
    return TraceReport(
        rows=rows,
        bad_rows=bad,
        intervals=intervals,
        tasks=settings.tasks,
        records=int(good["records"]),
        first_interval=int(good["first"]),
    )


def _cells(
    spark: SparkSession, good: DataFrame, intervals: DataFrame, settings: TraceSettings
) -> DataFrame:
    """Return ``interval, task, work, keys, state_bytes``, a row for each interval and task.

    A row of zeros for each interval and task is added to the changes, so that none is missing.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    tasks = spark.range(settings.tasks).select(f.col("id").cast("int").alias("task"))
    none = (f.lit(0).cast("long").alias(name) for name in _AMOUNTS)
    zeros = tasks.crossJoin(intervals).select("task", "interval", *none)
    changes = good.where("task is not null").select("task", "interval", *_AMOUNTS)
    sums = _summed(changes.union(zeros), "task", "interval")
    so_far = Window.partitionBy("task").orderBy("interval")
    held = (f.sum(name).over(so_far).alias(name) for name in ("keys", "state_bytes"))
    return sums.select("interval", "task", "work", *held)


def _write_tasks(cells: DataFrame, settings: TraceSettings, out: Path) -> None:
    from pyspark.sql import functions as f

    timed = cells.withColumn("time", _begin(settings)).withColumn("date", f.to_date("time"))
    ordered = timed.repartition("date").sortWithinPartitions("date", "time", "task")
    columns = ["date", "time", "task", "work", "keys", "state_bytes"]
    ordered.select(*columns).write.partitionBy("date").parquet(str(out))


def _write_totals(
    good: DataFrame, intervals: DataFrame, settings: TraceSettings, out: Path
) -> None:
    sums = _summed(good, "interval").select("interval", "rows", "records")
    every = intervals.join(sums, "interval", "left").fillna(0)
    timed = every.withColumn("time", _begin(settings)).coalesce(1).sort("time")
    timed.select("time", "rows", "records").write.parquet(str(out))


def _begin(settings: TraceSettings) -> Column:
    """Return the time at which an interval begins."""
    from pyspark.sql import functions as f

    return f.timestamp_seconds(f.col("interval") * settings.every_s)
