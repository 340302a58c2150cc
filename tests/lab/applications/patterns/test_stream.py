"""The pattern miner on real executors, exact through moves, a kill and a restart."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.spark.processes import kill
from tests.spark.running_query import PATIENCE_S

import elastream
from elastream.spark.sessions.embedded_cluster import scratch_folder
from elastream_lab.applications.patterns.job import PatternsJob
from elastream_lab.applications.patterns.maximal import maximal_patterns
from elastream_lab.applications.patterns.plain_miner import Mining, changes, mined
from elastream_lab.harness.job import RunningJob, running
from elastream_lab.harness.recording import write_recording
from elastream_lab.harness.replay import ReplayClock, replayed_batch
from elastream_lab.harness.replaying import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINING = Mining(window=40, tick=10, least=5, most_words=3)
POSTS = 320


def made_job(spark: SparkSession) -> PatternsJob:
    """Posts of a few words, with some that go together for a while."""
    folder = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    chance = random.Random(3)
    words = [f"w{number}" for number in range(9)]
    texts = []
    for post in range(POSTS):
        fashion = words[post // 40 % 7 : post // 40 % 7 + 2] if chance.random() < 0.4 else []
        texts.append(" ".join([*chance.sample(words, chance.randint(0, 4)), *fashion]))
    recording = write_recording(
        folder / "posts.arrow", np.arange(POSTS, dtype=np.int64) * 100, texts
    )
    return PatternsJob(
        recording, ReplayClock(folder / "clock"), folder / "checkpoint", MINING,
        partitions=3, trigger_s=0.2, rows_a_batch=25,
    )  # fmt: skip


def test_a_table_has_the_patterns_of_the_plain_miner(spark: SparkSession) -> None:
    job = made_job(spark)
    table = replayed_batch(spark, job.recording, until=POSTS)
    found: dict[int, set[str]] = {}
    for row in maximal_patterns(table, MINING).collect():
        found.setdefault(row["tick"], set()).add(row["pattern"])
    expected = mined(job.posts(spark), MINING)
    assert len(expected) == POSTS // MINING.tick - 1
    assert any(" " in pattern for patterns in expected.values() for pattern in patterns)
    assert {tick: patterns for tick, patterns in expected.items() if patterns} == {
        tick: patterns for tick, patterns in found.items() if tick in expected
    }


@pytest.mark.slow
def test_the_stream_is_exact_through_moves_a_kill_and_a_restart(spark: SparkSession) -> None:
    job = made_job(spark)
    policy = elastream.Policy(
        min_executors=2,
        max_executors=2,
        goal=elastream.ByHand(),
        cooldown_s=0,
        movement=elastream.Movement(warm_up=False),
    )
    with running(spark, job) as stream:
        replay = Replay(job.feeds, stream.check)
        replay.open([80])
        replay.wait(lambda: replay.rows_done >= 80)
        with (
            elastream.attach(stream.queries[0], policy) as attachment,
            replay.fed([200], every_s=0.2, steps=12),
        ):
            _moved(attachment)
            kill(spark, attachment.executors()[-1].id)
        _restarted(stream)
        with (
            elastream.attach(stream.queries[0], policy) as attachment,
            replay.fed([POSTS - 20], every_s=0.2, steps=8),
        ):
            attachment.wait(PATIENCE_S)
        replay.open([POSTS])
        last = max(tick for tick, patterns in mined(job.posts(spark), MINING).items() if patterns)
        replay.wait(lambda: replay.has_read_all and last in job.reported)
    assert job.wrong(spark) == 0
    lag = job.lag_batches()
    assert lag is not None
    assert lag <= 2
    assert {became for _, _, became in changes(job.reported)} == {True, False}


def _moved(attachment: elastream.Attachment) -> None:
    """Move every task to the other executor."""
    where = attachment.where()
    ids = [executor.id for executor in attachment.executors()]
    other = dict(zip(ids, reversed(ids), strict=True))
    attachment.move({task: other[at] for task, at in where.items()})
    assert attachment.wait(PATIENCE_S)


def _restarted(stream: RunningJob) -> None:
    stream.stop()
    stream.start()
