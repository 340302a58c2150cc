"""The demo in Real-time Mode: words counted within milliseconds, on executors that come and go.

Posts are lines that are due at a moment (:mod:`elastream.demo.timed_lines`), written some seconds
ahead. Each word that comes out says when its post was due, so its latency is known. The query runs
in batches of five seconds, and state moves at the boundaries between them. At the end the last
count of every word is compared with a count of the same posts.
"""

from __future__ import annotations

import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from elastream.core.policy import Movement, Policy, Timeouts
from elastream.core.scenes import take_scene
from elastream.demo.demo_run import DemoRun, DemoSample
from elastream.demo.posts import EVERY_S, WORDS_A_POST, file_of_posts, realtime_spell
from elastream.goals.utilisation import Utilisation
from elastream.model.errors import ProblemError, SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.attachment import Attachment


_BUSY: Final = 0.5
"""Cores that the words keep busy at the busiest moment."""
_TARGET: Final = 0.25
"""Of an executor's core: words wait for one that is much busier, and two cores shall do for all."""
_TRIGGER: Final = "5 seconds"
"""Spark allows no less."""
_SOURCES, _STATE_PARTITIONS = 2, 4
_POLL_S: Final = 0.3
_SPARE_TIMEOUT_S: Final = 60.0
_WARM_MS: Final = 500.0
"""The query is warm when a word takes no longer, or has answered for a while."""
_WARM_S: Final = 20.0
_MOST_QUIET: Final = 30
"""How often two quiet seconds may follow the load, until it has scaled in."""
_STUCK_S: Final = 120.0
_BEFORE_MS: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class CountedWord:
    """A word of a post, as it came out of the query."""

    due_ms: float
    """When its post came, in milliseconds since the epoch."""
    at_ms: float
    """When its new count was there."""
    batch: int

    @property
    def latency_ms(self) -> float:
        """How long it took."""
        return self.at_ms - self.due_ms


@dataclass(frozen=True, slots=True)
class Boundary:
    """Between two batches."""

    batch: int
    """The one that begins."""
    at_ms: float
    """When the last word of the batch before came out."""
    gap_ms: float
    """From then to the first word of this one."""


