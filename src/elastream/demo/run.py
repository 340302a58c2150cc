"""The demo: a stream whose rate follows a day, made elastic, and checked at its end.

The cluster starts, the query starts on a few opened rows until its executors are warm, the
controller is attached, and the replay begins. From then on nothing here acts: the controller
decides, this module watches. At the end the query stops at a batch boundary and every word's count
in its state is compared with a batch count of the same posts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from elastream.demo.settings import DemoSettings
from elastream.loop.decisions import Decision
from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.attachment import Attachment
    from elastream.demo.word_count import WordCount
    from elastream.harness.commit_log import CommittedBatch
    from elastream.harness.recording import Recording

__all__ = ["Demo", "DemoSample", "prepared", "run"]

_LEAD_BATCHES = 6
_LOOK_S = 0.5
_SETTLE_S = 30.0
"""How long after the last row a change that is under way may take to end."""
_STUCK_S = 120.0
"""How long the query may be behind without any progress; a slow machine is no fault."""


@dataclass(frozen=True, slots=True)
class DemoSample:
    """What was seen at one moment."""

    at_s: float
    """Seconds after the replay started."""
    executors: int
    tasks_of: dict[str, tuple[int, ...]]
    """State partitions of each executor that is alive, by its id."""
    utilisation: float | None


@dataclass
class Demo:
    """One run of the demo: what it is, and what has been seen of it so far."""

    settings: DemoSettings
    recording: Recording
    service_us: float
    rows_a_batch: int | None
    """Most rows that a batch takes, so that an overload does not make batches ever longer."""
    doing: str = "starting"
    """What goes on, in a few words."""
    start_ms: int | None = None
    """When the replay started; ``None`` before."""
    lead_rows: int = 0
    """Rows that were opened before that, to warm the query."""
    decisions: list[Decision] = field(default_factory=list)
    batches: list[CommittedBatch] = field(default_factory=list)
    samples: list[DemoSample] = field(default_factory=list)
    exact: bool | None = None
    """Whether every word's count is that of the batch job; ``None`` before the check."""
    wrong_words: int = 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the replay started, not beyond its last row."""
        if self.start_ms is None:
            return 0.0
        return min(time.time() - self.start_ms / 1000, self.recording.replay_s)

    @property
    def rows_done(self) -> int:
        """How many rows are in committed batches."""
        return self.batches[-1].end if self.batches else 0


@contextmanager
def prepared(settings: DemoSettings) -> Iterator[Demo]:
    """Make or read the posts, and give the demo; removes its files at the end."""
    from elastream.demo.made_posts import MadeDay, make_day
    from elastream.harness.recorded_file import RecordedFile, record_file

    with tempfile.TemporaryDirectory(prefix="elastream-demo-") as folder:
        path = Path(folder) / "posts.arrow"
        if settings.input is None:
            day = MadeDay(seed=settings.seed, replay_s=settings.replay_s)
            recording = make_day(day, path)
        else:
            columns = (settings.time or "", settings.text or "")
            file = RecordedFile(settings.input, *columns, replay_s=settings.replay_s)
            recording = record_file(file, path)
        service_us = settings.service_us_for(recording.words_a_second())
        rows_a_batch = settings.rows_a_batch(recording.words_a_post, service_us)
        yield Demo(settings, recording, service_us, rows_a_batch)


def run(demo: Demo, *, show: Callable[[Demo], None], log: Path | None = None) -> None:
    """Run the demo; ``show`` is called about twice a second, decisions go to ``log`` as well."""
    from elastream.attachment import attach
    from elastream.demo.word_count import warm_up_stream
    from elastream.harness.replay import replay_backlog

    with _cluster(demo, show) as (spark, job):
        query = _warmed_query(demo, spark, job, show)
        attachment = attach(
            query,
            demo.settings.policy(),
            log=[demo.decisions.append, *([] if log is None else [log])],
            backlog=replay_backlog(demo.recording, job.clock),
            warm_up_stream=partial(warm_up_stream, job=job),
        )
        with attachment:
            _replay(demo, job, query, attachment, show)
        demo.doing = "checking against a batch count"
        show(demo)
        _check(demo, spark, job, query)


@contextmanager
def _cluster(demo: Demo, show: Callable[[Demo], None]) -> Iterator[tuple[SparkSession, WordCount]]:
    from elastream.demo.word_count import WordCount
    from elastream.harness.commit_log import RETAIN_ALL
    from elastream.harness.replay import ReplayClock
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, scratch_folder
    from elastream.spark.sessions.embedded_session import embedded_session

    settings = demo.settings
    cluster = EmbeddedCluster(
        executors=settings.executors_min,
        max_executors=settings.executors_max,
        app_name="elastream demo",
        config=RETAIN_ALL,
    )
    demo.doing = f"starting Spark, {settings.executors_min} executors"
    show(demo)
    with embedded_session(cluster) as spark:
        folder = scratch_folder(spark)
        yield (
            spark,
            WordCount(
                recording=demo.recording,
                clock=ReplayClock(folder / "clock"),
                checkpoint=folder / "checkpoint",
                partitions=settings.partitions,
                service_us=demo.service_us,
                trigger_s=settings.trigger_s,
                rows_a_batch=demo.rows_a_batch,
            ),
        )


def _warmed_query(
    demo: Demo, spark: SparkSession, job: WordCount, show: Callable[[Demo], None]
) -> StreamingQuery:
    """Start the query and feed it a few rows at a time, until its first batches are behind it."""
    from elastream.demo.word_count import start

    demo.doing = "warming the query"
    demo.lead_rows = min(600, demo.recording.rows // 20)
    query = start(spark, job)
    for batch in range(1, _LEAD_BATCHES + 1):
        job.clock.open(demo.lead_rows * batch // _LEAD_BATCHES)
        show(demo)
        query.processAllAvailable()
    return query


def _replay(
    demo: Demo,
    job: WordCount,
    query: StreamingQuery,
    attachment: Attachment,
    show: Callable[[Demo], None],
) -> None:
    demo.doing = "replaying"
    demo.start_ms = round(time.time() * 1000)
    job.clock.start(demo.start_ms)
    end_s = demo.start_ms / 1000 + demo.recording.replay_s
    done, done_s = demo.rows_done, end_s
    while True:
        _look(demo, job, attachment)
        show(demo)
        if not query.isActive:
            raise SparkError(f"the query ended: {query.exception() or 'nobody knows why'}")
        now_s = time.time()
        if demo.rows_done > done:
            done, done_s = demo.rows_done, max(now_s, end_s)
        if done == demo.recording.rows:
            if attachment.wait(0) or now_s - done_s > _SETTLE_S:
                return
            demo.doing = "replayed, a change is still under way"
        elif now_s - done_s > _STUCK_S:
            raise SparkError(f"the query is behind, and read no row for {now_s - done_s:.0f} s")
        time.sleep(_LOOK_S)


def _look(demo: Demo, job: WordCount, attachment: Attachment) -> None:
    from elastream.harness.commit_log import committed_batches

    last = demo.batches[-1].batch if demo.batches else -1
    demo.batches.extend(committed_batches(job.checkpoint, after=last))
    executors = attachment.executors()
    tasks_of: dict[str, list[int]] = {executor.id: [] for executor in executors}
    for task, executor in attachment.where().items():
        tasks_of.setdefault(executor, []).append(task.partition)
    measured = [d.utilisation for d in demo.decisions[-5:] if d.utilisation is not None]
    demo.samples.append(
        DemoSample(
            at_s=time.time() - (demo.start_ms or 0) / 1000,
            executors=len(executors),
            tasks_of={executor: tuple(tasks) for executor, tasks in tasks_of.items()},
            utilisation=measured[-1] if measured else None,
        )
    )


def _check(demo: Demo, spark: SparkSession, job: WordCount, query: StreamingQuery) -> None:
    from elastream.demo.word_count import counted_anew, counted_so_far, differences
    from elastream.spark.steer.graceful_stop import stop_gracefully

    stop_gracefully(query)
    expected = counted_anew(spark, job, until=demo.recording.rows)
    demo.wrong_words = differences(counted_so_far(spark, job), expected)
    demo.exact = demo.wrong_words == 0 and demo.rows_done == demo.recording.rows
