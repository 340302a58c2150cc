"""A place for work without state: a keyed stage that keeps nothing.

Spark runs a parser or a filter on whichever core is free; only a partition of state has an executor
that the coordinator knows. So rows are sent through a stateful operator whose state is empty. What
follows it, up to the next shuffle, runs in its tasks, and they are placed like any other's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elastream.model.errors import ProblemError
from elastream.spark.internals.row_processors import java_processor, through_processor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_GROUP: Final = "_placed_group"
_GROUPS: Final = 4096
"""Many for each partition, so that these are alike, and few for the rows of a batch, since each
group is a call of the processor."""
_UNHASHED: Final = ("map<", "variant", "geometry", "geography")


def placed(rows: DataFrame, *by: str) -> DataFrame:
    """Return the same rows, from a stage of their own that has a place.

    What is done with them next, such as to parse and filter them, is done there, up to the next
    shuffle. Rows that are equal in the columns ``by`` (without: in all columns) share a partition.
    It costs a shuffle and a pass through the state store's commit, whatever is done with the rows.
    Rows of a batch computation are returned as they are.
    """
    from pyspark.sql import functions as f

    names = _distinguishing(rows, by)
    if not rows.isStreaming:
        return rows
    group = f.pmod(f.xxhash64(*(rows[name] for name in names)), f.lit(_GROUPS))
    grouped = rows.select("*", group.alias(_GROUP))
    processor = java_processor(
        rows.sparkSession, "elastream.spark.internals", "placed_rows.java", "elastream.PlacedRows"
    )
    return through_processor(grouped, [_GROUP], processor, grouped.schema).drop(_GROUP)


def _distinguishing(rows: DataFrame, by: tuple[str, ...]) -> list[str]:
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    if _GROUP in types:
        raise ProblemError(
            "rows", f"have a column {_GROUP!r}, which is this stage's own; rename it"
        )
    for name in by:
        if name not in types:
            raise ProblemError("by", f"{name!r} is no column of {sorted(types)}")
        if not _hashed(types[name]):
            raise ProblemError("by", f"{name!r}, of type {types[name]}, does not tell rows apart")
    names = list(by) or [name for name, kind in types.items() if _hashed(kind)]
    if not names:
        raise ProblemError("by", f"no column of {sorted(types)} tells rows apart")
    return names


def _hashed(kind: str) -> bool:
    return not any(each in kind for each in _UNHASHED)
