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

from elastream.core.decisions import Decision
from elastream.core.scenes import take_scene
from elastream.demo.settings import DemoSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.attachment import Attachment
    from elastream.core.scenes import Scene
    from elastream.demo.word_count import WordCount
    from elastream.harness.commit_log import CommittedBatch
    from elastream.harness.recording import Recording
    from elastream.harness.replaying import Replay
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster

__all__ = ["Demo", "DemoSample", "prepared", "run"]

_LEAD_BATCHES = 6
_SPARE_TIMEOUT_S = 120.0
"""So long the day waits for its first spare; a cluster that has none to give is no fault."""
_SETTLE_S = 30.0
"""How long after the last row a change that is under way may take to end."""


@dataclass(frozen=True, slots=True)
class DemoSample:
    """What was seen at one moment."""

    at_s: float
    """Seconds after the replay started."""
    executors: int
    """Those at work; spares are not among them."""
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
    scene: Scene | None = None
    """How it is; ``None`` before the loop is attached."""
    page: str | None = None
    """Where a browser shows it."""
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

    def tell(self, doing: str, show: Callable[[Demo], None]) -> None:
        """Say what goes on."""
        self.doing = doing
        show(self)


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


def run(
    demo: Demo,
    *,
    show: Callable[[Demo], None],
    log: Path | None = None,
    page: str | None = None,
) -> None:
    """Run the demo; ``show`` is called a few times a second.

    Decisions go to ``log`` as well, and a browser finds it on ``page``: a port, or host and port.
    """
    from elastream.attachment import attach
    from elastream.demo.word_count import warm_up_stream
    from elastream.harness.job import running
    from elastream.harness.job_session import job_session
    from elastream.harness.replay import replay_backlog
    from elastream.harness.replaying import Replay

    demo.tell(f"starting Spark, {demo.settings.executors_min} executors", show)
    with job_session(_cluster(demo.settings), lambda what: demo.tell(what, show)) as spark:
        job = _job(demo, spark)
        with running(spark, job) as run:
            replay = Replay(job.feeds, run.check)
            (demo.batches,) = replay.batches
            demo.tell("warming the query", show)
            demo.lead_rows = min(600, demo.recording.rows // 20)
            warming = demo.lead_rows * 2 // 3
            replay.lead_in([warming], batches=_LEAD_BATCHES, show=lambda: show(demo))
            with attach(
                run.queries,
                demo.settings.policy(),
                log=[demo.decisions.append, *([] if log is None else [log])],
                backlog=replay_backlog(demo.recording, job.clock),
                warm_up_stream=partial(warm_up_stream, job=job),
                page=page,
                restart=run.restart,
            ) as attachment:
                run.paused = attachment.paused
                demo.page = attachment.page
                _await_spares(demo, replay, attachment, show)
                _replay(demo, replay, attachment, show)
        demo.tell("checking against a batch count", show)
        demo.wrong_words = job.wrong(spark)
        demo.exact = demo.wrong_words == 0 and replay.has_read_all


def _cluster(settings: DemoSettings) -> EmbeddedCluster:
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster

    return EmbeddedCluster(
        executors=settings.executors_min,
        max_executors=settings.executors_max,
        app_name="elastream demo",
    )


def _job(demo: Demo, spark: SparkSession) -> WordCount:
    from elastream.demo.word_count import WordCount
    from elastream.harness.job_session import fresh_folder
    from elastream.harness.replay import ReplayClock

    folder = fresh_folder(spark)
    return WordCount(
        recording=demo.recording,
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=demo.settings.partitions,
        service_us=demo.service_us,
        trigger_s=demo.settings.trigger_s,
        rows_a_batch=demo.rows_a_batch,
    )


def _await_spares(
    demo: Demo, replay: Replay, attachment: Attachment, show: Callable[[Demo], None]
) -> None:
    """Let the day begin when the first spares are there: nobody attaches in the middle of one."""
    settings = demo.settings
    wanted = min(settings.spares, settings.executors_max - settings.executors_min)
    deadline = time.monotonic() + _SPARE_TIMEOUT_S

    def are_ready() -> bool:
        return sum(spare.warm for spare in attachment.state.spares) >= wanted

    demo.tell("preparing a spare executor" if wanted else "warming the query", show)
    with replay.fed([demo.lead_rows], every_s=settings.trigger_s):
        replay.wait(lambda: are_ready() or time.monotonic() > deadline, each=lambda: show(demo))


def _replay(
    demo: Demo, replay: Replay, attachment: Attachment, show: Callable[[Demo], None]
) -> None:
    """Replay to the end, and until no change is under way, but not for long."""
    demo.doing = "replaying"
    demo.start_ms = replay.begin()
    read_at_s: list[float] = []

    def look() -> None:
        demo.samples.append(_sample(demo, attachment))
        demo.scene = take_scene(attachment.state)
        show(demo)

    def ended() -> bool:
        if not replay.has_read_all:
            return False
        read_at_s.append(time.monotonic())
        demo.doing = "replayed, a change is still under way"
        return attachment.wait(0) or read_at_s[-1] - read_at_s[0] > _SETTLE_S

    replay.wait(ended, each=look)


def _sample(demo: Demo, attachment: Attachment) -> DemoSample:
    executors = attachment.executors()
    tasks_of: dict[str, list[int]] = {executor.id: [] for executor in executors}
    for task, executor in attachment.where().items():
        tasks_of.setdefault(executor, []).append(task.partition)
    measured = [d.utilisation for d in demo.decisions[-5:] if d.utilisation is not None]
    return DemoSample(
        at_s=time.time() - (demo.start_ms or 0) / 1000,
        executors=len(attachment.state.executors),
        tasks_of={executor: tuple(tasks) for executor, tasks in tasks_of.items()},
        utilisation=measured[-1] if measured else None,
    )
