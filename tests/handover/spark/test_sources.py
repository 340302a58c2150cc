"""Where sources begin, in their own words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.handover import Start, files_since, kafka_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_kafka_begins_at_the_first_offset_at_the_last_or_at_those_of_a_time() -> None:
    assert kafka_start(Start.first()) == {"startingOffsets": "earliest"}
    assert kafka_start(Start.now(7)) == {"startingOffsets": "latest"}
    assert kafka_start(Start.at(5000), early_ms=1000) == {
        "startingTimestamp": "4000",
        "startingOffsetsByTimestampStrategy": "latest",
    }


def test_files_are_read_that_were_written_from_a_time_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, written_s in (("old", 1_000_000), ("new", 2_000_000)):
        path = tmp_path / "files" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'{{"name": "{name}"}}\n')
        os.utime(path, (written_s, written_s))

    def read(name: str, start: Start) -> set[str]:
        files = spark.readStream.schema("name STRING").json(str(tmp_path / "files"))
        rows = files_since(files, start, early_ms=500).select("name")
        writer = rows.writeStream.format("memory").queryName(name)
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).start().awaitTermination()
        return {row[0] for row in spark.table(name).collect()}

    assert read("from_the_first", Start.first()) == {"old", "new"}
    assert read("from_then_on", Start.at(2_000_000_500)) == {"new"}
    assert read("from_now_on", Start.now(2_000_000_501)) == set()
