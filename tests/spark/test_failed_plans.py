"""Batches that cannot be planned: the query ends with its error; the door says there is no plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from elastream.spark.internals.spark_internals import SparkInternals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def started(frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("noop").outputMode("update").queryName("replaced")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_a_batch_that_cannot_be_planned_has_no_operators_and_is_no_fault(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = started(rows(spark).groupBy("value").count(), tmp_path)
    first.awaitTermination()
    other = started(rows(spark).dropDuplicates(["value"]), tmp_path)
    with pytest.raises(StreamingQueryException, match="STATE_METADATA"):
        other.awaitTermination()
    queries = SparkInternals.of(spark).queries
    failed = queries.of(other)
    assert failed.execution.lastExecution() is not None
    assert queries.operators(failed) is None
    assert queries.scans(failed) == ()
    assert queries.writer_nodes(failed) == {}
    assert queries.metric_names(failed, ["numTotalStateRows"]) == {}
