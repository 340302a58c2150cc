"""Rows that are numbered within their group, and the windows of rows that are complete.

Spark's own windows are of time only. A processor (``row_windows.java`` next to this file)
numbers the rows of each group in the order of their time, where the group's state is: groups are
spread over partitions as in any aggregation, and no row passes through the driver. A row waits
until the watermark says that none before it can come, as the rows of Spark's own windows do; so its
number depends on the rows alone, not on how batches fall.

What comes out is each row of a window that is complete, with the windows that hold it
(:data:`WINDOWS`). All rows of a window come in one batch, and what is made of them is made there,
by whatever a batch can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from elastream.handover.model import Window
from elastream.model.errors import ProblemError
from elastream.spark.internals.row_processors import java_processor, through_processor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


TIME: Final = "at"
"""In inputs: the time of a row, a timestamp."""
COORDINATE: Final = "coordinate"
"""In results: the start of their window, in milliseconds since the epoch."""
NUMBER: Final = "number"
"""In windows of rows: the number of the window's first row, from 0 in its group."""
ROW_NUMBER: Final = "row_number"
"""In the rows of a window of rows: the row's own number in its group."""
INPUT: Final = "elastream_input"
"""Column: from which of the frames the row is."""
WINDOWS: Final = "elastream_windows"
"""Column: the windows that hold the row, each with its number and coordinate."""
LATE: Final = "elastream_late"
"""What Spark's progress calls the number of rows that came too late, and the observation of it."""
_WHOLE: Final = "elastream_all"
"""The only group of rows that have none."""
_RESERVED: Final = (COORDINATE, NUMBER, ROW_NUMBER, INPUT, WINDOWS, _WHOLE)
_HEAD: Final = (
    "reached BIGINT, timer BIGINT, next BIGINT, numbered ARRAY<BIGINT>, held ARRAY<BIGINT>"
)
"""What the processor remembers of a group: up to which time its rows are numbered, for when it
asked to be woken, the window to come, and for each frame how many rows are numbered and kept."""
_GIVEN: Final = (
    f"{INPUT} INT, {ROW_NUMBER} BIGINT, "
    f"{WINDOWS} ARRAY<STRUCT<{NUMBER}: BIGINT, {COORDINATE}: BIGINT>>"
)
_COUNTS: Final = "reached BIGINT, numbered ARRAY<BIGINT>"
_ORDERED: Final = frozenset(
    {"boolean", "byte", "date", "decimal", "double", "float", "integer", "long", "short"}
    | {"string", "timestamp", "timestamp_ntz"}
)


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a target begins: what is earlier is another application's."""

    from_ms: int
    counts: str | None
    """Where it is written how many rows each group had before; ``None`` if that was read before."""


def group_columns(by: Sequence[str]) -> list[str]:
    """Return the columns that identify groups; one constant column if there are none."""
    return list(by) or [_WHOLE]


def counts_schema(group: StructType) -> StructType:
    """Return the columns of the row counts per group."""
    return _joined(group, _COUNTS)


def numbered_rows(
    frames: Sequence[DataFrame],
    window: Window,
    *,
    by: Sequence[str],
    order: Sequence[str],
    reach_ms: int,
    begin: Begin | None = None,
) -> DataFrame:
    """Return the rows of complete windows of the frames, which have the same groups."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructField, StructType

    for rows in frames:
        _expect_usable(rows, by, order)
    spark, keys = frames[0].sparkSession, group_columns(by)
    bodies = [
        StructType([field for field in rows.schema.fields if field.name not in by])
        for rows in frames
    ]
    tagged = [_tagged(rows, i, bodies, by, begin) for i, rows in enumerate(frames)]
    united = tagged[0]
    for each in tagged[1:]:
        united = united.unionByName(each)
    group = StructType([united.schema[name] for name in keys])
    given = _joined(group, _GIVEN)
    for i, body in enumerate(bodies):
        given = given.add(StructField(f"row{i}", body))
    processor = _processor(spark, window, reach_ms, len(keys), bodies, order)
    first = None if begin is None else _counts(spark, begin, counts_schema(group))
    made = through_processor(united, keys, processor, given, event_time=True, first=first)
    late = f.count_if(f.col(ROW_NUMBER) < 0).alias(LATE)
    return made.observe(LATE, late)


def _counts(spark: SparkSession, begin: Begin, schema: StructType) -> DataFrame:
    if begin.counts is None:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).load(begin.counts, format="parquet")


def _expect_usable(rows: DataFrame, by: Sequence[str], order: Sequence[str]) -> None:
    types = {field.name: field.dataType.typeName() for field in rows.schema.fields}
    for field, names in (("by", by), ("order", order), ("results", (TIME,))):
        for name in names:
            if name not in types:
                raise ProblemError(f"rows.{field}", f"{name!r} is no column of {sorted(types)}")
    taken = [name for name in types if name in _RESERVED]
    if taken:
        why = f"have a column {taken[0]!r}, which windows of rows have themselves; rename it"
        raise ProblemError("results", why)
    if not types[TIME].startswith("timestamp"):
        raise ProblemError("results", f"{TIME!r} is of type {types[TIME]}, not a timestamp")
    for name in order:
        if types[name] not in _ORDERED or name in by:
            why = f"{name!r}, of type {types[name]}, does not order the rows of a group"
            raise ProblemError("rows.order", why)
    for name in by:
        if name == TIME or types[name] in ("map", "variant"):
            why = f"{name!r}, of type {types[name]}, does not identify groups"
            raise ProblemError("rows.by", why)


def _tagged(
    rows: DataFrame, i: int, bodies: Sequence[StructType], by: Sequence[str], begin: Begin | None
) -> DataFrame:
    """Return the rows as the processor takes them."""
    from pyspark.sql import functions as f

    keys = [f.col(name) for name in by] or [f.lit(0).alias(_WHOLE)]
    at_ms = f.unix_millis(f.col(TIME).cast("timestamp"))
    body = [
        (f.struct(*body.names) if j == i else f.lit(None).cast(body)).alias(f"row{j}")
        for j, body in enumerate(bodies)
    ]
    timed = rows.where(f.col(TIME).isNotNull())
    if begin is not None:
        timed = timed.where(at_ms >= begin.from_ms)
    return timed.select(*keys, f.lit(i).alias(INPUT), f.col(TIME), at_ms.alias("at_ms"), *body)


def _processor(
    spark: SparkSession,
    window: Window,
    reach_ms: int,
    keys: int,
    bodies: Sequence[StructType],
    order: Sequence[str],
) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    orders = [_places(body, order) for body in bodies]
    most = max(len(each) for each in orders)
    stored = [
        StructType([StructField("at_ms", LongType()), StructField("row", body)]) for body in bodies
    ]
    return java_processor(
        spark,
        "elastream.handover.spark",
        "row_windows.java",
        "elastream.RowWindows",
        int(window.length),
        int(window.slide),
        reach_ms,
        keys,
        StructType.fromDDL(_HEAD),
        stored,
        # a shorter one repeats its last, which changes no order
        [each + each[-1:] * (most - len(each)) for each in orders],
    )


def _places(body: StructType, order: Sequence[str]) -> list[int]:
    """Return the columns that order rows of the same time: those named, or all that can."""
    if order:
        return [body.names.index(name) for name in order]
    return [i for i, field in enumerate(body.fields) if field.dataType.typeName() in _ORDERED]


def _joined(group: StructType, columns: str) -> StructType:
    from pyspark.sql.types import StructType

    more: Any = StructType.fromDDL(columns)
    return StructType([*group.fields, *more.fields])
