"""One run of the migration benchmark: a stream scaled out while busy and in while quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.demo.word_count import WordCount, warm_up_stream
from elastream.harness.commit_log import committed_batches
from elastream.harness.replaying import Replay
from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation
from elastream.spark.steer.warm_up import warm_up
from elastream_lab.benchmarks.migration.mechanisms import STOPPING, Live, live_policy
from elastream_lab.benchmarks.migration.trace import AROUND, Change, Trace
from elastream_lab.mechanisms.application import Application, ApplicationSpec, read_observations
from elastream_lab.mechanisms.baselines import Mechanism, Pause, Restart, Stock
from elastream_lab.mechanisms.running_stream import RunningStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EXECUTORS", "StreamRun", "run_applications", "run_in_session"]

EXECUTORS: Final = (2, 3)
"""How many there are at first, and after the scale-out."""

_LEAD_BATCHES: Final = 8
_BETWEEN: Final = AROUND + 3
"""So many batches are awaited before, between and after the changes."""
_UP_TO_DATE_MS: Final = 5000.0
"""A query is up to date that has committed what was due so long ago."""
_CATCH_UP_S: Final = 120.0
"""So long it may take to get there after the rate fell; then the scale-in begins all the same."""


@dataclass
class StreamRun:
    """A run: what it is, and what has been seen of it so far."""

    mechanism: str
    job: WordCount
    first: int
    """Position of the first row of the steady stream; those before are there at once."""
    quiet_after_s: float
    """When the stream's rate falls, in seconds after its start."""
    tau: float
    say: Callable[[str], None]
    seen: list[BatchObservation] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def trace(self) -> Trace:
        """Return what the run showed."""
        start_ms = self.job.clock.start_ms
        if start_ms is None:
            raise SparkError(f"{self.mechanism}: the stream never began")
        seen = {observed.batch: observed for observed in self.seen}
        batches = committed_batches(self.job.checkpoint)
        return Trace(batches, seen, self.job.recording.due_ms, start_ms, self.first)


def run_in_session(run: StreamRun, spark: SparkSession) -> None:
    """Run a mechanism that stays in one session."""
    stream = RunningStream(spark, run.job, run.seen.append)
    replay = Replay(run.job.feeds, stream.check)
    try:
        _lead_in(run, replay)
        with _mechanism(run, stream) as mechanism:
            _scaled_out_and_in(run, replay, mechanism)
    finally:
        stream.stop()


def run_applications(run: StreamRun, spec: ApplicationSpec, log: Path) -> None:
    """Run the mechanism that needs a new application for every change."""
    restart = Restart(Application(spec, log))
    replay = Replay(run.job.feeds, lambda: restart.application.check())
    try:
        _lead_in(run, replay)
        _scaled_out_and_in(run, replay, restart)
        restart.application.stop()
    finally:
        restart.application.kill()
    run.seen.extend(read_observations(spec.observations))


@contextmanager
def _mechanism(run: StreamRun, stream: RunningStream) -> Iterator[Mechanism]:
    like = partial(warm_up_stream, job=run.job)

    def warm(ids: Sequence[str]) -> None:
        cold = [entry for entry in stream.door.executors() if entry.id in ids]
        warm_up(stream.door, cold, like, beside=run.job.checkpoint.as_uri())

    if run.mechanism == "stock":
        yield Stock(stream)
    elif run.mechanism == "pause":
        yield Pause(stream, warm)
    else:
        least, most = EXECUTORS
        policy = live_policy(run.mechanism, least=least, most=most, tau=run.tau)
        live = Live(stream, policy, like)
        try:
            yield live
        finally:
            live.close()


def _lead_in(run: StreamRun, replay: Replay) -> None:
    """Run a few small batches, then start the steady stream."""
    run.say("warming the stream")
    replay.lead_in([run.first], batches=_LEAD_BATCHES)
    replay.begin()


def _scaled_out_and_in(run: StreamRun, replay: Replay, mechanism: Mechanism) -> None:
    least, most = EXECUTORS
    replay.wait_for_batches(_BETWEEN)
    for before, after in ((least, most), (most, least)):
        run.say(f"{before} to {after} executors")
        asked_ms = time.time() * 1000
        mechanism.scale_to(after)
        replay.wait_for_batches(_BETWEEN)
        stops = run.mechanism in STOPPING
        ends_ms = time.time() * 1000
        run.changes.append(Change(run.mechanism, before, after, asked_ms, ends_ms, stops))
        if after == most:
            _await_quiet(run, replay)


def _await_quiet(run: StreamRun, replay: Replay) -> None:
    """Wait until the rate has fallen and the query is up to date, and some batches more."""
    run.say("waiting for the rate to fall")
    clock, recording = run.job.clock, run.job.recording
    quiet_s = (clock.start_ms or 0) / 1000 + run.quiet_after_s

    def quiet() -> bool:
        now_s = time.time()
        due = clock.rows_available(recording, now_s * 1000 - _UP_TO_DATE_MS)
        return now_s > quiet_s + _CATCH_UP_S or (now_s > quiet_s and replay.rows_done >= due)

    replay.wait(quiet)
    replay.wait_for_batches(_BETWEEN)
