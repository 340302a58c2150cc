"""The migration benchmark: one stream, one scale-out and one scale-in, under every mechanism.

Paper 000, section 6, figure 15: the response time around a migration, live against a restart of
the application. Here seven mechanisms are compared, at a small and at a large state, and all of it
in one run of the command, so that no two figures come from different machines or moods.

The state is filled once (ballast words that are never touched again) and its checkpoint copied for
every mechanism, so that all start alike. The query goes on from the copy, is warmed by a few small
batches, and the steady stream begins, at a rate that keeps two executors busy. After some batches
an executor is added. Then the rate falls, as it does before anybody scales in; the query comes up
to date, and after some batches more the executor is taken away. At the end every word's count is
compared with a batch count. What follows from a run is computed in
:mod:`elastream_lab.benchmarks.migration.trace`.

The mechanisms that stay in one session share it, in turn; a restart needs driver processes of its
own, and runs while no other is there.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.demo.made_posts import SteadyPosts, make_steady_posts
from elastream.demo.word_count import (
    BALLAST,
    WordCount,
)
from elastream.harness.commit_log import committed_batches
from elastream.harness.job_session import job_session
from elastream.harness.replay import ReplayClock
from elastream.harness.response_time import Spread
from elastream.model.checks import amount, count, positive
from elastream.model.errors import ElastreamError, ProblemError, SparkError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream.spark.steer.graceful_stop import stop_gracefully
from elastream_lab.benchmarks.migration.mechanisms import MECHANISMS
from elastream_lab.benchmarks.migration.run import (
    EXECUTORS,
    StreamRun,
    run_applications,
    run_in_session,
)
from elastream_lab.benchmarks.migration.trace import (
    Resize,
    ResizeFigures,
    Trace,
    measured,
    share_on_new,
)
from elastream_lab.mechanisms.application import ApplicationSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STATES", "BenchResult", "BenchSettings", "run_benchmark"]

STATES: Final = {"small": 3 << 20, "large": 512 << 20}
"""Bytes of ballast in the state."""

_BALLAST_BYTES: Final = 16 << 10
_WORDS_A_BALLAST_POST: Final = 8
_LEAD_ROWS: Final = 600
_LONGEST_S: Final = 1500.0
"""A run has posts for so long."""
_LONGEST_TRIGGERS: Final = 4.0
"""A batch takes at most the posts of so many triggers, as a query in production would."""
_QUIET_AFTER_S: Final = 100.0
_QUIET_SHARE: Final = 0.6
"""After so long the rate falls to this share of what it was."""
_SNAPSHOT_TIMEOUT_S: Final = 300.0
_CONFIG: Final = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "5",
}
"""Snapshots of the state are written often enough that every run starts from one."""


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What shall be compared; checked when made."""

    states: tuple[str, ...] = ("small",)
    mechanisms: tuple[str, ...] = MECHANISMS
    posts_a_second: float = 500.0
    service_us: float = 550.0
    trigger_s: float = 1.0
    partitions: int = 12
    tau: float = 0.1
    executor_memory_mb: int = 800
    in_memory: bool = False
    """Keep checkpoints in memory-backed storage, which takes the disk out of the figures."""

    def __post_init__(self) -> None:
        _known("states", self.states, tuple(STATES))
        _known("mechanisms", self.mechanisms, MECHANISMS)
        positive("posts_a_second", self.posts_a_second)
        positive("trigger_s", self.trigger_s)
        amount("service_us", self.service_us)
        count("partitions", self.partitions, least=EXECUTORS[1])


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One mechanism, one direction, one state."""

    state: str
    change: Resize
    figures: ResizeFigures
    exact: bool
    series: tuple[tuple[float, float], ...]
    """A batch each: seconds since the change was asked for, mean response time in seconds."""
    shares: tuple[tuple[float, float], ...]
    """A batch each: seconds as above, share of the work done by executors that came."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries, and with what else was measured."""
        figures = self.figures
        return {
            "mechanism": self.change.mechanism,
            "direction": self.change.direction,
            "exact": self.exact,
            "median_batch_ms_before": round(figures.median_batch_ms_before),
            "worst_batch_ms": round(figures.worst_batch_ms),
            "response_ms": _json(figures.response),
            "state_bytes_moved": figures.state_bytes_moved,
            "partitions_moved": figures.partitions_moved,
            "batches_until_balanced": figures.batches_until_balanced,
            "state": self.state,
            "response_before_ms": _json(figures.response_before),
            "response_after_ms": _json(figures.response_after),
            "preparation_s": round(figures.preparation_s, 1),
            "worst_preparation_batch_ms": (
                None
                if figures.worst_preparation_ms is None
                else round(figures.worst_preparation_ms)
            ),
            "moving_s": round(figures.moving_s, 1),
        }


