"""Raw records as a table: which interval, which key, how often, and what is wrong with a row.

A row without a readable time, or without a text or key, is *bad*: it is counted by its fault, in
the same pass as the good ones, and never silently dropped. A text without a single word is not
bad; it counts as a row and has no records.

Times may be timestamps, dates, ISO 8601 texts, or numbers since 1970 in seconds, milliseconds,
microseconds or nanoseconds, told by their magnitude (as in
:mod:`~elastream.spark.recorded_file`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elastream.model.checks import shown
from elastream.model.errors import ProblemError
from elastream.spark.traces.faults import input_refused
from elastream.spark.traces.settings import TraceSettings
from elastream.spark.word_count import words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["counted", "key_bytes", "task_of"]

_UNITS_US: Final = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (float("inf"), 1e-3))
"""A number below the first is in units of so many microseconds. The marks lie in the year 5138."""
_FIXED_KEY_BYTES: Final = 8


def counted(spark: SparkSession, settings: TraceSettings) -> DataFrame:
    """Return ``fault, interval, key, records, rows``: how often each key occurs in each interval.

    ``rows`` counts each input row once, at one of its keys; its key is null where it has none.
    ``fault`` is null for good rows; the others have neither interval nor key.
    """
    from pyspark.sql import functions as f

    table = _read(spark, settings)
    every_us = settings.every_s * 1_000_000
    micros = _micros(table, settings.time)
    interval = f.floor(micros / f.lit(every_us)).cast("long")
    keys, missing = _keys(table, settings)
    fault = f.when(micros.isNull(), "time").when(missing, "text" if settings.text else "key")
    good = fault.isNull()
    rows = table.select(
        fault.alias("fault"),
        f.when(good, interval).alias("interval"),
        f.posexplode_outer(f.when(good, keys)).alias("place", "key"),
    )
    first = f.coalesce(f.col("place"), f.lit(0)) == 0
    return rows.groupBy("fault", "interval", "key").agg(
        f.count("key").alias("records"), f.count_if(first).alias("rows")
    )


def task_of(key: Column, tasks: int) -> Column:
    """Return the state partition of a key: Spark's own hash partitioning, to the letter."""
    from pyspark.sql import functions as f

    return f.pmod(f.hash(key), f.lit(tasks))


def key_bytes(table: DataFrame, value_bytes: int) -> Column:
    """Return the state of each row's key: its own bytes, and those of its value."""
    from pyspark.sql import functions as f

    is_text = dict(table.dtypes)["key"] in ("string", "binary")
    own = f.octet_length("key") if is_text else f.lit(_FIXED_KEY_BYTES)
    return own.cast("long") + f.lit(value_bytes)


def _read(spark: SparkSession, settings: TraceSettings) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    if settings.kind == "csv":
        reader = reader.options(header=True, multiLine=True, escape='"')
    wanted = [("--time", settings.time)]
    wanted.append(("--text", settings.text) if settings.text else ("--key", str(settings.key)))
    with input_refused():
        table = reader.format(settings.kind).load(list(settings.input))
    for option, name in wanted:
        if name not in table.columns:
            known = ", ".join(table.columns[:20]) or "none"
            raise ProblemError(option, f"there is no column {shown(name)}; there are {known}")
    table = table.select(*dict.fromkeys(name for _, name in wanted))
    cores = spark.sparkContext.defaultParallelism
    return table.repartition(cores) if table.rdd.getNumPartitions() < cores else table


def _micros(table: DataFrame, name: str) -> Column:
    """Return the time of each row in microseconds since 1970, null where there is none."""
    from pyspark.sql import functions as f

    kind = dict(table.dtypes)[name]
    column = f.col(f"`{name}`")
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return f.unix_micros(column.cast("timestamp"))
    if kind == "string":
        return f.coalesce(
            f.unix_micros(f.try_to_timestamp(column)), _number_us(column.try_cast("double"))
        )
    if kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or "decimal" in kind:
        return _number_us(column.cast("double"))
    raise ProblemError("--time", f"column {shown(name)} holds {kind}, not times")


def _number_us(number: Column) -> Column:
    from pyspark.sql import functions as f

    micros = f.lit(None).cast("double")
    for mark, unit_us in reversed(_UNITS_US):
        micros = f.when(f.abs(number) < mark, number * unit_us).otherwise(micros)
    return micros.try_cast("bigint")


def _keys(table: DataFrame, settings: TraceSettings) -> tuple[Column, Column]:
    """Return the keys of each row, and whether it has nothing to take them from."""
    from pyspark.sql import functions as f

    name = str(settings.text or settings.key)
    column, kind = f.col(f"`{name}`"), dict(table.dtypes)[name]
    if settings.key is not None:
        empty = column == "" if kind == "string" else f.lit(False)
        return f.array(column), column.isNull() | empty
    if kind != "string":
        raise ProblemError("--text", f"column {shown(name)} holds {kind}, not texts")
    return words_of(column), column.isNull() | (f.trim(column) == "")
