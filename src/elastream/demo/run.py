"""The demo: a stream whose rate changes, made elastic, and checked at its end.

The cluster starts, the query counts a few files until it is warm, the loop is attached, and files
come as the story says. From then on the loop decides and this module watches. At the end the query
stops at a batch boundary and every word's count in its state is compared with a batch count of the
same posts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from elastream.core.decisions import Decision
from elastream.core.policy import Movement, Policy, Timeouts, planner_named
from elastream.core.scenes import take_scene
from elastream.demo.posts import EVERY_S, WORDS_A_POST, Load, busy_spell, file_of_posts, whole_day
from elastream.goals.utilisation import Utilisation
from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.attachment import Attachment
    from elastream.core.scenes import Scene


_BUSY: Final = 0.5
"""Share of all executors' time that the busiest moment sleeps: with what a batch takes besides, the
policy's target needs the most executors for it."""
_LEAST_EXECUTORS: Final = 2
_LOOK_S: Final = 0.3
_WARMING_FILES: Final = 4
_WARMING_POSTS: Final = 100
_SPARE_TIMEOUT_S: Final = 60.0
_MOST_QUIET_FILES: Final = 20
"""How many files may come after the last one of the load, ever more rarely, until a machine that is
busy with other work scales in."""
_STUCK_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A file whose posts are counted: one batch."""

    due_ms: float
    """When it came, in milliseconds since the epoch."""
    posts: int
    finished_ms: float
    """When its batch was committed."""

    @property
    def response_ms(self) -> float:
        """How long its posts waited until they were counted."""
        return self.finished_ms - self.due_ms


@dataclass(frozen=True, slots=True)
class DemoSample:
    """What was seen at one moment."""

    at_s: float
    """Seconds after the first file came."""
    executors: int
    """Those at work."""
    alive: int
    """With the spare."""
    utilisation: float | None


@dataclass
class Demo:
    """One run of the demo: what it is, and what has been seen of it so far."""

    long: bool = False
    """Whether it is the whole day."""
    planner: str = "free-step"
    doing: str = "starting"
    """What goes on, in a few words."""
    start_ms: float | None = None
    """When the first file came; ``None`` before."""
    decisions: list[Decision] = field(default_factory=list)
    counted: list[CountedFile] = field(default_factory=list)
    samples: list[DemoSample] = field(default_factory=list)
    scene: Scene | None = None
    """What there is to see now; ``None`` before the loop is attached."""
    page: str | None = None
    """Where a browser shows it."""
    wrong_words: int | None = None
    """How many words have a wrong count; ``None`` before the check."""

    def __post_init__(self) -> None:
        planner_named(self.planner)
        self.load: Load = whole_day() if self.long else busy_spell()
        self.most_executors = 4 if self.long else 3
        words_per_s = self.load.busiest * WORDS_A_POST
        self.service_us = round(_BUSY * self.most_executors / words_per_s * 1e6, 1)

    @property
    def exact(self) -> bool:
        """Whether every word's count is that of the batch job."""
        return self.wrong_words == 0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first file came, not beyond its end."""
        if self.start_ms is None:
            return 0.0
        return min(time.time() - self.start_ms / 1000, self.load.length_s)

    @property
    def posts_counted(self) -> int:
        """The posts in committed batches, without those that made the query warm."""
        return sum(file.posts for file in self.counted)

    def policy(self) -> Policy:
        """Return a policy for a load of minutes: quick to decide, gentle in moving."""
        return Policy(
            min_executors=_LEAST_EXECUTORS,
            max_executors=self.most_executors,
            spares=1,
            goal=Utilisation(target=0.6, hysteresis=0.1, catch_up_s=20.0),
            planner=self.planner,
            cooldown_s=8.0,
            patience=2,
            timeouts=Timeouts(smoothing_s=4.0),
            tau=0.1,
            movement=Movement(moves_per_batch=3, settle_batches=1),
        )


def run(
    demo: Demo, show: Callable[[Demo], None], *, log: Path | None = None, page: str | None = None
) -> None:
    """Run the demo; ``show`` is called a few times a second.

    Decisions go to ``log`` as well, and a browser finds it on ``page``: a port, or host and port.
    """
    from elastream.attachment import attach
    from elastream.demo.word_count import start_counting, warm_up_stream, wrong_words
    from elastream.spark.sessions.class_training import ensure_archive
    from elastream.spark.sessions.embedded_cluster import (
        EmbeddedCluster,
        embedded_session,
        scratch_folder,
    )
    from elastream.spark.steer.graceful_stop import stop_gracefully

    def tell(doing: str) -> None:
        demo.doing = doing
        show(demo)

    cluster = EmbeddedCluster(
        executors=_LEAST_EXECUTORS,
        max_executors=demo.most_executors,
        app_name="elastream demo",
        config={"spark.sql.streaming.minBatchesToRetain": "10000"},  # commits of every batch stay
    )
    ensure_archive(cluster, tell)
    tell(f"starting Spark, {_LEAST_EXECUTORS} executors")
    with embedded_session(cluster) as spark:
        folder = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
        stream = _Stream(demo, folder / "posts", folder / "checkpoint", show)
        tell("warming the query")
        stream.start(partial(start_counting, spark, service_us=demo.service_us))
        with attach(
            stream.query,
            demo.policy(),
            log=[demo.decisions.append, *([] if log is None else [log])],
            backlog=stream.backlog,
            warm_up_stream=partial(warm_up_stream, service_us=demo.service_us),
            page=page,
        ) as attachment:
            demo.page = attachment.page
            tell("preparing a spare executor")
            stream.await_spare(attachment)
            demo.doing = "counting posts"
            stream.replay(attachment)
        stop_gracefully(stream.query)
        tell("checking against a batch count")
        demo.wrong_words = wrong_words(spark, stream.folder, stream.checkpoint)


class _Stream:
    """The files that have come, and the query that counts their posts.

    A batch takes one file: batch n is that of file n.
    """

    query: StreamingQuery

    def __init__(
        self, demo: Demo, folder: Path, checkpoint: Path, show: Callable[[Demo], None]
    ) -> None:
        self.folder, self.checkpoint = folder, checkpoint
        self._demo, self._show = demo, show
        self._files: list[tuple[float, int]] = []
        """When each file was due, and how many posts it has."""
        self._counted = 0
        """How many of them are in committed batches."""

    def start(self, counting: Callable[[Path, Path], StreamingQuery]) -> None:
        """Start the query, and return when it is warm."""
        self.folder.mkdir()
        self._come(_WARMING_POSTS)
        self.query = counting(self.folder, self.checkpoint)
        self._watch(lambda: self._counted == _WARMING_FILES, each=self._feed)

    def await_spare(self, attachment: Attachment) -> None:
        """Keep the query busy until a spare executor is there, but not for long."""
        deadline = time.monotonic() + _SPARE_TIMEOUT_S

        def is_ready() -> bool:
            return any(spare.warm for spare in attachment.state.spares)

        self._watch(lambda: is_ready() or time.monotonic() > deadline, each=self._feed)
        self._watch(self._has_counted_all)

    def replay(self, attachment: Attachment) -> None:
        """Let the files come when they are due, and quiet ones until the last scale-in is done."""
        demo, first = self._demo, len(self._files)
        sizes = demo.load.sizes
        most = len(sizes) + _MOST_QUIET_FILES
        demo.start_ms = time.time() * 1000

        def has_scaled_in() -> bool:
            return len(attachment.state.executors) == _LEAST_EXECUTORS and attachment.wait(0)

        def sample() -> None:
            demo.samples.append(_sample(demo, attachment))
            demo.scene = take_scene(attachment.state)

        def feed() -> None:
            number = len(self._files) - first
            late = max(0, number - len(sizes) + 1)  # files come ever more rarely after the load
            due_ms = self._files[-1][0] + 1000 * EVERY_S * late
            if not late:
                due_ms = (demo.start_ms or 0) + 1000 * EVERY_S * number
            wanted = not late or (number < most and not has_scaled_in())
            if wanted and time.time() * 1000 >= due_ms:
                self._come(sizes[min(number, len(sizes) - 1)])
            sample()

        def ended() -> bool:
            come = len(self._files) - first
            if come < len(sizes) or not self._has_counted_all():
                return False
            return has_scaled_in() or come == most

        self._watch(ended, each=feed)
        self._come(sizes[-1])  # shows how it is after the last change
        self._watch(self._has_counted_all, each=sample)
        sample()

    def backlog(self, progress: Mapping[str, Any]) -> int:
        """Return how many posts were waiting when the batch of a progress report was done."""
        return sum(posts for _, posts in self._files[progress["batchId"] + 1 :])

    def _feed(self) -> None:
        """Let a small file come where all are counted."""
        if self._has_counted_all():
            self._come(_WARMING_POSTS)

    def _come(self, posts: int) -> None:
        number = len(self._files)
        hidden = self.folder / f".{number}"
        hidden.write_text(file_of_posts(posts, seed=number))
        self._files.append((time.time() * 1000, posts))
        hidden.rename(self.folder / f"{number}.txt")

    def _has_counted_all(self) -> bool:
        return self._counted == len(self._files)

    def _watch(
        self, reached: Callable[[], bool], *, each: Callable[[], None] = lambda: None
    ) -> None:
        """Look until it is reached; raise ``SparkError`` where the query does not go on."""
        from elastream.spark.observe.endings import ending

        moved_s = time.monotonic()
        while not reached():
            if not self.query.isActive:
                raise SparkError(f"the query ended: {ending(self.query.exception())}")
            if self._look() or self._has_counted_all():
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > _STUCK_S:
                raise SparkError(f"there are posts to count, and no batch for {_STUCK_S:g} s")
            each()
            self._show(self._demo)
            time.sleep(_LOOK_S)

    def _look(self) -> bool:
        """Take in the batches that were committed since the last look; whether there are any."""
        before = self._counted
        for due_ms, posts in self._files[before:]:
            commit = self.checkpoint / "commits" / str(self._counted)
            if not commit.exists():
                break
            if self._demo.start_ms is not None:
                finished_ms = commit.stat().st_mtime_ns / 1e6
                self._demo.counted.append(CountedFile(due_ms, posts, finished_ms))
            self._counted += 1
        return self._counted > before


def _sample(demo: Demo, attachment: Attachment) -> DemoSample:
    measured = [d.utilisation for d in demo.decisions[-5:] if d.utilisation is not None]
    return DemoSample(
        at_s=time.time() - (demo.start_ms or 0) / 1000,
        executors=len(attachment.state.executors),
        alive=len(attachment.executors()),
        utilisation=measured[-1] if measured else None,
    )
