"""The queries of the relief benchmark: what stages they have, and on what executors they run.

A row costs a stated time in every stage that keeps state, slept there
(:mod:`elastream_lab.harness.service_time`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from elastream.model.observation import slots_of
from elastream_lab.benchmarks.relief.rows import SCHEMA, Layout, Row
from elastream_lab.harness.service_time import slowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Stages = Literal["count", "deduplicate, count", "join, count"]
_EVEN: Final = (10,) * 12
_FINER: Final = (10,) * 24
"""For executors with two slots: as many tasks a slot as above."""
_SKEWED: Final = (20, 16, 14, 12, 10, 10, 9, 8, 7, 6, 5, 3)
_ALIKE: Final = Layout(_EVEN, _EVEN)
_LATE: Final = "1 second"


@dataclass(frozen=True, slots=True)
class Shape:
    """One application."""

    stages: Stages = "count"
    layout: Layout = _ALIKE
    queries: int = 1
    cores: int = 1
    """Of an executor."""
    task_cpus: str = "1"

    @property
    def slots(self) -> int:
        """How many tasks an executor runs at once."""
        return slots_of(self.cores, float(self.task_cpus))

    @property
    def partitions(self) -> int:
        """Of each operator."""
        return len(self.layout.keys)

    @property
    def config(self) -> dict[str, str]:
        """The settings of its session."""
        return {
            "spark.task.cpus": self.task_cpus,
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        }

    def frame(self, spark: SparkSession, folder: Path, row_us: float) -> DataFrame:
        """Return one of its queries, over the files of the folder."""
        from pyspark.sql import functions as f

        rows, partitions = _read(spark, folder), self.partitions
        if self.stages == "count":
            return slowed(rows.repartition(partitions, "key"), row_us, "id").groupBy("key").count()
        if self.stages == "deduplicate, count":
            each = slowed(rows.repartition(partitions, "id"), row_us, "id").dropDuplicates(["id"])
            return slowed(each.repartition(partitions, "key"), row_us, "id").groupBy("key").count()
        rows = rows.withColumn("at", f.timestamp_seconds("second"))
        left = slowed(rows.repartition(partitions, "id"), row_us, "id").withWatermark("at", _LATE)
        right = (
            _read(spark, folder)
            .select(f.col("id").alias("its_id"), f.timestamp_seconds("second").alias("its_at"))
            .withWatermark("its_at", _LATE)
        )
        both = left.join(right, f.expr("id = its_id and its_at = at")).select("id", "key", "at")
        counted = slowed(both.repartition(partitions, "at", "key"), row_us, "id")
        return counted.groupBy("at", "key").count()

    @property
    def mode(self) -> str:
        """The output mode of its queries."""
        return "append" if self.stages == "join, count" else "update"

    def wrong(self, spark: SparkSession, name: str, checkpoint: Path, read: list[list[Row]]) -> int:
        """Return how many counts of a stopped query are wrong or missing.

        ``read``: the rows of its committed batches. Of windows, those that were put out.
        """
        if self.stages != "join, count":
            return _differing(_counts_in_state(spark, checkpoint), _counts(read))
        found = {
            (row["second"], row["key"]): row["count"]
            for row in spark.table(name)
            .selectExpr("unix_timestamp(at) second", "key", "count")
            .collect()
        }
        last = max((second for second, _ in found), default=0)
        expected = Counter((s, key) for rows in read for _, key, s in rows if s <= last)
        # All but the last batches: the watermark is a second behind, and a batch late.
        missing = max(0, len(read) - 1 - len({second for second, _ in found}) - _OPEN)
        return _differing(found, expected) + missing


SHAPES: Final[Mapping[str, Shape]] = {
    "one-stage": Shape(),
    "two-stages": Shape("deduplicate, count"),
    "join-then-count": Shape("join, count", Layout(_EVEN, _EVEN, by_second=True)),
    "two-queries": Shape(queries=2),
    "skewed": Shape(layout=Layout(_SKEWED, _SKEWED)),
    "multi-core": Shape(layout=Layout(_FINER, _FINER), cores=2),
    "fractional": Shape(layout=Layout(_FINER, _FINER), task_cpus="0.5"),
}
_OPEN: Final = 4
"""Windows that may be open at the end."""


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def _counts(read: Sequence[Sequence[Row]]) -> Counter[int]:
    return Counter(key for rows in read for _, key, _ in rows)


def _counts_in_state(spark: SparkSession, checkpoint: Path) -> dict[int, int]:
    """Return the counts in the state of the aggregation."""
    operators = spark.read.format("state-metadata").load(str(checkpoint)).collect()
    (operator,) = (o["operatorId"] for o in operators if o["operatorName"] == "stateStoreSave")
    state = spark.read.format("statestore").option("operatorId", operator).load(str(checkpoint))
    return {row["key"][0]: row["value"][0] for row in state.select("key", "value").collect()}


def _differing(found: Mapping[Any, int], expected: Mapping[Any, int]) -> int:
    return sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())
