"""Where a running query with windows of rows can be split, and whether it is past that cut.

After a batch, every row before a certain time is numbered and none from it on: the greatest time
that any group has reached. There the query can be split. The numbers that its groups have reached
are all a target must know of what was before. Executors read them from the query's own state and
write them as a table for the target's executors; only the time passes through a driver.

All of this is read from the state of a committed batch, in the background: the protocol continues
meanwhile. While a cut is being determined no batch writes output, so that the state read is that of
all outputs there are. If a batch was running, its state is read next.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.handover.model import Boundary, Timestamps
from elastream.handover.spark.gates import OriginGate
from elastream.model.errors import ProblemError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from elastream.handover.spark.windowed import WindowedQuery


_PAUSE: Final = 2
"""The pause between two checks for open windows, as a multiple of the last check's duration."""


_PROCESSOR: Final = "transformWithStateExec"


class RowCuts:
    """The cuts of one query; one check at a time."""

    def __init__(self, spark: SparkSession, query: WindowedQuery, folder: Path) -> None:
        self._spark, self._query = spark, query
        self._checkpoint = folder / "checkpoint"
        rows = query.rows
        place = None if rows is None else rows.counts
        self._place = str((folder / "counts").absolute()) if place is None else place.rstrip("/")
        self._operator: int | None = None
        self._looks = ThreadPoolExecutor(1, "row cuts")
        self._counted: Future[Boundary | None] | None = None
        self._batch: int | None = None
        self._passed: Future[tuple[bool, float]] | None = None
        self._not_before_s = 0.0

    def found(
        self, gate: OriginGate, starts: Timestamps, watermark_ms: float | None
    ) -> Boundary | None:
        """Return the boundary once there is one at or after these times; ``None`` until then."""
        needed = max(starts)
        if self._counted is None:
            batch = last_batch(self._checkpoint)
            # an idle query has no watermark
            reached = watermark_ms is None or watermark_ms >= needed
            if batch is not None and batch != self._batch and reached:
                gate.hold()
                self._batch = batch
                self._counted = self._looks.submit(self._boundary, batch, len(starts))
            return None
        if not self._counted.done():
            return None
        counted, self._counted = self._counted, None
        try:
            boundary = counted.result()
        except Exception as error:  # any error of Spark: the query continues, the target is refused
            gate.release()
            raise SparkError(f"the rows could not be counted: {_first_line(error)}") from error
        if boundary is None or boundary.activation < needed:
            gate.release()
            return None
        return gate.offer(
            lambda produced: (
                boundary if produced is None or produced < boundary.activation else None
            )
        )

    def forget(self) -> None:
        """Discard the cut that is being determined."""
        self._counted, self._batch = None, None

    def close(self) -> None:
        """Stop checking; a running check ends by itself."""
        self._looks.shutdown(wait=False, cancel_futures=True)

    def is_past(self, end: Boundary) -> bool:
        """Return whether every group has written the windows that started before the boundary."""
        passed = self._passed
        if passed is None:
            if time.monotonic() >= self._not_before_s:
                self._passed = self._looks.submit(self._is_past, end)
            return False
        if not passed.done():
            return False
        self._passed = None
        is_past, took_s = passed.result()
        self._not_before_s = time.monotonic() + _PAUSE * took_s
        return is_past

    def _boundary(self, batch: int, inputs: int) -> Boundary | None:
        # another application may write to the same folder, and another stay of this one
        place = f"{self._place}/{checkpoint_id(self._checkpoint)}-{batch}"
        cut = write_counts(self._heads(batch), place)
        if cut is None:
            return None
        return Boundary(cut - 1, cut, (cut,) * inputs, (0,) * inputs, place)

    def _is_past(self, end: Boundary) -> tuple[bool, float]:
        began_s = time.monotonic()
        batch = last_batch(self._checkpoint)
        slide = int(self._query.shape.window.slide)
        is_past = batch is not None and not has_open_windows(self._heads(batch), end.counts, slide)
        return is_past, time.monotonic() - began_s

    def _heads(self, batch: int) -> DataFrame:
        """Return the state of the processor that numbers the rows, for each group."""
        checkpoint = str(self._checkpoint)
        if self._operator is None:
            metadata = self._spark.read.format("state-metadata").load(checkpoint)
            found = metadata.where(metadata.operatorName == _PROCESSOR).select("operatorId")
            self._operator = max(int(row[0]) for row in found.distinct().collect())
        state = self._spark.read.format("statestore").option("stateVarName", "head")
        return state.option("operatorId", self._operator).option("batchId", batch).load(checkpoint)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def last_batch(checkpoint: Path) -> int | None:
    """Return the last committed batch."""
    commits = (checkpoint / "commits").glob("[0-9]*")
    return max((int(each.name) for each in commits if each.name.isdecimal()), default=None)


def checkpoint_id(checkpoint: Path) -> str:
    """Return Spark's name of a checkpoint, different for each."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


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
