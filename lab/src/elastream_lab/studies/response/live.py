"""The study on real executors of this machine: every planner in turn on the same running query.

One query for each application, window and repeat; its window is full before anything is measured.
The planners take turns on it, each from where it would have begun. Executors are all there from the
start: of this many, as many hold state as the sizes say. At the end every tick that was reported is
held against the plain miner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.attachment import attach
from elastream.foresight.chain import ChainSettings, migration_chain
from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream_lab.applications.patterns.job import PatternsJob
from elastream_lab.harness.commit_log import committed_batches
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.harness.made_posts import make_posts
from elastream_lab.harness.recording import Recording, write_recording
from elastream_lab.harness.replay import ReplayClock
from elastream_lab.harness.replaying import Replay
from elastream_lab.mechanisms.running_stream import RunningStream, stopped_at_the_end
from elastream_lab.mechanisms.trace import Trace
from elastream_lab.studies.machine import MUCH, machine_times
from elastream_lab.studies.response.costs import Costs, costs_of
from elastream_lab.studies.response.planning import Planning, aware_planner
from elastream_lab.studies.response.settings import APPLICATIONS, ResponseStudy
from elastream_lab.studies.response.turns import (
    Case,
    Measured,
    Stage,
    Turned,
    by_hand,
    measured_turn,
    turn,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_VOCABULARY: Final = 300
_LEAD_BATCHES: Final = 6
_REST_S: Final = 3.0
_MOVE_TIMEOUT_S: Final = 120.0
_TRIES: Final = 3
"""How often a planner has its turn while the host of a virtual machine keeps much of its time."""
_SPARE_S: Final = 300.0
_CATCH_UP_S: Final = 60.0
_BEHIND_S: Final = 5.0
"""A query is up to date that has committed what was due so long before the last trigger."""
_BATCHES_BEFORE: Final = 5
"""This many batches are seen before the first turn, so that work is known."""


@dataclass(frozen=True, slots=True)
class LiveCase:
    """What one query showed."""

    measured: tuple[Measured, ...]
    costs: Costs
    wrong_ticks: int


def cluster_of(study: ResponseStudy) -> EmbeddedCluster:
    """Return the cluster that the study needs."""
    most = max(study.sizes)
    return EmbeddedCluster(
        executors=most, max_executors=most, app_name="elastream study migration-response"
    )


def run_live(
    study: ResponseStudy,
    spark: SparkSession,
    case: Case,
    say: Callable[[str], None],
    posts: Recording | None = None,
) -> LiveCase:
    """Run one query, and all planners on it; on made posts where none are given."""
    job, first = _job(study, spark, case, posts)
    seen: list[BatchObservation] = []
    turned: list[Turned] = []
    with stopped_at_the_end(RunningStream(spark, job, seen.append)) as stream:
        replay = Replay(job.feeds, stream.check)
        say("filling the window")
        replay.lead_in([first], batches=_LEAD_BATCHES)
        replay.begin()
        with attach(stream.query, by_hand(max(study.sizes))) as loop:
            replay.wait_for_batches(_BATCHES_BEFORE)
            _await_up_to_date(job, replay, say)

            def settle() -> None:
                if not loop.wait(_MOVE_TIMEOUT_S):
                    loop.abandon("the study waits no longer")
                    loop.wait(_MOVE_TIMEOUT_S)

            def wait_until(at_ms: float) -> None:
                replay.wait(lambda: 1000 * time.time() >= at_ms)

            stage = Stage(
                loop,
                lambda: 1000 * time.time(),
                settle,
                wait_until,
                load=lambda: os.getloadavg()[0],
                times=machine_times,
            )
            for planning in _plannings(study, case, stage):
                turned += _quietest(study, stage, planning, say)
            replay.wait_for_batches(1)
    trace = _trace(job, first, seen)
    found = [measured_turn(case, trace, each, study.seconds) for each in turned]
    if lost := sum(each is None for each in found):
        say(f"{lost} of {len(found)} migrations were not carried out as planned, and are left out")
    nodes = fmean(study.sizes)
    costs = costs_of(case.application, case.window, nodes, study.posts_a_second, seen)
    say("checking against the plain miner")
    return LiveCase(tuple(each for each in found if each), costs, job.wrong_so_far(spark))


def _quietest(
    study: ResponseStudy, stage: Stage, planning: Planning, say: Callable[[str], None]
) -> list[Turned]:
    """Give a planner its turn, again where the host kept much of the time; return the best one."""
    tries: list[list[Turned]] = []
    while len(tries) < _TRIES:
        say(planning.name)
        tries.append(list(turn(stage, planning, study.sizes, study.seconds, _REST_S)))
        if (kept := _most_stolen(tries[-1])) <= MUCH:
            break
        say(f"{planning.name}: the host kept {kept:.0%} of the time around a migration")
    return min(tries, key=_most_stolen)


def _most_stolen(turned: Sequence[Turned]) -> float:
    return max(each.stolen for each in turned)


def _await_up_to_date(job: PatternsJob, replay: Replay, say: Callable[[str], None]) -> None:
    """Wait until the query has worked off what its start held up; not for ever."""
    deadline = time.monotonic() + _CATCH_UP_S

    def is_up_to_date() -> bool:
        long_ago_ms = 1000 * (time.time() - job.trigger_s - _BEHIND_S)
        return replay.rows_done >= job.clock.rows_available(job.recording, long_ago_ms)

    replay.wait(lambda: is_up_to_date() or time.monotonic() > deadline)
    if not is_up_to_date():
        say("the query is behind: the machine has more to do than it can")


def _plannings(study: ResponseStudy, case: Case, stage: Stage) -> Iterator[Planning]:
    """Yield the planners; later repeats in the other order, so that none is always the first."""
    names = study.planners if case.repeat % 2 else study.planners[::-1]
    for name in names:
        aware = None
        if name == "transition":
            problem = stage.problem(study.sizes[0], study.tau)
            chain = migration_chain(study.sizes, ChainSettings(gamma=study.gamma))
            sizes = [round(size) for size in problem.state]
            aware = aware_planner([float(w) for w in problem.work], sizes, study.tau, chain)
        yield Planning(name, study.tau, case.repeat, aware)


def _job(
    study: ResponseStudy, spark: SparkSession, case: Case, posts: Recording | None
) -> tuple[PatternsJob, int]:
    """Return the job, and how many posts fill its window before the replay begins."""
    folder, first = fresh_folder(spark), case.window
    turns_s = len(study.planners) * (_REST_S + len(study.sizes) * study.seconds)
    rows = round(study.posts_a_second * (_TRIES * turns_s + _SPARE_S))
    steady_ms = np.concatenate([np.zeros(first), np.arange(rows) * 1000 / study.posts_a_second])
    due_ms, path = steady_ms.astype(np.int64), folder / "posts.arrow"
    if posts is None:
        seed = study.seed + case.repeat
        recording = make_posts(due_ms, path, seed=seed, vocabulary=_VOCABULARY)
    else:
        recording = write_recording(path, due_ms, posts.texts_in_turn(len(due_ms)))
    job = PatternsJob(
        recording,
        ReplayClock(folder / "clock"),
        folder / "checkpoint",
        study.mining(case.application, case.window),
        partitions=study.partitions,
        service_us=APPLICATIONS[case.application].service_us,
    )
    return job, first


def _trace(job: PatternsJob, first: int, seen: list[BatchObservation]) -> Trace:
    start_ms = job.clock.start_ms
    if start_ms is None:
        raise SparkError("the stream never began")
    due_ms = job.clock.due_ms(job.recording)
    by_batch = {batch.batch: batch for batch in seen}
    return Trace(committed_batches(job.checkpoint), by_batch, due_ms, start_ms, first)
