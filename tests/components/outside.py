"""The world around an application, on a Spark of its own: makes topics and rows, and knows what is
right. ``python -m tests.components.outside`` takes one request a line and answers with one line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tests.components.frames import KEYS, kafka_options
from tests.components.parts import classpath
from tests.components.sparks import DELTA_SETTINGS, with_delta

from elastream.spark.sessions.batch_session import batch_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Outside:
    """What it can be asked for."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self._spark = spark
        self._servers = servers

    def make(self, topics: Mapping[str, int]) -> None:
        """Make topics with this many partitions."""
        jvm = self._spark.sparkContext._jvm
        assert jvm is not None
        given = jvm.java.util.HashMap()
        given.put("bootstrap.servers", self._servers)
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(given)
        try:
            wanted = jvm.java.util.ArrayList()
            for name, partitions in topics.items():
                one = jvm.java.util.Optional
                new = jvm.org.apache.kafka.clients.admin.NewTopic
                wanted.add(new(name, one.of(partitions), one.empty()))
            admin.createTopics(wanted).all().get()
        finally:
            admin.close()

    def send(self, topics: list[str], first: int, rows: int) -> None:
        """Write rows, evenly to all topics: row i has the value i."""
        from pyspark.sql import functions as f

        names = f.array(*(f.lit(topic) for topic in topics))
        number = f.col("id")
        self._spark.range(first, first + rows, 1, 1).select(
            names[(number % len(topics)).cast("int")].alias("topic"),
            (number % KEYS).cast("string").alias("key"),
            number.cast("string").alias("value"),
        ).write.format("kafka").options(**kafka_options(self._servers)).save()

    def rows(self, topics: list[str]) -> int:
        """Return how many rows there are."""
        return self._topics(topics).count()

    def counted(self, offsets: Mapping[str, Any]) -> dict[str, list[int]]:
        """Return rows and sum of each key, of all rows up to these offsets."""
        from pyspark.sql import functions as f

        rows = self._read(offsets).groupBy("key").agg(f.count("*"), f.sum("value"))
        return {row[0]: [row[1], row[2]] for row in rows.collect()}

    def values(self, offsets: Mapping[str, Any]) -> list[int]:
        """Return how many rows there are up to these offsets, and how many values they have."""
        rows = self._read(offsets).select("value")
        return [rows.count(), rows.distinct().count()]

    def state(self, checkpoint: str) -> dict[str, list[int]]:
        """Return rows and sum of each key, as the state of a query has them."""
        rows = self._spark.read.format("statestore").load(checkpoint).select("key", "value")
        return {str(row["key"][0]): [row["value"][0], row["value"][1]] for row in rows.collect()}

    def report(self, topic: str) -> list[list[Any]]:
        """Return everything that a query has written to a topic."""
        rows = self._topics([topic]).selectExpr(
            "cast(key as string)", "from_json(cast(value as string), 'n long, total long') as v"
        )
        return [[row[0], row[1][0], row[1][1]] for row in rows.collect()]

    def windows(self, topics: list[str], length_ms: int, slide_ms: int) -> list[list[Any]]:
        """Return start, key, rows and sum of each window by the records' times, in one batch."""
        from pyspark.sql import functions as f

        span = f.window("timestamp", f"{length_ms} milliseconds", f"{slide_ms} milliseconds")
        start = f.unix_millis(f.col("span.start"))
        rows = self._topics(topics).groupBy(span.alias("span"), f.col("key").cast("string"))
        value = f.col("value").cast("string").cast("long")
        found = rows.agg(f.count("*"), f.sum(value)).withColumn("span", start)
        return [list(row) for row in found.collect()]

    def put_out(self, topic: str = "", table: str = "") -> list[list[Any]]:
        """Return what a handed over query has written: coordinate, key, rows and sum."""
        if table:
            rows = self._spark.read.format("delta").load(table)
        else:
            what = "coordinate long, key string, rows long, total long"
            parsed = f"from_json(cast(value as string), '{what}') as v"
            rows = self._topics([topic]).selectExpr(parsed).select("v.*")
        return [list(row) for row in rows.select("coordinate", "key", "rows", "total").collect()]

    def table(self, path: str) -> list[int]:
        """Return the rows of a table, how many values they have, how often it was compacted."""
        rows = self._spark.read.format("delta").load(path)
        history = self._spark.sql(f"DESCRIBE HISTORY delta.`{path}`")
        compacted = history.where("operation = 'OPTIMIZE'").count()
        return [rows.count(), rows.select("value").distinct().count(), compacted]

    def _read(self, offsets: Mapping[str, Any]) -> DataFrame:
        return self._topics(list(offsets), endingOffsets=json.dumps(offsets)).selectExpr(
            "cast(key as string) as key", "cast(cast(value as string) as long) as value"
        )

    def _topics(self, topics: list[str], **options: str) -> DataFrame:
        reader = self._spark.read.format("kafka").options(**kafka_options(self._servers))
        return reader.options(subscribe=",".join(topics), **options).load()


def main(servers: str) -> None:
    parts = ["kafka-connector", *(["delta"] if with_delta() else [])]
    settings = {
        # not as spark.jars, whose classes Python cannot reach
        "spark.driver.extraClassPath": classpath(*parts),
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        **(DELTA_SETTINGS if with_delta() else {}),
    }
    with batch_session("outside", master="local[1]", config=settings) as spark:
        outside = Outside(spark, servers)
        for line in sys.stdin:
            asked = json.loads(line)
            answer = getattr(outside, asked.pop("ask"))(**asked)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
