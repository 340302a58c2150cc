"""Raw records as a table: which interval, which key, how often, and what is wrong with a row.

A row without a readable time, or without a text or key, is *bad*: it is counted by its fault, in
the same pass as the good ones, and never silently dropped. A text without a single word is not
bad; it counts as a row and has no records.

Times may be timestamps, dates, ISO 8601 texts, or numbers since 1970 in seconds, milliseconds,
microseconds or nanoseconds, known from their magnitude (as in
:mod:`~elastream_lab.harness.time_units`).

*Patterns* are the keys of the second application of papers 000 and 001 (section 6): the
combinations of the words of a row. There are exponentially many, so the number of words of a
pattern is bounded. They are made word by word, a row for each beginning, so that no row ever holds
all its patterns.

Keys do not travel. As soon as a key is made it becomes two hashes and a size: Murmur3 with 32
bits, which says its task as Spark's own partitioning does, and xxHash with 64. Two of a thousand
million different keys have all of these in common with odds of one in 10¹¹, and a shuffled row
takes a few words of memory whatever the key is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.words import join_names
from elastream_lab.applications.patterns.faults import input_refused
from elastream_lab.applications.patterns.settings import TraceSettings
from elastream_lab.harness.time_units import UNITS_US
from elastream_lab.harness.word_count import words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_FIXED_KEY_BYTES: Final = 8
_MOST_COLUMNS: Final = 20
"""That a message names."""


def counted(spark: SparkSession, settings: TraceSettings) -> DataFrame:
    """Return ``fault, interval, hash, id, size, records, rows``: each key of each interval.

    ``hash`` and ``id`` tell the key and are null where a row has none; ``size`` is its state in
    bytes. ``rows`` counts each input row once, at one of its keys. ``fault`` is null for good
    rows; the others have neither interval nor key.
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
        f.when(good, keys).alias("keys"),
    )
    report = _reports(_each_key(rows, settings.patterns), settings.value_bytes)
    if settings.patterns is not None:
        # Few patterns occur twice in an interval: to add them up before they are shuffled would
        # save nothing and need memory for all of them.
        report = report.repartition("id")
    return report.groupBy("fault", "interval", "hash", "id", "size").agg(
        f.count("id").alias("records"), f.count_if("first").alias("rows")
    )


def partition_hash(key: Column) -> Column:
    """Return the hash by which Spark spreads rows over the state partitions of a query."""
    from pyspark.sql import functions as f

    return f.hash(key)


def task_of(hashed: Column, tasks: int) -> Column:
    """Return the state partition of a key by its hash, as Spark's hash partitioning does."""
    from pyspark.sql import functions as f

    return f.pmod(hashed, f.lit(tasks))


def _each_key(rows: DataFrame, patterns: int | None) -> DataFrame:
    """Return ``fault, interval, key, first``, a row for each key; ``first`` marks one a row."""
    from pyspark.sql import functions as f

    if patterns is None:
        each = rows.select("fault", "interval", f.posexplode_outer("keys").alias("place", "key"))
        return each.select("fault", "interval", "key", _is_first("place").alias("first"))
    words = rows.select("fault", "interval", f.array_sort(f.array_distinct("keys")).alias("words"))
    each = words.select(
        "fault", "interval", "words", f.posexplode_outer("words").alias("at", "key")
    )
    each = each.select(
        "fault",
        "interval",
        "key",
        _is_first("at").alias("first"),
        _after("words", "at").alias("rest"),
    )
    for _ in range(1, patterns):
        each = _longer(each)
    return each.drop("rest")


def _longer(each: DataFrame) -> DataFrame:
    """Return each pattern as it is, and with each word more that comes after its own."""
    from pyspark.sql import functions as f

    ends = f.array(f.lit(None).cast("string"))
    grown = each.select("*", f.posexplode_outer(f.concat(ends, "rest")).alias("at", "word"))
    longer = f.concat_ws(" ", "key", "word")
    left = f.when(f.col("word").isNull(), f.slice("rest", 1, 0)).otherwise(
        f.slice("rest", f.col("at") + 1, f.size("rest"))
    )
    return grown.select(
        "fault",
        "interval",
        f.when(f.col("key").isNotNull(), longer).alias("key"),
        (f.col("first") & _is_first("at")).alias("first"),
        left.alias("rest"),
    )


def _is_first(place: str) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.col(place), f.lit(0)) == 0


def _after(words: str, place: str) -> Column:
    from pyspark.sql import functions as f

    return f.slice(words, f.col(place) + 2, f.size(words))


def _reports(each: DataFrame, value_bytes: int) -> DataFrame:
    """Return ``fault, interval, hash, id, size, first``: keys by what tells them apart."""
    from pyspark.sql import functions as f

    key = f.col("key")
    is_text = dict(each.dtypes)["key"] in ("string", "binary")
    own = f.octet_length(key) if is_text else f.lit(_FIXED_KEY_BYTES)
    size = own.cast("long") + f.lit(value_bytes)
    there = key.isNotNull()
    return each.select(
        "fault",
        "interval",
        f.when(there, partition_hash(key)).alias("hash"),
        f.when(there, f.xxhash64(key)).alias("id"),
        f.when(there, size).alias("size"),
        "first",
    )


def _read(spark: SparkSession, settings: TraceSettings) -> DataFrame:
    reader = spark.read.option("recursiveFileLookup", "true")
    if settings.kind == "csv":
        reader = reader.options(header=True, multiLine=True, escape='"')
    wanted = [("time", settings.time)]
    wanted.append(("text", settings.text) if settings.text else ("key", str(settings.key)))
    with input_refused():
        table = reader.format(settings.kind).load(list(settings.input))
    for field, name in wanted:
        if name not in table.columns:
            known = join_names(table.columns, most=_MOST_COLUMNS)
            raise ProblemError(field, f"there is no column {abbreviate(name)}; there are {known}")
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
    raise ProblemError("time", f"column {abbreviate(name)} holds {kind}, not times")


def _number_us(number: Column) -> Column:
    from pyspark.sql import functions as f

    micros = f.lit(None).cast("double")
    for mark, unit_us in reversed(UNITS_US):
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
        raise ProblemError("text", f"column {abbreviate(name)} holds {kind}, not texts")
    return words_of(column), column.isNull() | (f.trim(column) == "")
