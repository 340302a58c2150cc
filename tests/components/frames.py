"""The queries that component tests run: what they read, and what each row costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KEYS", "PARTITIONS", "counts", "first_seen", "kafka_options"]

KEYS = 40
PARTITIONS = 6
_COST = "reflect('java.lang.Thread', 'sleep', 1L)"
"""What a row costs its task: a millisecond, slept, a stand-in for work that leaves the machine's
cores to the rest of the test."""


_IMPATIENT = {
    "kafka.default.api.timeout.ms": "5000",
    "kafka.request.timeout.ms": "4000",
    "fetchOffset.numRetries": "1",
}


def kafka_options(servers: str, *, impatient: bool = False) -> dict[str, str]:
    """Return where Kafka is; the impatient give up after seconds, others after a minute or more."""
    return {"kafka.bootstrap.servers": servers, **(_IMPATIENT if impatient else {})}


def counts(spark: SparkSession, **source: Any) -> DataFrame:
    """Rows and sum of each key."""
    from pyspark.sql import functions as f

    return (
        _costly(spark, **source)
        .groupBy("key")
        .agg(f.count("*").alias("n"), f.sum("value").alias("total"), f.count("cost").alias("cost"))
        # what is not shown is not computed
        .select("key", f.to_json(f.struct("n", "total", "cost")).alias("value"))
    )


def first_seen(spark: SparkSession, **source: Any) -> DataFrame:
    """Each value once, however often it comes."""
    return _numbers(spark, **source).select("value").dropDuplicates(["value"])


def _costly(spark: SparkSession, **source: Any) -> DataFrame:
    from pyspark.sql import functions as f

    # by key first, so that the cost is that of the stateful task
    return (
        _numbers(spark, **source).repartition(PARTITIONS, "key").withColumn("cost", f.expr(_COST))
    )


def _numbers(
    spark: SparkSession, servers: str, topics: list[str], limit: int, *, impatient: bool = False
) -> DataFrame:
    options = kafka_options(servers, impatient=impatient)
    reader = spark.readStream.format("kafka").options(**options)
    reader = reader.option("subscribe", ",".join(topics)).option("startingOffsets", "earliest")
    return (
        reader.option("maxOffsetsPerTrigger", limit)
        .load()
        .selectExpr("cast(key as string) as key", "cast(cast(value as string) as long) as value")
    )
