"""The elasticity benchmark: the same rows at the same times, under one way after another.

Each way has a session of its own, since settings and executors differ. Its query is warmed by a few
batches, the way takes hold, its executors come to the number they have at rest, and the load
begins. From then on nothing here acts. When the last row is done every word's count is compared
with a batch count of the same rows.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.attachment import Attachment, attach
from elastream.model.errors import ProblemError
from elastream.model.observation import BatchObservation
from elastream.model.words import pluralize
from elastream_lab.benchmarks.elasticity.executors import ExecutorWatch
from elastream_lab.benchmarks.elasticity.figures import (
    ExecutorLife,
    changes,
    executor_seconds,
    number_alive,
    overloaded_s,
    state_bytes_moved,
)
from elastream_lab.benchmarks.elasticity.load import compressed, made_load, read_load
from elastream_lab.benchmarks.elasticity.settings import ElasticitySettings
from elastream_lab.benchmarks.elasticity.ways import cluster_of, executors_at_first, policy_of
from elastream_lab.harness.job_session import fresh_folder, job_session
from elastream_lab.harness.made_posts import make_posts
from elastream_lab.harness.recording import Recording
from elastream_lab.harness.replay import ReplayClock, replay_backlog
from elastream_lab.harness.replaying import Replay
from elastream_lab.harness.response_time import Spread, spread
from elastream_lab.harness.service_time import hashing_pace
from elastream_lab.harness.word_count import WordCount, warm_up_stream
from elastream_lab.mechanisms.running_stream import RunningStream, stopped_at_the_end

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from elastream.core.policy import Policy
    from elastream_lab.harness.commit_log import CommittedBatch


_LEAD_ROWS: Final = 600
_AWAITING_ROWS: Final = 60
"""This many of them come while the executors come to the number they have at rest: little work, or
Spark's own allocation asks for more."""
_LEAD_BATCHES: Final = 8
_LEAST_ROWS: Final = 100
_FED_EVERY_S: Final = 0.5
_LOOK_S: Final = 0.2
_AT_REST_S: Final = 120.0
"""How long the executors may take to come to the number they have at rest; then the load begins."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a way is."""

    way: str
    at_s: float
    """Seconds since the load began."""
    rows_done: int
    rows: int
    executors: int


@dataclass(frozen=True, slots=True)
class WayResult:
    """What one way came to."""

    way: str
    exact: bool
    rows: int
    took_s: float
    """From the first row's being due until the last one's result was there."""
    executor_seconds: float
    response: Spread | None
    overloaded_s: float
    changes: int
    state_bytes_moved: int
    executors: tuple[tuple[float, int], ...]
    """Seconds since the load began, and how many executors there were from then on."""
    waits: tuple[tuple[float, float], ...]
    """A batch each: when it was done, as above, and how long the row waited that waited longest."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries, and with what else was measured."""
        return {
            "way": self.way,
            "exact": self.exact,
            "executor_seconds": round(self.executor_seconds, 1),
            "response_ms": None if self.response is None else self.response.as_json(),
            "overloaded_s": round(self.overloaded_s, 1),
            "changes": self.changes,
            "state_bytes_moved": self.state_bytes_moved,
            "rows": self.rows,
            "took_s": round(self.took_s, 1),
            "executors": [[round(at_s, 1), number] for at_s, number in self.executors],
        }


@dataclass(frozen=True, slots=True, eq=False)
class ReplayedLoad:
    """A load as it is replayed."""

    description: str
    """What load it is, for people."""
    made: bool
    """Whether it was made up, not recorded."""
    due_ms: NDArray[np.int64]
    """When each row is due, in milliseconds after the beginning."""


def replayed_load(settings: ElasticitySettings) -> ReplayedLoad:
    """Return the load that the settings ask for; says in one line what is wrong with a file."""
    if settings.load is None:
        load = made_load(settings.seed)
    else:
        load = read_load(settings.load, settings.begin, settings.load_hours)
    due_ms = compressed(load, settings.seconds, settings.peak)
    if len(due_ms) < _LEAST_ROWS:
        few = f"{settings.peak:g} at the busiest moment are {len(due_ms)} rows in all"
        raise ProblemError("peak_rows_per_s", f"{few}; the least is {_LEAST_ROWS}")
    return ReplayedLoad(load.description, load.made, due_ms)


def run_ways(
    settings: ElasticitySettings,
    load: ReplayedLoad,
    *,
    say: Callable[[str], None],
    show: Callable[[Progress], None],
    done: Callable[[WayResult], None],
    failed: Callable[[str, Exception], None],
) -> None:
    """Run every way.

    ``show`` is called a few times a second, ``done`` with each result as it is there, ``failed``
    with each way that came to none, and why; the others go on.
    """
    with tempfile.TemporaryDirectory(prefix="elastream-bench-") as folder:
        due_ms = np.concatenate([np.zeros(_LEAD_ROWS, dtype=np.int64), load.due_ms])
        recording = make_posts(due_ms, Path(folder) / "posts.arrow", seed=settings.seed)
        pace = _Pace(settings.work)
        for way in settings.ways:
            try:
                done(_Run(way, settings, recording, pace, partial(_say, say, way), show).result())
            except Exception as error:  # of whatever kind: the other ways are still worth it
                failed(way, error)


def _say(say: Callable[[str], None], way: str, what: str) -> None:
    say(f"{way}: {what}")


