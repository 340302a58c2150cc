"""The failure benchmark: one stream, one executor killed, under every way to live with that.

The stream is the migration benchmark's: the same posts at the same rate, the same ballast, filled
once, its checkpoint copied for every run, so that all start alike. Each run has a session of its
own, since settings differ, and since a session that has lost an executor is no longer as new. The
process of one executor is killed, the one with most state. At the end every word's count is
compared with a batch count. What follows from a run is computed in
:mod:`elastream_lab.benchmarks.failure.loss`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from elastream.core.policy import Policy
from elastream.model.errors import ElastreamError
from elastream_lab.benchmarks.failure.loss import LossResult, caught_up_s
from elastream_lab.benchmarks.failure.run import run_with_a_loss
from elastream_lab.benchmarks.failure.settings import FailureSettings
from elastream_lab.benchmarks.failure.ways import cluster_of, policy_of
from elastream_lab.benchmarks.migration.bench import (
    fill_state,
    mean_responses,
    state_name,
    steady_stream,
)
from elastream_lab.benchmarks.migration.run import StreamRun
from elastream_lab.harness.made_posts import SteadyPosts
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.word_count import WordCount
from elastream_lab.mechanisms.sessions import stream_session
from elastream_lab.mechanisms.trace import measured


@dataclass(frozen=True, slots=True)
class _Bench:
    """What the runs at one state share."""

    settings: FailureSettings
    state_bytes: int
    posts: SteadyPosts
    filled: WordCount
    """The job that filled the state; its checkpoint is copied for every run."""
    folder: Path
    say: Callable[[str], None]


def run_failures(
    settings: FailureSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[LossResult], None],
    failed: Callable[[str], None],
) -> None:
    """Run every way at every state.

    ``done`` is called with each result as it is there, ``failed`` with a line about each run that
    came to none; the others go on.
    """
    policies = {way: policy_of(way, settings) for way in settings.ways}
    for state_bytes in settings.states:
        with tempfile.TemporaryDirectory(prefix="elastream-bench-") as name:
            folder = Path(name)
            posts, filled = steady_stream(settings.stream, state_bytes, folder)
            bench = _Bench(settings, state_bytes, posts, filled, folder, say)
            _run_all(bench, policies, done, failed)


def _run_all(
    bench: _Bench,
    policies: Mapping[str, Policy | None],
    done: Callable[[LossResult], None],
    failed: Callable[[str], None],
) -> None:
    bench.say(f"{state_name(bench.state_bytes)} state: filling it")
    with stream_session(cluster_of("elastream", bench.settings)) as spark:
        fill_state(bench.filled, bench.posts, spark)
    for repeat in range(1, bench.settings.repeats + 1):
        for way, policy in policies.items():
            run = _new_run(bench, way, repeat)
            try:
                done(_result(bench, run, policy))
            except ElastreamError as error:
                failed(f"{_named(bench, way, repeat)}: {error}")
            shutil.rmtree(run.job.checkpoint, ignore_errors=True)


def _new_run(bench: _Bench, way: str, repeat: int) -> StreamRun:
    job = replace(
        bench.filled,
        checkpoint=bench.folder / f"checkpoint-of-{way}-{repeat}",
        clock=ReplayClock(bench.folder / f"clock-of-{way}-{repeat}"),
    )
    stream = bench.settings.stream
    say = partial(_say, bench, _named(bench, way, repeat))
    return StreamRun(way, repeat, stream.executors, job, bench.posts.first, stream.tau, say)


def _named(bench: _Bench, way: str, repeat: int) -> str:
    again = f", repeat {repeat}" if bench.settings.repeats > 1 else ""
    return f"{state_name(bench.state_bytes)} state, {way}{again}"


def _say(bench: _Bench, run: str, what: str) -> None:
    bench.say(f"{run}: {what}")


def _result(bench: _Bench, run: StreamRun, policy: Policy | None) -> LossResult:
    """Run it, and return what it came to."""
    shutil.copytree(bench.filled.checkpoint, run.job.checkpoint)
    run.say("starting Spark")
    with stream_session(cluster_of(run.mechanism, bench.settings)) as spark:
        loss = run_with_a_loss(run, spark, policy)
        run.say("checking against a batch count")
        exact = not run.job.wrong(spark)
    trace, (change,) = run.trace(), run.changes
    return LossResult(
        way=run.mechanism,
        state_bytes=bench.state_bytes,
        repeat=run.repeat,
        exact=exact,
        loss=loss,
        figures=measured(trace, change, tau=run.tau),
        caught_up_s=caught_up_s(trace, change),
        series=mean_responses(trace, change),
    )
