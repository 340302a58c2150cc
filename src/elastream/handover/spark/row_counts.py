"""Number of rows of each group at a moment, read from a query's own state by its executors.

After a batch, every row before a certain time is numbered and none from it on: the greatest time
that any group has reached. At that time a query with windows of rows can be split, and the numbers
that its groups have reached are all that a target must know of what was before. They are written as
a table that the target's executors read; only the time passes through a driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.model.errors import ProblemError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_PROCESSOR: Final = "transformWithStateExec"


def last_batch(checkpoint: Path) -> int | None:
    """Return the last committed batch."""
    commits = (checkpoint / "commits").glob("[0-9]*")
    return max((int(each.name) for each in commits), default=None)


def write_counts(heads: DataFrame, place: str) -> int | None:
    """Write the row count of each group after a batch; return up to which time.

    ``None`` if no group has any row yet.
    """
    from pyspark.sql import functions as f

    heads.select("key.*", "value.reached", "value.numbered").write.mode("overwrite").parquet(place)
    found: Any = heads.sparkSession.read.parquet(place).agg(f.max("reached")).first()
    return None if found is None or found[0] is None else int(found[0])


def expect_counts(spark: SparkSession, place: str, groups: list[str]) -> None:
    """Reject counts that cannot be read here, or that belong to other groups."""
    from pyspark.errors import PySparkException

    try:
        found = spark.read.parquet(place).columns
    except PySparkException as error:
        why = str(error).splitlines()[0]
        raise ProblemError(
            "rows.counts", f"{place} cannot be read here: {why}; name a folder both sides reach"
        ) from None
    if found[:-2] != groups:
        raise ProblemError("rows.by", f"is {groups} here, and {found[:-2]} at the origin")


def has_open_windows(heads: DataFrame, place: str, slide: int) -> bool:
    """Return whether a window that started before the counts were written is still incomplete."""
    from pyspark.sql import functions as f

    counts = heads.sparkSession.read.parquet(place)
    groups = counts.columns[:-2]
    first = f.ceil(f.array_max("numbered") / slide) * slide
    theirs = counts.select(f.struct(*groups).alias("group"), first.alias("first"))
    own = heads.select(
        f.struct(*(f.col("key")[name].alias(name) for name in groups)).alias("of"), "value.next"
    )
    met = own.join(theirs, f.col("of").eqNullSafe(f.col("group")))
    return bool(met.where("next < first").limit(1).count())


def processor_of(spark: SparkSession, checkpoint: Path) -> int:
    """Return the stateful operator of the query that numbers the rows."""
    metadata = spark.read.format("state-metadata").load(str(checkpoint))
    found = metadata.where(metadata.operatorName == _PROCESSOR).select("operatorId").distinct()
    return max(int(row[0]) for row in found.collect())


def heads_after(spark: SparkSession, checkpoint: Path, operator: int, batch: int) -> DataFrame:
    """Return the state of the processor for each group after a batch."""
    state = spark.read.format("statestore").option("stateVarName", "head")
    return state.option("operatorId", operator).option("batchId", batch).load(str(checkpoint))
