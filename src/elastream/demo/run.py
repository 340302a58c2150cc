"""The demo: a stream whose rate changes, made elastic, and checked at its end.

The cluster starts, the query counts a few files until it is warm, the loop is attached, and files
come as the load says. At the end the query stops at a batch boundary, and every word's count in its
state is compared with a batch count of the same posts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from elastream.core.policy import Movement, Policy, Timeouts
from elastream.core.scenes import take_scene
from elastream.demo.demo_run import DemoRun, DemoSample
from elastream.demo.posts import EVERY_S, WORDS_A_POST, busy_spell, file_of_posts, whole_day
from elastream.goals.utilisation import Utilisation
from elastream.model.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.attachment import Attachment


_BUSY: Final = 0.5
"""Share of all executors' time that the busiest moment sleeps. With the rest of a batch, the
policy's target needs the most executors for it."""
_POLL_S: Final = 0.3
_WARMING_FILES: Final = 3
_WARMING_POSTS: Final = 100
_SPARE_TIMEOUT_S: Final = 60.0
_MOST_QUIET_FILES: Final = 20
"""How many files may come after the load, ever more rarely, until a machine that is busy with other
work scales in."""
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


@dataclass
class Demo(DemoRun):
    """One run of the demo in micro-batches."""

    before: ClassVar[str] = "of the ten batches before the change"
    rows_name: ClassVar[str] = "posts"

    long: bool = False
    counted: list[CountedFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sizes = whole_day() if self.long else busy_spell()
        self.least_executors, self.most_executors = (2, 4) if self.long else (1, 2)
        words_per_s = max(self.sizes) / EVERY_S * WORDS_A_POST
        self.service_us = round(_BUSY * self.most_executors / words_per_s * 1e6, 1)

    @property
    def rows(self) -> int:
        """The posts in committed batches, without those that made the query warm."""
        return sum(file.posts for file in self.counted)

    @property
    def work(self) -> str:
        """What a word costs."""
        return f"every word sleeps {self.service_us:g} µs in the stateful stage, in place of work"

    @property
    def last_wait_ms(self) -> float | None:
        """How long the posts waited that were counted last."""
        return self.counted[-1].response_ms if self.counted else None

    def waits_ms(self) -> Sequence[float]:
        """Return how long each post waited until its batch was committed."""
        return _waits_ms(self.counted)

    def waits_before(self, at_ms: float) -> Sequence[float]:
        """Return the waits of the posts of the last ten batches before."""
        return _waits_ms([file for file in self.counted if file.finished_ms <= at_ms][-10:])

    def waits_between(self, begin_ms: float, end_ms: float) -> Sequence[float]:
        """Return the waits of posts that were due in a span."""
        return _waits_ms([file for file in self.counted if begin_ms <= file.due_ms < end_ms])

    def policy(self) -> Policy:
        """Return a policy for a load of minutes: quick to decide, gentle in moving."""
        return Policy(
            min_executors=self.least_executors,
            max_executors=self.most_executors,
            spares=1,
            goal=Utilisation(target=0.6, hysteresis=0.1, catch_up_s=20.0),
            planner=self.planner,
            cooldown_s=6.0,
            patience=2,
            timeouts=Timeouts(smoothing_s=4.0),
            tau=0.1,
            movement=Movement(moves_per_batch=3, settle_batches=1),
        )


def _waits_ms(files: Sequence[CountedFile]) -> Sequence[float]:
    return [file.response_ms for file in files for _ in range(file.posts)]


def run(
    demo: Demo, show: Callable[[Demo], None], *, log: Path | None = None, page: str | None = None
) -> None:
    """Run the demo; ``show`` is called a few times a second.

    Decisions also go to ``log``, and the page is on ``page``: a port, or host and port.
    """
    from elastream.attachment import attach
    from elastream.demo.word_count import warm_up_stream, wrong_words
    from elastream.spark.internals.graceful_stop import stop_gracefully
    from elastream.spark.sessions.embedded_cluster import (
        EmbeddedCluster,
        embedded_session,
        scratch_folder,
    )

    def begin(doing: str) -> None:
        demo.doing = doing
        show(demo)

    cluster = EmbeddedCluster(
        executors=demo.least_executors,
        max_executors=demo.most_executors,
        app_name="elastream demo",
        config={"spark.sql.streaming.minBatchesToRetain": "10000"},  # commits of every batch stay
    )
    begin("starting Spark")
    with embedded_session(cluster) as spark:
        stream = _Stream(demo, Path(tempfile.mkdtemp(dir=scratch_folder(spark))), show)
        begin("warming the query")
        stream.start(spark)
        with attach(
            stream.query,
            demo.policy(),
            log=[demo.decisions.append, *([] if log is None else [log])],
            backlog=stream.backlog,
            warm_up_stream=partial(warm_up_stream, service_us=demo.service_us),
            page=page,
        ) as attachment:
            demo.page = attachment.page
            begin("preparing a spare executor")
            stream.await_spare(attachment)
            demo.doing = "counting posts"
            stream.replay(attachment)
        stop_gracefully(stream.query)
        begin("checking against a batch count")
        demo.wrong_words = wrong_words(spark, stream.posts, stream.checkpoint)


class _Stream:
    """The files that have come, and the query that counts their posts.

    A batch takes one file: batch n is that of file n.
    """

    query: StreamingQuery

    def __init__(self, demo: Demo, folder: Path, show: Callable[[Demo], None]) -> None:
        self.posts, self.checkpoint = folder / "posts", folder / "checkpoint"
        self._demo, self._show = demo, show
        self._files: list[tuple[float, int]] = []
        """When each file came, in milliseconds since the epoch, and how many posts it has."""
        self._counted = 0
        """How many of them are in committed batches."""

    def start(self, spark: SparkSession) -> None:
        """Start the query, and return when it is warm."""
        from elastream.demo.word_count import start_counting

        self.posts.mkdir()
        self._add_file(_WARMING_POSTS)
        service_us = self._demo.service_us
        self.query = start_counting(spark, self.posts, self.checkpoint, service_us=service_us)
        self._await(lambda: self._counted == _WARMING_FILES, each=self._add_small_file)

    def await_spare(self, attachment: Attachment) -> None:
        """Keep the query at work until a spare executor is there, but not for long."""
        deadline = time.monotonic() + _SPARE_TIMEOUT_S

        def is_ready() -> bool:
            return any(spare.warm for spare in attachment.state.spares)

        self._await(
            lambda: is_ready() or time.monotonic() > deadline,
            each=lambda: self._add_small_file(every_s=EVERY_S),
        )
        self._await(self._has_counted_all)

    def replay(self, attachment: Attachment) -> None:
        """Let the files come when they are due, and quiet ones until the last scale-in is done."""
        demo, first = self._demo, len(self._files)
        sizes = demo.sizes
        most = len(sizes) + _MOST_QUIET_FILES
        demo.start_ms = time.time() * 1000

        def has_scaled_in() -> bool:
            return len(attachment.state.executors) == demo.least_executors and attachment.wait(0)

        def sample() -> None:
            at_s = time.time() - (demo.start_ms or 0) / 1000
            at_work, alive = len(attachment.state.executors), len(attachment.executors())
            demo.samples.append(DemoSample(at_s, at_work, alive))
            demo.scene = take_scene(attachment.state)

        def feed() -> None:
            number = len(self._files) - first
            late = max(0, number - len(sizes) + 1)  # files come ever more rarely after the load
            due_ms = self._files[-1][0] + 1000 * EVERY_S * late
            if not late:
                due_ms = (demo.start_ms or 0) + 1000 * EVERY_S * number
            is_needed = not late or (number < most and not has_scaled_in())
            if is_needed and time.time() * 1000 >= due_ms:
                self._add_file(sizes[min(number, len(sizes) - 1)])
            sample()

        def ended() -> bool:
            come = len(self._files) - first
            if come < len(sizes) or not self._has_counted_all():
                return False
            return has_scaled_in() or come == most

        self._await(ended, each=feed)
        self._add_file(sizes[-1])  # shows how it is after the last change
        self._await(self._has_counted_all, each=sample)
        sample()

    def backlog(self, progress: Mapping[str, Any]) -> int:
        """Return how many posts were waiting when the batch of a progress report was done."""
        return sum(posts for _, posts in self._files[progress["batchId"] + 1 :])

    def _add_small_file(self, every_s: float = 0.0) -> None:
        """Let a small file come where all are counted, and the last one came long enough ago."""
        if self._has_counted_all() and time.time() * 1000 >= self._files[-1][0] + 1000 * every_s:
            self._add_file(_WARMING_POSTS)

    def _add_file(self, posts: int) -> None:
        number = len(self._files)
        hidden = self.posts / f".{number}"
        hidden.write_text(file_of_posts(posts, seed=number))
        self._files.append((time.time() * 1000, posts))
        hidden.rename(self.posts / f"{number}.txt")

    def _has_counted_all(self) -> bool:
        return self._counted == len(self._files)

    def _await(
        self, reached: Callable[[], bool], *, each: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until it is reached; raise ``SparkError`` where the query does not go on."""
        from elastream.spark.observe.endings import ending

        moved_s = time.monotonic()
        while not reached():
            if not self.query.isActive:
                raise SparkError(f"the query ended: {ending(self.query.exception())}")
            if self._take_commits() or self._has_counted_all():
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > _STUCK_S:
                raise SparkError(f"there are posts to count, and no batch for {_STUCK_S:g} s")
            each()
            self._show(self._demo)
            time.sleep(_POLL_S)

    def _take_commits(self) -> bool:
        """Take in the batches that were committed since the last call; whether there are any."""
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
