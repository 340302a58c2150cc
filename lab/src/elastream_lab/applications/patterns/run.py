"""A run of the pattern miner: posts replayed, tasks moved on the way, every tick checked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.attachment import Attachment, attach
from elastream.core.policy import Policy
from elastream.goals.by_hand import ByHand
from elastream.model.checks import count, non_negative
from elastream.model.errors import ProblemError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream_lab.applications.patterns.job import PatternsJob
from elastream_lab.applications.patterns.plain_miner import Mining, mined
from elastream_lab.harness.job import running
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.harness.made_posts import make_posts
from elastream_lab.harness.recorded_file import RecordedFile, expect_columns, record_file
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.replaying import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LEAD_SHARE: Final = 30
_LEAD_BATCHES: Final = 3
_MOVE_TIMEOUT_S: Final = 300.0
_VOCABULARY: Final = 300
"""Of made posts: few words, so that some go together often."""


@dataclass(frozen=True, slots=True)
class PatternsSettings:
    """What shall be run; checked when made."""

    input: Path | None = None
    """A file of posts; ``None``: made ones."""
    time: str | None = None
    text: str | None = None
    seed: int = 1
    posts: int = 6000
    """How many are made."""
    replay_s: float = 60.0
    """How long the replay takes."""
    mining: Mining = field(default_factory=Mining)
    executors: int = 2
    partitions: int = 4
    moves: int = 2
    """How often all tasks change their executors in the replay."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("posts", self.posts, least=1, most=10**7)
        if not 1 <= non_negative("replay_s", self.replay_s) <= 86_400:
            raise ProblemError("replay_s", f"{self.replay_s:g} is not between 1 and 86400")
        count("executors", self.executors, least=1, most=16)
        count("partitions", self.partitions, least=1, most=200)
        count("moves", self.moves, most=100)
        expect_columns(self.input, {"time": self.time, "text": self.text})


@dataclass
class PatternsRun:
    """One run: what it is, and what has been seen of it so far."""

    settings: PatternsSettings
    recording: Recording
    doing: str = "starting"
    rows_done: int = 0
    reported: dict[int, frozenset[str]] = field(default_factory=dict)
    moved: int = 0
    """Tasks that were moved, and are where they were asked to be."""
    lag_batches: int | None = None
    wrong_ticks: int | None = None
    """Ticks that differ from the plain miner's, or were reported twice; ``None`` before the
    check."""
    ticks: int = 0

    @property
    def exact(self) -> bool:
        """Whether every tick was reported as the plain miner has it."""
        return self.wrong_ticks == 0


@contextmanager
def prepared(settings: PatternsSettings) -> Iterator[PatternsRun]:
    """Make or read the posts, and give the run; removes its files at the end."""
    with tempfile.TemporaryDirectory(prefix="elastream-patterns-") as name:
        path = Path(name) / "posts.arrow"
        if settings.input is None:
            due_ms = np.linspace(0, 1000 * settings.replay_s, settings.posts).astype(np.int64)
            recording = make_posts(due_ms, path, seed=settings.seed, vocabulary=_VOCABULARY)
        else:
            columns = (settings.time or "", settings.text or "")
            source = RecordedFile(settings.input, *columns, replay_s=settings.replay_s)
            recording = record_file(source, path)
        yield PatternsRun(settings, recording)


def cluster_of(settings: PatternsSettings) -> EmbeddedCluster:
    """Return the cluster that a run needs."""
    return EmbeddedCluster(
        executors=settings.executors,
        max_executors=settings.executors,
        app_name="elastream patterns",
    )


def run(made: PatternsRun, spark: SparkSession, *, show: Callable[[PatternsRun], None]) -> None:
    """Run it to the end and check it; ``show`` is called a few times a second."""
    settings, folder = made.settings, fresh_folder(spark)
    job = PatternsJob(
        made.recording,
        ReplayClock(folder / "clock"),
        folder / "checkpoint",
        settings.mining,
        partitions=settings.partitions,
    )
    made.reported = job.reported
    policy = Policy(
        min_executors=settings.executors,
        max_executors=settings.executors,
        goal=ByHand(),
    )
    expected = mined(job.posts(spark), settings.mining)
    made.ticks = len(expected)
    last = max((tick for tick, patterns in expected.items() if patterns), default=0)
    with running(spark, job) as stream:
        replay = Replay(job.feeds, stream.check)
        made.doing = "warming the query"
        replay.lead_in([job.recording.rows // _LEAD_SHARE], batches=_LEAD_BATCHES)
        with attach(stream.queries[0], policy) as attachment:
            made.doing = "replaying"
            replay.begin()
            for turn in range(1, settings.moves + 1):
                until = made.recording.rows * turn // (settings.moves + 1)
                _wait(made, replay, show, lambda rows=until: replay.rows_done >= rows)  # type: ignore[misc]
                made.moved += _rotated(attachment)
            _wait(made, replay, show, lambda: replay.has_read_all)
            made.doing = "replayed, the last tick is being reported"
            _wait(made, replay, show, lambda: not last or last in job.reported)
    made.doing = "checking against the plain miner"
    show(made)
    made.lag_batches = job.lag_batches()
    made.wrong_ticks = job.wrong(spark)


def _wait(
    made: PatternsRun,
    replay: Replay,
    show: Callable[[PatternsRun], None],
    reached: Callable[[], bool],
) -> None:
    def look() -> None:
        made.rows_done = replay.rows_done
        show(made)

    replay.wait(reached, each=look)


def _rotated(attachment: Attachment) -> int:
    """Move every task to the next executor, and return how many are there."""
    ids = [executor.id for executor in attachment.executors()]
    if len(ids) < 2:
        return 0
    following = dict(zip(ids, [*ids[1:], ids[0]], strict=True))
    wanted = {task: following[at] for task, at in attachment.where().items() if at in following}
    attachment.move(wanted)
    attachment.wait(_MOVE_TIMEOUT_S)
    where = attachment.where()
    return sum(where.get(task) == executor for task, executor in wanted.items())
