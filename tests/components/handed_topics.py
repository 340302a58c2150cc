"""A windowed query over Kafka's topics, for ``elastream handover``; the environment says where."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.components.frames import kafka_options

from elastream.handover import (
    QueryShape,
    Start,
    Window,
    WindowedQuery,
    delta_sink,
    kafka_sink,
    kafka_start,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = "HANDED_TOPICS"
"""Servers, topics, and where results go: a topic, or a table."""
LENGTH_MS = 4000
SLIDE_MS = 2000
LATENESS_MS = 20_000
"""Producers of a busy machine stamp rows long before they arrive."""


def sums() -> WindowedQuery:
    """Rows and sum of each key and window, by the records' own times."""
    given = json.loads(os.environ[SETTINGS])
    servers = given["servers"]

    def inputs(spark: SparkSession, start: Start) -> tuple[DataFrame, ...]:
        reader = spark.readStream.format("kafka").options(**kafka_options(servers))
        reader = reader.options(subscribe=",".join(given["topics"]), **kafka_start(start))
        rows = reader.load().selectExpr(
            "timestamp AS at", "cast(key AS string) AS key", "cast(cast(value AS string) AS long) v"
        )
        return (rows,)

    def results(inputs: tuple[DataFrame, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        span = f.window("at", f"{LENGTH_MS} milliseconds", f"{SLIDE_MS} milliseconds")
        grouped = inputs[0].groupBy(span.alias("span"), "key")
        sums = grouped.agg(f.count("*").alias("rows"), f.sum("v").alias("total"))
        start = f.unix_millis("span.start").alias("coordinate")
        return sums.select(start, "key", "rows", "total")

    sink = delta_sink(given["table"]) if "table" in given else kafka_sink(servers, given["topic"])
    shape = QueryShape("sums", Window.of("time", LENGTH_MS, SLIDE_MS), 1, lateness=LATENESS_MS)
    return WindowedQuery(shape, inputs, results, sink=sink)
