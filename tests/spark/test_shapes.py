"""Every shape of a stateful query can be steered, with as many tasks as it really has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import running
from tests.spark.streams import KEYS, numbers, totals

from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.observe.watched_query import refusal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FEW = 7


def limited(spark: SparkSession) -> DataFrame:
    return numbers(spark).limit(FEW)


def distinct(spark: SparkSession) -> DataFrame:
    return numbers(spark).withColumn("key", key()).dropDuplicates(["key"])


def sessions(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    stamped = numbers(spark).withWatermark("timestamp", "2 seconds")
    return stamped.groupBy(f.session_window("timestamp", "1 second"), key()).count()


def counts_of_counts(spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as f

    stamped = numbers(spark).withWatermark("timestamp", "1 second")
    first = stamped.groupBy(f.window("timestamp", "2 seconds"), key()).count()
    return first.groupBy(f.window("window", "4 seconds")).agg(f.sum("count").alias("n"))


def key() -> Column:
    from pyspark.sql import functions as f

    return (f.col("value") % KEYS).alias("key")


@pytest.mark.parametrize(
    ("shape", "mode", "tasks"),
    [
        pytest.param(totals, "complete", 1, marks=pytest.mark.slow),
        pytest.param(limited, "append", 1, marks=pytest.mark.slow),
        pytest.param(distinct, "append", 4, marks=pytest.mark.slow),
        (sessions, "append", 4),
        pytest.param(counts_of_counts, "append", 8, marks=pytest.mark.slow),
    ],
)
def test_all_tasks_of_a_shape_are_known_and_go_where_they_are_asked_to(
    spark: SparkSession, shape: Callable[[SparkSession], DataFrame], mode: str, tasks: int
) -> None:
    with running(shape(spark), mode=mode, sink="memory") as run:
        assert len(run.tasks) == tasks
        for executor in run.executor_ids():
            run.settle(dict.fromkeys(run.tasks, executor))
        if shape is limited:
            assert len({row.value for row in spark.table(run.sink).collect()}) == FEW


def test_real_time_mode_is_steered_where_spark_keeps_state_in_it(
    spark: SparkSession,
) -> None:
    check = "spark.sql.streaming.realTimeMode.allowlistCheck"
    internals = SparkInternals.of(spark)
    stream = spark.readStream.format("rate").load().dropDuplicates(["value"])
    writer = stream.writeStream.format("noop").outputMode("update")
    writer = writer.trigger(realTime="5 minutes")  # type: ignore[call-overload]
    spark.conf.set(check, "false")
    try:
        query = writer.start()  # it ends soon: of what Spark ships only Kafka can be read so
    finally:
        spark.conf.unset(check)
    running, variant = internals.queries.of(query), internals.variant
    try:
        assert refusal(internals, running) is None
        internals.variant = replace(variant, has_stateful_realtime=False)
        why = refusal(internals, running)
        assert why is not None
        assert "has for queries without state only" in why
    finally:
        query.stop()