@dataclass
class RealtimeDemo(DemoRun):
    """One run of the demo in Real-time Mode."""

    before: ClassVar[str] = "of the ten seconds before the change"
    rows_name: ClassVar[str] = "words"

    counted: list[CountedWord] = field(default_factory=list)
    """Those of the load, in the order in which they came out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sizes = realtime_spell()
        self.least_executors, self.most_executors = 1, 2
        words_per_s = max(self.sizes) / EVERY_S * WORDS_A_POST
        self.work_us = round(_BUSY / words_per_s * 1e6)

    @property
    def rows(self) -> int:
        """The words that were counted of the load."""
        return len(self.counted)

    @property
    def work(self) -> str:
        """What a word costs."""
        return f"every word takes {self.work_us} µs of CPU time where its state is"

    @property
    def last_wait_ms(self) -> float | None:
        """How long the last word took."""
        return self.counted[-1].latency_ms if self.counted else None

    def waits_ms(self) -> Sequence[float]:
        """Return how long each word took."""
        return [word.latency_ms for word in self.counted]

    def waits_before(self, at_ms: float) -> Sequence[float]:
        """Return the latency of words of the ten seconds before."""
        return self.waits_between(at_ms - _BEFORE_MS, at_ms)

    def waits_between(self, begin_ms: float, end_ms: float) -> Sequence[float]:
        """Return the latency of words of posts that were due in a span."""
        return [word.latency_ms for word in self.counted if begin_ms <= word.due_ms < end_ms]

    def waits_apart(self, apart_ms: float) -> Sequence[float]:
        """Return the latency of words whose posts were due further from every boundary."""
        boundaries = self.boundaries()
        begins = [each.at_ms - apart_ms for each in boundaries]
        ends = [0.0, *accumulate((each.at_ms + each.gap_ms + apart_ms for each in boundaries), max)]
        return [
            word.latency_ms
            for word in self.counted
            if word.due_ms >= ends[bisect_right(begins, word.due_ms)]
        ]

    def boundaries(self) -> list[Boundary]:
        """Return the boundaries between batches that words came out of."""
        ends: dict[int, tuple[float, float]] = {}
        for word in self.counted:
            first_ms, last_ms = ends.get(word.batch, (word.at_ms, word.at_ms))
            ends[word.batch] = min(first_ms, word.at_ms), max(last_ms, word.at_ms)
        found = []
        for batch, (first_ms, _) in sorted(ends.items()):
            if batch - 1 in ends:
                at_ms = ends[batch - 1][1]
                found.append(Boundary(batch, at_ms, max(0.0, first_ms - at_ms)))
        return found

    def policy(self) -> Policy:
        """Return a policy for a load of a minute: quick to decide."""
        return Policy(
            min_executors=self.least_executors,
            max_executors=self.most_executors,
            spares=1,
            goal=Utilisation(target=_TARGET, hysteresis=0.1, catch_up_s=20.0),
            planner=self.planner,
            cooldown_s=6.0,
            patience=2,
            timeouts=Timeouts(smoothing_s=3.0),
            movement=Movement(settle_batches=1),
        )


def check(*, long: bool = False) -> None:
    """Refuse what there is no demo in Real-time Mode for: another load, or an older Spark."""
    from elastream.spark.internals.variants import installed_variant

    if long:
        raise ProblemError("realtime", "has a load of its own; leave out `long`")
    if not installed_variant().has_stateful_realtime:
        raise ProblemError("realtime", "needs PySpark 4.3 or later: older ones keep no state in it")


def run(
    demo: RealtimeDemo,
    show: Callable[[RealtimeDemo], None],
    *,
    log: Path | None = None,
    page: str | None = None,
) -> None:
    """Run the demo; ``show`` is called a few times a second.

    Decisions also go to ``log``, and the page is on ``page``: a port, or host and port.
    """
    from elastream.attachment import attach
    from elastream.spark.sessions.embedded_cluster import (
        EmbeddedCluster,
        embedded_session,
        scratch_folder,
    )
    from elastream.spark.sessions.settings import PARTITIONS, session_settings

    def begin(doing: str) -> None:
        demo.doing = doing
        show(demo)

    cluster = EmbeddedCluster(
        executors=demo.least_executors,
        max_executors=demo.most_executors,
        app_name="elastream demo",
        config={**session_settings(realtime=True), PARTITIONS: str(_STATE_PARTITIONS)},
    )
    begin("starting Spark")
    with embedded_session(cluster) as spark:
        stream = _Stream(demo, spark, Path(tempfile.mkdtemp(dir=scratch_folder(spark))), show)
        begin("warming the query")
        stream.warm()
        with attach(
            stream.query,
            demo.policy(),
            log=[demo.decisions.append, *([] if log is None else [log])],
            backlog=stream.backlog,
            restart=stream.start,
            page=page,
        ) as attachment:
            demo.page = attachment.page
            begin("preparing a spare executor")
            stream.await_spare(attachment)
            demo.doing = "counting posts"
            stream.replay(attachment)
        stream.query.stop()
        begin("checking against a batch count")
        demo.wrong_words = stream.wrong_words()


class _Stream:
    """The posts that were written, and the query that counts their words."""

    query: StreamingQuery

    def __init__(
        self,
        demo: RealtimeDemo,
        spark: SparkSession,
        folder: Path,
        show: Callable[[RealtimeDemo], None],
    ) -> None:
        from elastream.demo.timed_lines import TimedLines, TimedRows

        self._demo, self._spark, self._folder, self._show = demo, spark, folder, show
        self._lines = TimedLines(folder / "posts", partitions=_SOURCES)
        (folder / "counts").mkdir()
        self._rows = TimedRows(folder / "counts")
        self._words: Counter[str] = Counter()
        """Those that were written."""
        self._counts: Counter[str] = Counter()
        """The last count of each word."""
        self._due: list[tuple[float, int]] = []
        """When posts were due, and how many words were written until then."""
        self._latest_ms: float | None = None
        """The latency of the last word."""
        self._seed = 0

    def start(self) -> StreamingQuery:
        """Start the query, also once more."""
        from pyspark.sql import functions as f

        from elastream.demo.timed_lines import read, write

        posts = read(self._spark, self._folder / "posts")
        words = posts.select(f.explode(f.split("value", " ")).alias("word"), "timestamp")
        counts = words.groupBy("word").agg(f.count("*").alias("n"), f.max("timestamp").alias("due"))
        writer = write(counts, self._folder / "counts", work_us=self._demo.work_us)
        writer = writer.queryName("word_count").outputMode("update")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        trigger: Mapping[str, Any] = {"realTime": _TRIGGER}
        self.query = writer.trigger(**trigger).start()
        return self.query

    def warm(self) -> None:
        """Start the query, and return when it answers quickly."""
        self.start()

        self._await(lambda: self._latest_ms is not None, each=self._add_quietly)
        deadline = time.monotonic() + _WARM_S

        def is_warm() -> bool:
            answers = self._latest_ms is not None and self._latest_ms < _WARM_MS
            return answers or time.monotonic() > deadline

        self._await(is_warm, each=self._add_quietly)

    def await_spare(self, attachment: Attachment) -> None:
        """Keep the query at work until a spare executor is there, but not for long."""
        deadline = time.monotonic() + _SPARE_TIMEOUT_S

        def is_ready() -> bool:
            return any(spare.warm for spare in attachment.state.spares)

        self._await(
            lambda: is_ready() or time.monotonic() > deadline,
            each=self._add_quietly,
        )

    def replay(self, attachment: Attachment) -> None:
        """Let posts come when they are due, and quiet ones until the last scale-in is done."""
        demo, sizes = self._demo, self._demo.sizes
        demo.start_ms = begin_ms = (time.time() + EVERY_S) * 1000
        most, written = len(sizes) + _MOST_QUIET, 0

        def has_scaled_in() -> bool:
            return len(attachment.state.executors) == demo.least_executors and attachment.wait(0)

        def sample() -> None:
            at_s = time.time() - begin_ms / 1000
            at_work, alive = len(attachment.state.executors), len(attachment.executors())
            demo.samples.append(DemoSample(at_s, at_work, alive))
            demo.scene = take_scene(attachment.state)

        def feed() -> None:
            nonlocal written
            due_ms = begin_ms + 1000 * EVERY_S * written
            is_needed = written < len(sizes) or (written < most and not has_scaled_in())
            if is_needed and due_ms - time.time() * 1000 < 1000 * EVERY_S:
                self._add(sizes[min(written, len(sizes) - 1)], due_ms, 1000 * EVERY_S)
                written += 1
            sample()

        def ended() -> bool:
            over = written >= len(sizes) and (written == most or has_scaled_in())
            return over and self._has_counted_all()

        self._await(ended, each=feed)
        sample()

    def backlog(self, _: Mapping[str, Any]) -> int:
        """Return how many words are due and not counted."""
        place = bisect_left(self._due, (time.time() * 1000, 0))
        due = self._due[place - 1][1] if place else 0
        return max(0, due - self._counts.total())

    def wrong_words(self) -> int:
        """Return how many words have another count than in the posts."""
        files = (self._folder / "posts").iterdir()
        lines = (line for file in files for line in file.read_text().splitlines())
        words = Counter(word for line in lines for word in line.split()[1:])
        return sum(words[word] != self._counts[word] for word in words | self._counts)

    def _add_quietly(self) -> None:
        """Let a few posts come now."""
        self._add(3, time.time() * 1000, 0.0)

    def _add(self, posts: int, due_ms: float, span_ms: float) -> None:
        """Write posts that are due from a moment on."""
        self._seed += 1
        for number, post in enumerate(file_of_posts(posts, self._seed).splitlines()):
            at_ms = due_ms + span_ms * number / posts
            self._lines.add(post, at_ms)
            self._words.update(post.split())
            self._due.append((at_ms, self._words.total()))

    def _has_counted_all(self) -> bool:
        return self._counts.total() == self._words.total()

    def _await(
        self, reached: Callable[[], bool], *, each: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until it is reached; raise ``SparkError`` where the query does not go on."""
        from elastream.spark.observe.endings import ending

        moved_s = time.monotonic()
        while not reached():
            if self._take_rows():
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > _STUCK_S:
                failed = self.query.exception()
                why = f"nothing came for {_STUCK_S:g} s" if failed is None else ending(failed)
                raise SparkError(f"the query does not go on: {why}")
            each()
            self._show(self._demo)
            time.sleep(_POLL_S)

    def _take_rows(self) -> bool:
        """Take in what came out since the last call; whether anything did."""
        rows = self._rows.more()
        begin_ms = self._demo.start_ms
        for row in rows:
            word, count, due = row.values
            due_ms = int(due)
            self._counts[word] = max(self._counts[word], int(count))
            self._latest_ms = row.at_ms - due_ms
            if begin_ms is not None and due_ms >= begin_ms:
                self._demo.counted.append(CountedWord(due_ms, row.at_ms, row.batch))
        return bool(rows)
