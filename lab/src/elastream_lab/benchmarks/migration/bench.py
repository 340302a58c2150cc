"""The migration benchmark: one stream, one scale-out and one scale-in, under every mechanism.

Paper 000, section 6, figure 15: the response time around a migration, live against a restart of
the application. Here nine mechanisms are compared, at a state of any size, and all of it in one
run of the command, so that no two figures come from different machines or moods.

The state is filled once and its checkpoint copied for every run, so that all start alike. It is
ballast: words with many bytes of state each. A part of them, ``hot_share``, comes back in the
stream in turn, every twenty seconds or as often as one a post allows, and is written again each
time, while it moves too; the rest is never touched again. The query goes on from the copy, is
warmed by a few small batches, and the steady stream begins, at a rate that keeps the fewer
executors busy. After some batches the executors become more. Then the rate falls, as it does before
anybody scales in; the query comes up to date, and after some batches more they become fewer again.
At the end every word's count is compared with a batch count. What follows from a run is computed in
:mod:`elastream_lab.mechanisms.trace`.

The mechanisms that stay in one session share it, in turn, and all of them come before any comes a
second time; a restart needs driver processes of its own, and runs while no other is there.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ElastreamError, ProblemError, SparkError
from elastream.spark.internals.graceful_stop import stop_gracefully
from elastream_lab.benchmarks.migration.mechanisms import MECHANISMS, spares
from elastream_lab.benchmarks.migration.run import StreamRun, run_applications, run_in_session
from elastream_lab.benchmarks.migration.stored import StoreFigures, store_figures
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.made_posts import SteadyPosts, make_steady_posts
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.service_time import hashing_pace
from elastream_lab.harness.word_count import BALLAST, WordCount
from elastream_lab.mechanisms.application import ApplicationSpec
from elastream_lab.mechanisms.sessions import StreamCluster, stream_session
from elastream_lab.mechanisms.trace import (
    Resize,
    ResizeFigures,
    Trace,
    measured,
    share_on_new,
)
from elastream_lab.stores.installation import StoreParts, installed_store
from elastream_lab.stores.object_store import ObjectStore, object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STATES: Final = {"small": 3 << 20, "large": 512 << 20}
"""Bytes of ballast in the state, of those sizes that have a name."""

_WORK: Final = {"slept": 0.3, "burnt": 0.25}
"""How a word's service time passes, and which share of the time of the fewer executors all words
take where the service time is not given. Spark takes time in addition, at 20 % of 0.5 GB hot a lot:
at
0.55 and 0.45 two executors fell behind there and did not catch up. Burnt time also takes cores from
Spark."""
_STORES: Final = ("local", "s3")
_WORDS_A_POST: Final = 4.0
_TASKS_AN_EXECUTOR: Final = 4
_BALLAST_BYTES: Final = 16 << 10
_HOT_AGAIN_S: Final = 20.0
"""So long it takes until every word of the hot part has come back."""
_WORDS_A_BALLAST_POST: Final = 8
_LEAD_ROWS: Final = 600
_LONGEST_S: Final = 1500.0
"""A run has posts for so long."""
_LONGEST_TRIGGERS: Final = 4.0
"""A batch takes at most the posts of this many triggers, as a query in production would."""
_SNAPSHOT_TIMEOUT_S: Final = 300.0
SOON_UPLOADED: Final = {"spark.sql.streaming.stateStore.maintenanceInterval": "10s"}
"""Snapshots of the state are soon in the checkpoint, so that every run starts from one. How many
batches lie between two is left as Spark has it: such a batch is longer than the others."""


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """What shall be compared; checked when made."""

    states: tuple[int, ...] = (STATES["small"],)
    """Bytes of state."""
    mechanisms: tuple[str, ...] = MECHANISMS
    executors: tuple[int, int] = (2, 3)
    """How many there are at first and after the scale-in, and after the scale-out."""
    hot_share: float = 0.2
    """Which part of the state the stream updates."""
    work: str = "slept"
    """How the service time of a word passes: ``slept`` or ``burnt``."""
    repeats: int = 1
    posts_a_second: float = 500.0
    service_us: float | None = None
    """What a word costs; ``None`` for what keeps the fewer executors busy."""
    trigger_s: float = 1.0
    tau: float = 0.1
    executor_memory_mb: int = 800
    master: str | None = None
    """The Spark master; ``None`` for an embedded cluster."""
    in_memory: bool = False
    """Keep checkpoints in memory-backed storage, which takes the disk out of the figures."""
    store: str = "local"
    """Where checkpoints are: ``local``, a disk of this machine, or ``s3``, an S3 server on it."""
    store_mb_per_s: float | None = None
    """Megabytes a second that go to and from the S3 server, all executors together; ``None``: as
    many as this machine manages."""
    parts: Path = Path(".components")
    """The folder with that server."""

    def __post_init__(self) -> None:
        for size in self.states:
            count("states", size, least=_BALLAST_BYTES)
        check_known("mechanisms", self.mechanisms, MECHANISMS)
        if len(self.executors) != 2 or self.executors[0] >= self.executors[1]:
            raise ProblemError(
                "executors", f"{abbreviate(self.executors)} are not two, fewer first"
            )
        count("executors", self.executors[0], least=1)
        if non_negative("hot_share", self.hot_share) > 1:
            raise ProblemError("hot_share", f"{self.hot_share:g} is more than all of it, 1")
        check_known("work", (self.work,), tuple(_WORK))
        count("repeats", self.repeats, least=1)
        positive("posts_a_second", self.posts_a_second)
        positive("trigger_s", self.trigger_s)
        if self.service_us is not None:
            non_negative("service_us", self.service_us)
        check_known("store", (self.store,), _STORES)
        if self.store_mb_per_s is not None:
            positive("store_mb_per_s", self.store_mb_per_s)
            if self.store != "s3":
                raise ProblemError("store_mb_per_s", "only the store s3 can be slowed down")

    @property
    def partitions(self) -> int:
        """How many state partitions there are."""
        return partitions_of(self.executors)

    @property
    def word_us(self) -> float:
        """What a word costs, in microseconds, at the largest of the states."""
        return self.word_us_at(max(self.states))

    def word_us_at(self, state_bytes: int) -> float:
        """Return what a word costs at a state of that size: its hot part brings words too."""
        if self.service_us is not None:
            return self.service_us
        hot = self.hot_share * state_bytes / _BALLAST_BYTES / _HOT_AGAIN_S
        words_a_second = _WORDS_A_POST * self.posts_a_second + min(hot, self.posts_a_second)
        return round(_WORK[self.work] * self.executors[0] / words_a_second * 1e6, 1)

    def as_json(self) -> dict[str, object]:
        """Return them in the names of the run summaries; of several states the largest."""
        return {
            "executors": list(self.executors),
            "state_bytes": max(self.states),
            "hot_share": self.hot_share,
            "work": self.work,
            "store": self.store,
            "store_mb_per_s": self.store_mb_per_s,
            "service_us": self.word_us,
            "posts_a_second": self.posts_a_second,
            "trigger_s": self.trigger_s,
            "partitions": self.partitions,
            "repeats": self.repeats,
        }


def partitions_of(executors: tuple[int, int]) -> int:
    """Return how many state partitions there are, where executors change between two numbers."""
    return _TASKS_AN_EXECUTOR * executors[1]


def state_name(size: int) -> str:
    """Return what a state is called: its name, or its size."""
    return next((name for name, known in STATES.items() if known == size), f"{size / 1e6:.3g} MB")


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One mechanism, one direction, one state, once."""

    state_bytes: int
    repeat: int
    change: Resize
    figures: ResizeFigures
    exact: bool
    series: tuple[tuple[float, float], ...]
    """A batch each: seconds since the change was asked for, mean response time in seconds."""
    shares: tuple[tuple[float, float], ...]
    """A batch each: seconds as above, share of the work done by executors that came."""
    store: StoreFigures | None = None
    """What went to and from the object store; ``None`` where there was none."""

    @property
    def state(self) -> str:
        """What the state is called."""
        return state_name(self.state_bytes)

    @property
    def case(self) -> tuple[int, str, str]:
        """What a repeat has in common with the others."""
        return self.state_bytes, self.change.mechanism, self.change.direction

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries, and with what else was measured."""
        return {
            "mechanism": self.change.mechanism,
            "direction": self.change.direction,
            "exact": self.exact,
            "repeat": self.repeat,
            **self.figures.as_json(),
            "state": self.state,
            "state_bytes": self.state_bytes,
            **({} if self.store is None else {"store": self.store.as_json()}),
        }


@dataclass(frozen=True, slots=True)
class _Bench:
    """What the runs at one state share."""

    settings: BenchSettings
    state_bytes: int
    posts: SteadyPosts
    filled: WordCount
    """The job that filled the state; its checkpoint is copied for every run."""
    folder: Path
    store: ObjectStore | None
    """Where checkpoints are; ``None``: in the folder."""
    say: Callable[[str], None]
    failed: Callable[[str], None]

    @property
    def state(self) -> str:
        """What the state is called."""
        return state_name(self.state_bytes)

    def kept_as(self, job: WordCount, name: str) -> WordCount:
        """Return the job with its checkpoint under that name."""
        if self.store is None:
            return replace(job, checkpoint=self.folder / name)
        return replace(job, checkpoint=self.store.path(name), uri=self.store.uri(name))

    def config(self, *, filling: bool = False) -> dict[str, str]:
        """Return further settings of a session; filling the state need not take its time."""
        store = {} if self.store is None else self.store.settings(linked=not filling)
        return {**SOON_UPLOADED, **store}


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
    parts = installed_store(settings.parts) if settings.store == "s3" else None
    for state_bytes in settings.states:
        with tempfile.TemporaryDirectory(prefix="elastream-bench-", dir=parent) as name:
            folder = Path(name)
            posts, filled = steady_stream(settings, state_bytes, folder)
            with _store(settings, parts, folder) as store:
                bench = _Bench(settings, state_bytes, posts, filled, folder, store, say, failed)
                bench = replace(bench, filled=bench.kept_as(filled, "checkpoint"))
                for result in _results(bench):
                    done(result)


def _store(
    settings: BenchSettings, parts: StoreParts | None, folder: Path
) -> AbstractContextManager[ObjectStore | None]:
    if parts is None:
        return nullcontext()
    return object_store(parts, folder / "s3", mb_per_s=settings.store_mb_per_s)


def steady_stream(
    settings: BenchSettings, state_bytes: int, folder: Path
) -> tuple[SteadyPosts, WordCount]:
    """Make the posts, and return them with the job whose state they fill."""
    words = [f"{BALLAST}{number}" for number in range(state_bytes // _BALLAST_BYTES)]
    step = _WORDS_A_BALLAST_POST
    posts = SteadyPosts(
        _LONGEST_S,
        settings.posts_a_second,
        tuple(" ".join(words[at : at + step]) for at in range(0, len(words), step)),
        _LEAD_ROWS,
        recurring=tuple(words[: round(settings.hot_share * len(words))]),
        recurring_s=_HOT_AGAIN_S,
    )
    filled = WordCount(
        recording=make_steady_posts(posts, folder / "posts.arrow"),
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=settings.partitions,
        service_us=settings.word_us_at(state_bytes),
        trigger_s=settings.trigger_s,
        rows_a_batch=round(_LONGEST_TRIGGERS * settings.trigger_s * settings.posts_a_second),
        ballast_bytes=_BALLAST_BYTES,
    )
    return posts, filled


def _results(bench: _Bench) -> Iterator[BenchResult]:
    bench.say(f"{bench.state} state: filling it")
    with _session(bench, filling=True) as spark:
        if bench.settings.work == "burnt":
            filled = replace(bench.filled, rounds_a_ms=hashing_pace(spark))
            bench = replace(bench, filled=filled)
        fill_state(bench.filled, bench.posts, spark)
    numbers = range(1, bench.settings.repeats + 1)
    runs = [_new_run(bench, name, n) for n in numbers for name in bench.settings.mechanisms]
    restarts = [run for run in runs if run.mechanism == "restart" and _restarted(bench, run)]
    with _session(bench) as spark:
        for run in restarts:
            yield from _figures(bench, run, spark)
            shutil.rmtree(run.job.checkpoint, ignore_errors=True)
        for run in (run for run in runs if run.mechanism != "restart"):
            try:
                _copy_state(bench, run)
                run_in_session(run, spark)
                yield from _figures(bench, run, spark)
            except ElastreamError as error:
                bench.failed(f"{_named(bench, run.mechanism, run.repeat)}: {error}")
            shutil.rmtree(run.job.checkpoint, ignore_errors=True)


def _session(bench: _Bench, *, filling: bool = False) -> AbstractContextManager[SparkSession]:
    settings = bench.settings
    least, most = settings.executors
    return stream_session(
        StreamCluster(
            executors=least,
            max_executors=most + max(map(spares, settings.mechanisms)),
            executor_memory_mb=settings.executor_memory_mb,
            master=settings.master,
            in_memory=settings.in_memory,
            config=bench.config(filling=filling),
        )
    )


def fill_state(filled: WordCount, posts: SteadyPosts, spark: SparkSession) -> None:
    """Put the ballast into the state, and wait until a snapshot of it is in the checkpoint."""
    rows = len(posts.opening)
    job = replace(filled, service_us=0.0, rows_a_batch=max(8, rows // 10))
    (query,) = job.start(spark)
    job.clock.open(rows)
    query.processAllAvailable()
    version = committed_batches(job.checkpoint)[-1].batch + 1
    deadline = time.monotonic() + _SNAPSHOT_TIMEOUT_S
    while not _has_snapshots(job, version):
        if time.monotonic() > deadline:
            raise SparkError(f"no snapshot of the state within {_SNAPSHOT_TIMEOUT_S:g} s")
        rows = min(rows + 1, posts.first)
        job.clock.open(rows)
        query.processAllAvailable()
        time.sleep(1.0)
    stop_gracefully(query)


def _has_snapshots(job: WordCount, version: int) -> bool:
    """Return whether every partition has a snapshot of that version of its state or a later one."""
    state = job.checkpoint / "state" / "0"
    snapshot = re.compile(r"(\d+)(_.*)?\.zip")
    return all(
        any(
            (match := snapshot.fullmatch(file.name)) and int(match[1]) >= version
            for file in (state / str(partition)).iterdir()
        )
        for partition in range(job.partitions)
    )


def _new_run(bench: _Bench, mechanism: str, repeat: int) -> StreamRun:
    clock = ReplayClock(bench.folder / f"clock-of-{mechanism}-{repeat}")
    job = bench.kept_as(replace(bench.filled, clock=clock), f"checkpoint-of-{mechanism}-{repeat}")

    def say(what: str) -> None:
        bench.say(f"{_named(bench, mechanism, repeat)}: {what}")

    settings = bench.settings
    return StreamRun(
        mechanism, repeat, settings.executors, job, bench.posts.first, settings.tau, say
    )


def _named(bench: _Bench, mechanism: str, repeat: int) -> str:
    again = f", repeat {repeat}" if bench.settings.repeats > 1 else ""
    return f"{bench.state} state, {mechanism}{again}"


def _copy_state(bench: _Bench, run: StreamRun) -> None:
    shutil.copytree(bench.filled.checkpoint, run.job.checkpoint)


def _restarted(bench: _Bench, run: StreamRun) -> bool:
    spec = ApplicationSpec(
        job=run.job,
        executors=run.executors[0],
        executor_memory_mb=bench.settings.executor_memory_mb,
        observations=bench.folder / f"observations-{run.repeat}",
        config=tuple(bench.config().items()),
        master=bench.settings.master,
    )
    try:
        _copy_state(bench, run)
        run_applications(run, spec, bench.folder / "applications.log")
    except ElastreamError as error:
        bench.failed(f"{_named(bench, run.mechanism, run.repeat)}: {error}")
        return False
    return True


def _figures(bench: _Bench, run: StreamRun, spark: SparkSession) -> Iterator[BenchResult]:
    trace = run.trace()
    run.say("checking against a batch count")
    exact = not run.job.wrong(spark)
    for change in run.changes:
        figures = measured(trace, change, tau=run.tau)
        series, shares = mean_responses(trace, change), share_on_new(trace, change)
        store = None if bench.store is None else store_figures(bench.store, trace, change, figures)
        yield BenchResult(
            bench.state_bytes, run.repeat, change, figures, exact, series, shares, store
        )


def mean_responses(trace: Trace, change: Resize) -> tuple[tuple[float, float], ...]:
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


def check_known(field: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Refuse names that are none of those known, and no name at all."""
    if not given:
        raise ProblemError(field, f"name at least one of {', '.join(known)}")
    for name in given:
        if name not in known:
            raise ProblemError(field, f"{name} is not one of {', '.join(known)}")
