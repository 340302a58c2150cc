"""A query is stopped at a batch boundary, whatever it does when it is asked to stop."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import until

from elastream import stop_gracefully

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.name.isdigit()}


@pytest.mark.parametrize("trigger_ms", [0, 80])
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
