"""Work of others on live executors: reported as it is done, and not taken for a query's own."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.spark.running_query import running, until
from tests.spark.streams import KEYS, numbers

from elastream.core.events import Fact, Status
from elastream.spark.sessions.embedded_cluster import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_S = 10.0
"""Of each of two tasks, which take both slots."""
NAP_MS = 20


def napping(spark: SparkSession, rows: int) -> DataFrame:
    """Counts by key; of the 200 rows of a batch this many take their time in the stateful stage."""
    from pyspark.sql import functions as f

    park = f"'java.util.concurrent.locks.LockSupport', 'parkNanos', {NAP_MS * 1_000_000}L"
    keyed = numbers(spark).withColumn("key", f.col("value") % KEYS).repartition("key")
    naps = f"value % 200 >= {rows} or reflect({park}) is not null"
    return keyed.where(naps).groupBy("key").count()


@contextlib.contextmanager
def competing(frame: DataFrame) -> Iterator[None]:
    """A query that no one watches, whose batches follow one another."""
    spark = frame.sparkSession
    writer = frame.writeStream.format("noop").outputMode("update").queryName("competitor")
    query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=scratch_folder(spark))).start()
    try:
        until(lambda: len(query.recentProgress) >= 2, "the competitor runs")
        yield
    finally:
        query.stop()


def test_a_long_task_of_others_is_reported_as_it_runs_and_a_batch_says_that_it_waited(
    spark: SparkSession,
) -> None:
    context = spark.sparkContext
    ran: list[float] = []

    def job() -> None:
        began = time.monotonic()
        context.parallelize(range(2), 2).map(lambda _: time.sleep(TASK_S)).count()
        ran.append(time.monotonic() - began)

    with running(napping(spark, 0), mode="update") as run:
        statuses: list[Status] = []

        def note(fact: Fact) -> None:
            if isinstance(fact, Status):
                statuses.append(fact)

        run.monitor.subscribe(note)
        run.pass_batches(2)
        quiet = run.batches[-2:]
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
        run.pass_batches(2)
        until(lambda: sum(sum(s.other_ms.values()) for s in statuses) >= 1900 * TASK_S, "all came")
    assert [batch.waited_ms for batch in quiet] == [0, 0]
    longest = max(run.batches, key=lambda batch: batch.waited_ms)
    assert 600 * TASK_S < longest.waited_ms < longest.duration_ms
    booked = Counter[str]()
    for before, now in itertools.pairwise(statuses):
        passed_ms = now.at_ms - before.at_ms
        for executor, ms in now.other_ms.items():
            booked[executor] += round(ms)
            assert ms <= passed_ms + 1500, "no more than passed, and what is reported late"
    assert len(booked) == 2
    assert all(950 * TASK_S < ms < 1000 * (max(ran) + 1) for ms in booked.values())


@pytest.mark.slow
def test_a_batch_of_a_query_that_competes_says_how_long_it_waited(spark: SparkSession) -> None:
    with running(napping(spark, 20), mode="update") as run:
        run.pass_batches(3)
        alone = run.batches[-3:]
        with competing(napping(spark, 100)):
            run.pass_batches(6)
            together = run.batches[-5:]
    assert [batch.waited_ms for batch in alone] == [0, 0, 0]
    waited_ms = median(batch.waited_ms for batch in together)
    assert waited_ms > 5 * NAP_MS
    assert all(batch.waited_ms < batch.duration_ms for batch in together)
