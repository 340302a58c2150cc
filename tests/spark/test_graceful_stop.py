"""A query is stopped at a batch boundary, whatever it does when it is asked to stop."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import until

from elastream import stop_gracefully

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.name.isdigit()}


@pytest.mark.parametrize("trigger_ms", [pytest.param(0, marks=pytest.mark.slow), 80])
def test_no_batch_is_cut_at_any_moment(
    spark: SparkSession, tmp_path: Path, trigger_ms: int
) -> None:
    moments = random.Random(trigger_ms)
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    for stop in range(5):
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()
        until(lambda: query.lastProgress is not None, "a batch has passed")  # noqa: B023
        time.sleep(moments.random() * 0.2)
        stop_gracefully(query)
        assert not query.isActive
        assert query.exception() is None
        begun, committed = (names(tmp_path / "c" / each) for each in ("offsets", "commits"))
        assert begun == committed, f"stop {stop}"


def test_what_a_batch_without_rows_would_put_out_waits_for_a_row_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's own: a query that goes on begins with rows, though its watermark has passed."""
    from pyspark.sql import functions as f

    source, report = tmp_path / "rows", list[int]()

    def write(name: str, *seconds: int) -> None:
        lines = "".join(json.dumps({"at": second}) + "\n" for second in seconds)
        source.mkdir(exist_ok=True)
        (source / name).write_text(lines)

    def start() -> StreamingQuery:
        rows = spark.readStream.schema("at LONG").json(str(source))
        times = rows.select(f.timestamp_seconds("at").alias("time"))
        windows = times.withWatermark("time", "0 seconds").groupBy(f.window("time", "1 minute"))
        counts = windows.count().select(f.unix_timestamp("window.start").alias("begin"))

        def tell(batch: DataFrame, _: int) -> None:
            report.extend(row["begin"] for row in batch.collect())

        writer = counts.writeStream.foreachBatch(tell)
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
        return writer.trigger(processingTime="1 hour").start()

    write("a.json", 30, 90)
    first = start()
    until(lambda: first.lastProgress is not None, "a batch has passed")
    stop_gracefully(first)
    second = start()
    until(lambda: second.status["message"] == "Waiting for next trigger", "it has looked for rows")
    assert report == []
    stop_gracefully(second)
    write("b.json", 91)
    third = start()
    until(lambda: report == [0], "the window is put out with the next row")
    stop_gracefully(third)