@dataclass
class _Pace:
    """How much hashing burns a millisecond: found out once, so that work is the same for all."""

    work: str
    rounds_a_ms: float | None = None

    def of(self, spark: SparkSession) -> float | None:
        """Return the rounds; ``None`` where work is slept."""
        if self.work == "burnt" and self.rounds_a_ms is None:
            self.rounds_a_ms = hashing_pace(spark)
        return self.rounds_a_ms


@dataclass
class _Run:
    """One way under the load, and what has been seen of it so far."""

    way: str
    settings: ElasticitySettings
    recording: Recording
    pace: _Pace
    say: Callable[[str], None]
    show: Callable[[Progress], None]
    seen: list[BatchObservation] = field(default_factory=list)

    def result(self) -> WayResult:
        """Run it, and return what it came to."""
        policy = policy_of(self.way, self.settings)
        at_first = executors_at_first(self.way, self.settings)
        self.say(f"starting Spark, {pluralize(at_first, 'executor')} at rest")
        with job_session(cluster_of(self.way, self.settings)) as spark:
            job = self._job(spark)
            with stopped_at_the_end(RunningStream(spark, job, self.seen.append)) as stream:
                watch = ExecutorWatch(stream.internals)
                replay = Replay(job.feeds, stream.check)
                self.say("warming the query")
                replay.lead_in([_LEAD_ROWS - _AWAITING_ROWS], batches=_LEAD_BATCHES)
                _await(lambda: len(stream.internals.executors()) <= at_first)
                with self._in_force(policy, stream, job) as attachment:
                    with replay.fed([_LEAD_ROWS], every_s=_FED_EVERY_S):
                        _await(lambda: attachment is None or _is_ready(attachment, at_first))
                    self._replay(replay, watch)
                    lives = watch.lives()
            self.say("checking against a batch count")
            return self._measured(replay, lives, exact=job.wrong(spark) == 0)

    def _job(self, spark: SparkSession) -> WordCount:
        folder, settings = fresh_folder(spark), self.settings
        return WordCount(
            recording=self.recording,
            clock=ReplayClock(folder / "clock"),
            checkpoint=folder / "checkpoint",
            partitions=settings.partitions,
            service_us=settings.service_us,
            trigger_s=settings.trigger_s,
            rows_a_batch=settings.rows_a_batch,
            rounds_a_ms=self.pace.of(spark),
        )

    def _in_force(
        self, policy: Policy | None, stream: RunningStream, job: WordCount
    ) -> AbstractContextManager[Attachment | None]:
        """Return what sizes the application for as long as it is open; nothing for Spark itself."""
        if policy is None:
            return nullcontext()
        return attach(
            stream.query,
            policy,
            backlog=replay_backlog(self.recording, job.clock),
            warm_up_stream=partial(warm_up_stream, job=job),
        )

    def _replay(self, replay: Replay, watch: ExecutorWatch) -> None:
        """Replay the load to its last row."""
        self.say("the load begins")
        start_ms, rows = replay.begin(), replay.rows - _LEAD_ROWS

        def look() -> None:
            at_s, done = time.time() - start_ms / 1000, replay.rows_done - _LEAD_ROWS
            alive = sum(life.went_ms == math.inf for life in watch.lives())
            self.show(Progress(self.way, at_s, done, rows, alive))

        replay.wait(lambda: replay.has_read_all, each=look)

    def _measured(
        self, replay: Replay, lives: tuple[ExecutorLife, ...], *, exact: bool
    ) -> WayResult:
        (batches,), start_ms = replay.batches, float(replay.start_ms or 0)
        due_ms, end_ms = self.recording.due_ms, batches[-1].finished_ms
        steps = number_alive(lives, start_ms, end_ms)
        within = [batch for batch in batches if batch.end > _LEAD_ROWS]
        return WayResult(
            way=self.way,
            exact=exact,
            rows=replay.rows - _LEAD_ROWS,
            took_s=(end_ms - start_ms) / 1000,
            executor_seconds=executor_seconds(lives, start_ms, end_ms),
            response=spread(replay.responses()),
            overloaded_s=overloaded_s(
                due_ms, start_ms, batches, first=_LEAD_ROWS, trigger_s=self.settings.trigger_s
            ),
            changes=changes(steps),
            state_bytes_moved=state_bytes_moved(self.seen, since_ms=start_ms),
            executors=tuple(((at_ms - start_ms) / 1000, number) for at_ms, number in steps),
            waits=tuple(_longest_wait(due_ms, start_ms, batch) for batch in within),
        )


def _is_ready(attachment: Attachment, executors: int) -> bool:
    """Return whether this many executors are there, and warm: a spare that is not yet is none."""
    there = attachment.executors()
    return len(there) >= executors and all(executor.warm for executor in there)


def _longest_wait(
    due_ms: NDArray[np.int64], start_ms: float, batch: CommittedBatch
) -> tuple[float, float]:
    """Return when a batch was done, and how long the row waited that was due first."""
    done_s = (batch.finished_ms - start_ms) / 1000
    return done_s, done_s - float(due_ms[max(batch.start, _LEAD_ROWS)]) / 1000


def _await(reached: Callable[[], bool]) -> None:
    """Wait until the executors are as many as they are at rest, but not for ever."""
    deadline = time.monotonic() + _AT_REST_S
    while not reached() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
