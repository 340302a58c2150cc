"""One run of the migration benchmark: a stream scaled out while busy and in while quiet.

Before either change the query is up to date, and is then left alone for more than the ten batches
that are the steady ones, with no process starting or ending; spares that a mechanism keeps are
there before that. After it the run waits until the query is steady again, by the same rule that
measures it, though not for ever, and for the ten batches after that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation
from elastream.spark.internals.spark_internals import SparkInternals
from elastream.spark.steer.warm_up import warm_up
from elastream_lab.benchmarks.migration.mechanisms import Live, live_policy
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.replaying import Replay
from elastream_lab.harness.word_count import WordCount, warm_up_stream
from elastream_lab.mechanisms.application import Application, ApplicationSpec, read_observations
from elastream_lab.mechanisms.baselines import Mechanism, Pause, Restart, Stock
from elastream_lab.mechanisms.running_stream import RunningStream
from elastream_lab.mechanisms.sessions import resize
from elastream_lab.mechanisms.trace import (
    AROUND,
    Ahead,
    Resize,
    Trace,
    batches_until_steady,
    steady_batches,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LEAD_BATCHES: Final = 8
BETWEEN: Final = AROUND + 3
"""This many batches are awaited before a change, and after the query is steady again."""
_WATCHED: Final = 30
"""A query that is not steady after this many batches is watched no longer."""
_QUIET_PACE: Final = 0.6
"""What the rate falls to before an executor is taken away, over what it was."""
_UP_TO_DATE_MS: Final = 5000.0
"""A query is up to date that has committed what was due so long before the last trigger."""
_CATCH_UP_S: Final = 120.0
"""So long it may take to get there; then the change is asked for all the same."""
_SPARE_TIMEOUT_S: Final = 300.0
_RESTART_S: Final = 300.0
"""So long a new application may take to its first batch; a slow machine is no fault."""


@dataclass
class StreamRun:
    """A run: what it is, and what has been seen of it so far."""

    mechanism: str
    repeat: int
    executors: tuple[int, int]
    """How many there are at first, and after the scale-out."""
    job: WordCount
    first: int
    """Position of the first row of the steady stream; those before are there at once."""
    tau: float
    say: Callable[[str], None]
    seen: list[BatchObservation] = field(default_factory=list)
    changes: list[Resize] = field(default_factory=list)

    def trace(self) -> Trace:
        """Return what the run showed."""
        job = self.job
        start_ms = job.clock.start_ms
        if start_ms is None:
            raise SparkError(f"{self.mechanism}: the stream never began")
        seen = {observed.batch: observed for observed in self.seen}
        batches = committed_batches(job.checkpoint)
        return Trace(batches, seen, job.clock.due_ms(job.recording), start_ms, self.first)


def run_in_session(run: StreamRun, spark: SparkSession) -> None:
    """Run a mechanism that stays in one session."""
    resize(SparkInternals.of(spark), run.executors[0])
    stream = RunningStream(spark, run.job, run.seen.append)
    replay = Replay(run.job.feeds, stream.check)
    try:
        lead_in(run, replay)
        replay.begin()
        with _mechanism(run, stream) as mechanism:
            _scaled_out_and_in(run, replay, mechanism)
    finally:
        stream.stop()


def run_applications(run: StreamRun, spec: ApplicationSpec, log: Path) -> None:
    """Run the mechanism that needs a new application for every change."""
    restart = Restart(Application(spec, log))
    replay = Replay(run.job.feeds, lambda: restart.application.check(), stuck_s=_RESTART_S)
    try:
        lead_in(run, replay)
        replay.begin()
        _scaled_out_and_in(run, replay, restart)
        restart.application.stop()
    finally:
        restart.application.kill()
    run.seen.extend(read_observations(spec.observations))


@contextmanager
def _mechanism(run: StreamRun, stream: RunningStream) -> Iterator[Mechanism]:
    like = partial(warm_up_stream, job=run.job)

    def warm(ids: Sequence[str]) -> None:
        cold = [entry for entry in stream.internals.executors() if entry.id in ids]
        warm_up(stream.internals, cold, like, near=run.job.uri or run.job.checkpoint.as_uri())

    if run.mechanism == "stock":
        yield Stock(stream)
    elif run.mechanism == "pause":
        yield Pause(stream, warm)
    else:
        least, most = run.executors
        policy = live_policy(run.mechanism, least=least, most=most, tau=run.tau)
        live = Live(stream, policy, like)
        try:
            yield live
        finally:
            live.close()


def lead_in(run: StreamRun, replay: Replay) -> None:
    """Run a few small batches; after them the stream has nothing to read until it begins."""
    run.say("warming the stream")
    replay.lead_in([run.first], batches=_LEAD_BATCHES)


def _scaled_out_and_in(run: StreamRun, replay: Replay, mechanism: Mechanism) -> None:
    least, most = run.executors
    for before, after in ((least, most), (most, least)):
        if after == least:
            run.say("the rate falls")
            run.job.clock.slow_down(_QUIET_PACE, round(time.time() * 1000))
        if isinstance(mechanism, Live):
            _await_spares(run, replay, mechanism)
        await_up_to_date(run, replay)
        replay.wait_for_batches(BETWEEN)
        run.say(f"{before} to {after} executors")
        asked_ms = time.time() * 1000
        mechanism.scale_to(after)
        done_ms = time.time() * 1000
        await_steady(run, replay, asked_ms, done_ms)
        replay.wait_for_batches(BETWEEN)
        ends_ms = time.time() * 1000
        ahead = mechanism.ahead if isinstance(mechanism, Live) else Ahead()
        change = Resize(run.mechanism, before, after, asked_ms, done_ms, ends_ms, ahead)
        run.changes.append(change)


def await_steady(run: StreamRun, replay: Replay, asked_ms: float, done_ms: float) -> None:
    """Wait until the query is steady again, or has been watched for long."""
    run.say("waiting until it is steady again")
    (batches,) = replay.batches
    steady = steady_batches(batches, asked_ms)

    def settled() -> bool:
        later = [batch for batch in batches if batch.began_ms > done_ms]
        return len(later) >= _WATCHED or batches_until_steady(later, steady) is not None

    replay.wait(settled)


def _await_spares(run: StreamRun, replay: Replay, live: Live) -> None:
    """Wait until the spares of the policy are there and warm."""
    deadline = time.monotonic() + _SPARE_TIMEOUT_S
    if not live.is_ready:
        run.say("waiting for a spare")
    replay.wait(lambda: live.is_ready or time.monotonic() > deadline)
    if not live.is_ready:
        raise SparkError(f"no spare was ready within {_SPARE_TIMEOUT_S:g} s")


def await_up_to_date(run: StreamRun, replay: Replay) -> None:
    """Wait until the query has no backlog; say so where it is behind for ever."""
    job = run.job
    deadline = time.monotonic() + _CATCH_UP_S

    def is_up_to_date() -> bool:
        long_ago_ms = time.time() * 1000 - _UP_TO_DATE_MS - 1000 * job.trigger_s
        return replay.rows_done >= job.clock.rows_available(job.recording, long_ago_ms)

    replay.wait(lambda: is_up_to_date() or time.monotonic() > deadline)
    if not is_up_to_date():
        run.say("the query is behind: its work is more than its executors do")