@dataclass(frozen=True, slots=True)
class _Bench:
    """What the runs at one state share."""

    settings: BenchSettings
    state: str
    posts: SteadyPosts
    filled: WordCount
    """The job that filled the state; its checkpoint is copied for every run."""
    folder: Path
    say: Callable[[str], None]
    failed: Callable[[str], None]


def run_benchmark(
    settings: BenchSettings,
    *,
    say: Callable[[str], None],
    done: Callable[[BenchResult], None],
    failed: Callable[[str], None],
) -> None:
    """Run every mechanism at every state.

    ``done`` is called with each result as it is there, ``failed`` with a line about each run that
    came to none; the others go on.
    """
    shared_memory = Path("/dev/shm")
    parent = shared_memory if settings.in_memory and shared_memory.is_dir() else None
    for state in settings.states:
        with tempfile.TemporaryDirectory(prefix="elastream-bench-", dir=parent) as name:
            for result in _results(_prepared(settings, state, Path(name), say, failed)):
                done(result)


def _prepared(
    settings: BenchSettings,
    state: str,
    folder: Path,
    say: Callable[[str], None],
    failed: Callable[[str], None],
) -> _Bench:
    words = [f"{BALLAST}{number}" for number in range(STATES[state] // _BALLAST_BYTES)]
    step = _WORDS_A_BALLAST_POST
    opening = tuple(" ".join(words[at : at + step]) for at in range(0, len(words), step))
    posts = SteadyPosts(
        _LONGEST_S,
        settings.posts_a_second,
        opening,
        _LEAD_ROWS,
        quiet_after_s=_QUIET_AFTER_S,
        quiet_share=_QUIET_SHARE,
    )
    filled = WordCount(
        recording=make_steady_posts(posts, folder / "posts.arrow"),
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=settings.partitions,
        service_us=settings.service_us,
        trigger_s=settings.trigger_s,
        rows_a_batch=round(_LONGEST_TRIGGERS * settings.trigger_s * settings.posts_a_second),
        ballast_bytes=_BALLAST_BYTES,
    )
    return _Bench(settings, state, posts, filled, folder, say, failed)


def _results(bench: _Bench) -> Iterator[BenchResult]:
    bench.say(f"{bench.state} state: filling it")
    with _session(bench) as spark:
        _fill(bench, spark)
    runs = [_new_run(bench, mechanism) for mechanism in bench.settings.mechanisms]
    restarts = [run for run in runs if run.mechanism == "restart" and _restarted(bench, run)]
    with _session(bench) as spark:
        for run in restarts:
            yield from _figures(bench, run, spark)
        for run in (run for run in runs if run.mechanism != "restart"):
            try:
                _copy_state(bench, run)
                run_in_session(run, spark)
                yield from _figures(bench, run, spark)
            except ElastreamError as error:
                bench.failed(f"{bench.state} state, {run.mechanism}: {error}")
            shutil.rmtree(run.job.checkpoint, ignore_errors=True)


def _session(bench: _Bench) -> AbstractContextManager[SparkSession]:
    return job_session(
        EmbeddedCluster(
            executors=EXECUTORS[0],
            max_executors=EXECUTORS[1],
            executor_memory_mb=bench.settings.executor_memory_mb,
            checkpoint_in_memory=bench.settings.in_memory,
            config=_CONFIG,
        )
    )


def _fill(bench: _Bench, spark: SparkSession) -> None:
    """Put the ballast into the state, and wait until a snapshot of it is in the checkpoint."""
    rows = len(bench.posts.opening)
    job = replace(bench.filled, service_us=0.0, rows_a_batch=max(8, rows // 10))
    (query,) = job.start(spark)
    job.clock.open(rows)
    query.processAllAvailable()
    version = committed_batches(job.checkpoint)[-1].batch + 1
    deadline = time.monotonic() + _SNAPSHOT_TIMEOUT_S
    while not _has_snapshots(job, version):
        if time.monotonic() > deadline:
            raise SparkError(f"no snapshot of the state within {_SNAPSHOT_TIMEOUT_S:g} s")
        rows = min(rows + 1, bench.posts.first)
        job.clock.open(rows)
        query.processAllAvailable()
        time.sleep(1.0)
    stop_gracefully(query)


def _has_snapshots(job: WordCount, version: int) -> bool:
    """Tell whether every partition has a snapshot of that version of its state or a later one."""
    state = job.checkpoint / "state" / "0"
    snapshot = re.compile(r"(\d+)(_.*)?\.zip")
    return all(
        any(
            (match := snapshot.fullmatch(file.name)) and int(match[1]) >= version
            for file in (state / str(partition)).iterdir()
        )
        for partition in range(job.partitions)
    )


def _new_run(bench: _Bench, mechanism: str) -> StreamRun:
    job = replace(
        bench.filled,
        checkpoint=bench.folder / f"checkpoint-of-{mechanism}",
        clock=ReplayClock(bench.folder / f"clock-of-{mechanism}"),
    )

    def say(what: str) -> None:
        bench.say(f"{bench.state} state, {mechanism}: {what}")

    return StreamRun(mechanism, job, bench.posts.first, _QUIET_AFTER_S, bench.settings.tau, say)


def _copy_state(bench: _Bench, run: StreamRun) -> None:
    shutil.copytree(bench.filled.checkpoint, run.job.checkpoint)


def _restarted(bench: _Bench, run: StreamRun) -> bool:
    spec = ApplicationSpec(
        job=run.job,
        executors=EXECUTORS[0],
        executor_memory_mb=bench.settings.executor_memory_mb,
        observations=bench.folder / "observations",
        config=tuple(_CONFIG.items()),
    )
    try:
        _copy_state(bench, run)
        run_applications(run, spec, bench.folder / "applications.log")
    except ElastreamError as error:
        bench.failed(f"{bench.state} state, {run.mechanism}: {error}")
        return False
    return True


def _figures(bench: _Bench, run: StreamRun, spark: SparkSession) -> Iterator[BenchResult]:
    trace = run.trace()
    run.say("checking against a batch count")
    exact = not run.job.wrong(spark)
    for change in run.changes:
        figures = measured(trace, change, tau=run.tau)
        series, shares = _series(trace, change), share_on_new(trace, change)
        yield BenchResult(bench.state, change, figures, exact, series, shares)


def _series(trace: Trace, change: Resize) -> tuple[tuple[float, float], ...]:
    """Return the mean response time of every batch around the change."""
    begin_ms = change.asked_ms - 15_000
    batches = [b for b in trace.batches if begin_ms <= b.finished_ms <= change.ends_ms]
    points = []
    for batch in batches:
        rows = trace.responses([batch]).response_ms
        if len(rows):
            at_s = (batch.finished_ms - change.asked_ms) / 1000
            points.append((at_s, float(rows.mean()) / 1000))
    return tuple(points)


def _known(field: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not given:
        raise ProblemError(field, f"name at least one of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise ProblemError(field, f"{name} is none of {', '.join(known)}")


def _json(spread: Spread | None) -> dict[str, int] | None:
    return None if spread is None else spread.as_json()
