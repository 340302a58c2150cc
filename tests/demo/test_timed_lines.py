"""The source and the sink for Real-time Mode that need no broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyspark
import pytest
from tests.spark.running_query import until

from elastream.demo.timed_lines import TimedLines, TimedRow, TimedRows, read, write
from elastream.spark.sessions.settings import PARTITIONS, changed_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORDS: Final = ("a", "b", "c")
SHORT: Final = {PARTITIONS: "1", "spark.sql.streaming.realTimeMode.minBatchDuration": "1s"}
"""One source task and one with state: they need two slots."""


def test_lines_go_to_the_partitions_in_turn(tmp_path: Path) -> None:
    lines = TimedLines(tmp_path / "lines", partitions=2)
    for number in range(3):
        lines.add(f"post {number}", 1000.0 + number)
    lines.close()
    texts = [(tmp_path / "lines" / str(number)).read_text() for number in range(2)]
    assert texts == ["1000 post 0\n1002 post 2\n", "1001 post 1\n"]


def test_rows_are_read_once_when_their_line_is_whole(tmp_path: Path) -> None:
    rows, file = TimedRows(tmp_path), tmp_path / "0-7-abc"
    file.write_text("20\t7\t0\ta\t1\n10\t7\t0\tb\t2\n30\t7\t0\tc")
    assert rows.more() == [TimedRow(10, 7, 0, ("b", "2")), TimedRow(20, 7, 0, ("a", "1"))]
    assert rows.more() == []
    file.write_text(file.read_text() + "\t3\n")
    assert rows.more() == [TimedRow(30, 7, 0, ("c", "3"))]


@pytest.mark.skipif(
    pyspark.__version__ < "4.3", reason="stateful queries in Real-time Mode need Spark 4.3"
)
def test_each_line_counts_once_in_real_time_mode_after_a_restart_and_in_micro_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = TimedLines(tmp_path / "lines", partitions=1)
    counts = word_counts(read(spark, tmp_path / "lines"))

    def run(name: str, **trigger: Any) -> Any:
        writer = write(counts, tmp_path / f"{name} rows").outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        with changed_settings(spark, SHORT):
            return writer.trigger(**trigger).start()

    (tmp_path / "live rows").mkdir()
    rows = TimedRows(tmp_path / "live rows")
    seen: Counter[str] = Counter()

    def all_counted() -> bool:
        assert query.isActive, query.exception()
        return sum(see(seen, rows).values()) == lines.lines

    with closing(lines):
        for _ in range(2):
            query = run("live", realTime="2 seconds")
            try:
                add_words(lines, 30)
                until(all_counted, "each word is counted")
            finally:
                query.stop()
    assert seen == dict.fromkeys(WORDS, 20)
    assert run("later", availableNow=True).awaitTermination(120)
    assert see(Counter(), TimedRows(tmp_path / "later rows")) == seen


def word_counts(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return lines.groupBy("value").agg(f.count("*").alias("n"), f.max("timestamp").alias("due"))


def add_words(lines: TimedLines, number: int) -> None:
    """Add lines that are due within half a second."""
    now_ms = 1000 * time.time()
    for place in range(number):
        lines.add(WORDS[lines.lines % 3], now_ms + 500 * place / number)


def see(seen: Counter[str], rows: TimedRows) -> Mapping[str, int]:
    """Take in the last count of each word: counts only grow."""
    for row in rows.more():
        word, count, due_ms = row.values
        assert row.at_ms >= int(due_ms)
        seen[word] = max(seen[word], int(count))
    return seen
