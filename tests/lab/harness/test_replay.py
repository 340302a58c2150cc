from __future__ import annotations

import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.made_posts import make_posts
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock, replayed, replayed_batch
from elastream_lab.harness.response_time import responses, spread
from elastream_lab.harness.service_time import hashing_pace, slowed
from elastream_lab.harness.word_count import (
    BALLAST,
    WordCount,
    counted_anew,
    counted_so_far,
    differences,
    warm_up_stream,
)
from elastream_lab.mechanisms.running_stream import RunningStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(spark: SparkSession) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch_folder(spark)))


@pytest.fixture
def recording(folder: Path) -> Recording:
    return make_posts(4 * np.arange(700), folder / "posts.arrow")


def texts(recording: Recording, until: int) -> list[str]:
    return [t for part in recording.slices(0, until) for t in part.column("text").to_pylist()]


@pytest.mark.slow  # the stream gives them in every run
def test_a_batch_read_gives_the_rows_of_the_recording(
    spark: SparkSession, recording: Recording
) -> None:
    rows = replayed_batch(spark, recording, until=500).orderBy("position").collect()
    assert [row.position for row in rows] == list(range(500))
    assert [row.text for row in rows] == texts(recording, 500)


def test_a_stream_gives_each_row_once_with_the_time_it_is_due(
    spark: SparkSession, folder: Path, recording: Recording
) -> None:
    clock = ReplayClock(folder / "clock")
    clock.open(50)
    posts = replayed(spark, recording, clock, rows_a_batch=200)
    writer = posts.writeStream.format("memory").queryName("replayed").outputMode("append")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert spark.table("replayed").where("due is null").count() == 50
        start_ms = round(time.time() * 1000) - 60_000
        clock.start(start_ms)
        query.processAllAvailable()
    finally:
        stop_gracefully(query)
    rows = spark.table("replayed").orderBy("position").collect()
    assert [row.position for row in rows] == list(range(recording.rows))
    due = [datetime.fromtimestamp((start_ms + int(ms)) / 1000, UTC) for ms in recording.due_ms]
    assert [row.due.astimezone(UTC) for row in rows[50:]] == due[50:]
    batches = committed_batches(folder / "checkpoint")
    assert [(b.start, b.end) for b in batches[:3]] == [(0, 50), (50, 250), (250, 450)]


def test_no_row_is_there_before_the_clock_says_so(folder: Path, recording: Recording) -> None:
    clock = ReplayClock(folder / "clock")
    before = clock.rows_available(recording, 1e15)
    clock.open(7)
    opened = clock.rows_available(recording, 1e15)
    clock.start(1_000_000)
    early = clock.rows_available(recording, 999_999)
    assert (before, opened, early) == (0, 7, 7)
    assert clock.rows_available(recording, 1_001_000) == recording.rows_due(1000)
    assert clock.rows_available(recording, 1e15) == recording.rows


@pytest.mark.slow
def test_a_word_count_stopped_twice_goes_on_where_it_was_and_is_exact(
    spark: SparkSession, folder: Path, recording: Recording
) -> None:
    job = WordCount(
        recording=recording,
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=4,
        service_us=20.0,
        trigger_s=0.2,
    )
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    stream = RunningStream(spark, job, lambda _: None)
    job.clock.start(round(time.time() * 1000))
    for _ in range(2):
        stream.query.processAllAvailable()
        stream.stop()
        stream.start()
    while stream.query.isActive and committed_batches(job.checkpoint)[-1].end < recording.rows:
        time.sleep(0.1)
    stream.stop()
    batches = committed_batches(job.checkpoint)
    offsets = {int(file.name) for file in (job.checkpoint / "offsets").glob("[0-9]*")}
    assert offsets == {batch.batch for batch in batches}
    assert [b.start for b in batches] == [0, *(b.end for b in batches[:-1])]
    found = counted_so_far(spark, job)
    assert found == Counter(" ".join(texts(recording, recording.rows)).split())
    assert differences(found, counted_anew(spark, job, until=recording.rows)) == 0
    assert differences(found, counted_anew(spark, job, until=recording.rows - 1)) > 0
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    times = spread(responses(recording.due_ms, job.clock.start_ms or 0, batches))
    assert times is not None
    assert 0 <= times.median <= times.p99 <= times.worst


def test_the_stream_that_warms_executors_reads_and_counts_as_the_job_does(
    spark: SparkSession, folder: Path, recording: Recording
) -> None:
    job = WordCount(recording, ReplayClock(folder / "clock"), folder / "checkpoint", partitions=2)
    replayed(spark, recording, job.clock)
    frame = warm_up_stream(SparkInternals.of(spark).cloned_session(), job)
    writer = frame.writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(folder / "warm-up")).start()
    try:
        while (progress := query.lastProgress) is None:
            assert query.isActive, query.exception()
            time.sleep(0.05)
    finally:
        stop_gracefully(query)
    assert "position" in progress.sources[0].endOffset
    assert progress.numInputRows > 0
    assert progress.stateOperators[0].numRowsTotal > 0
    assert (job.clock.start_ms, job.clock.rows_available(recording, 1e15)) == (None, 0)


@pytest.mark.slow
def test_ballast_words_have_a_large_state_that_is_checked(
    spark: SparkSession, folder: Path
) -> None:
    import numpy as np

    from elastream_lab.harness.recording import write_recording

    posts = [f"{BALLAST}1 {BALLAST}2 small", "small"]
    recorded = write_recording(folder / "ballast.arrow", np.zeros(2, dtype=np.int64), posts)
    job = WordCount(
        recording=recorded,
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=2,
        ballast_bytes=1000,
    )
    job.clock.open(2)
    (query,) = job.start(spark)
    try:
        query.processAllAvailable()
    finally:
        stop_gracefully(query)
    assert counted_so_far(spark, job) == {f"{BALLAST}1": 1, f"{BALLAST}2": 1, "small": 2}
    state = spark.read.format("statestore").load(str(job.checkpoint))
    rows = state.selectExpr("key.word", "length(value.max) as size").collect()
    assert {row.word: row.size for row in rows} == {
        f"{BALLAST}1": 1024,
        f"{BALLAST}2": 1024,
        "small": None,
    }


@pytest.mark.slow
def test_burnt_time_is_burnt_where_the_state_is_and_no_row_is_lost(spark: SparkSession) -> None:
    rows = spark.range(0, 200, 1, 1).repartition(2, "id")
    pace = hashing_pace(spark)
    burnt = slowed(rows, 100.0, "id", rounds_a_ms=pace)
    assert pace > 0
    assert burnt.count() == 200
    plan = burnt._jdf.queryExecution().optimizedPlan().toString()
    assert plan.index("reflect") < plan.index("Repartition"), "above the shuffle, not before it"
