"""Points of the ideal set run on executors, under one placement after the other.

The traffic monitor over three sub-streams (:mod:`elastream_lab.applications.traffic`): four
aggregations each, 12 pairs. A packet costs every result that it is counted in a millisecond, slept
or burnt where the state is, as the paper's delay operators do. One session and one set of running
queries serves all: a trial run, in which rates change from batch to batch, measures what pairs
cost; then the pairs are moved, live, from placement to placement, and under each of them points are
fed one after the other, every one to queries that have read all there was before.

Points come in blocks. In a block every placement has all of its points; the next block begins with
another placement, so that what the machine does meanwhile falls on all alike. As the paper repeats
its rivals, theirs are drawn again for each block. Placements that are the same are run once. A run
during which the host of a virtual machine kept more than a little of its time is run again when the
host is quiet, as often as there are runs in all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from elastream.model.errors import SparkError
from elastream.model.observation import BatchObservation, TaskId
from elastream.resilience.planner.normalised import Floats
from elastream.resilience.spark.measure import Measured, measure
from elastream.resilience.spark.watching import batches_of
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.applications.traffic.packets import record_substreams
from elastream_lab.applications.traffic.placed_pairs import Placing, placing
from elastream_lab.studies.figure import Figure
from elastream_lab.studies.machine import QuietHost, machine_times, stolen_share
from elastream_lab.studies.resilience.pacing import Fed, fed_meanwhile, feed, waited_s
from elastream_lab.studies.resilience.points import Model
from elastream_lab.studies.resilience.truth import (
    BLOCK,
    PointRun,
    SparkTruth,
    truth_figures,
    whole_points,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream_lab.applications.traffic.job import TrafficJob
    from elastream_lab.harness.replaying import Replay


SUBSTREAMS: Final = 3
SERVICE_US: Final = 1000.0
"""What a packet costs every result that it is counted in."""
_RESULTS: Final = sum(aggregation.rows_a_packet for aggregation in AGGREGATIONS)
"""In how many a packet is counted."""
_TRIAL_BATCHES: Final = 40
_TRIAL_LOAD: Final = 0.3
"""Of what executors have, in the mean of the trial: so little that batches keep to the triggers, as
they do at points that executors bear. A task takes time without any packet, in every batch."""
_TRIAL_S: Final = 600.0
_WARM_S: Final = 3600.0
_TRIALS: Final = 4
_WARM_ROWS: Final = 60
_TOLD_S: Final = 30.0
_LOOK_S: Final = 0.05


def truth_on_spark(
    study: SparkTruth, say: Callable[[str], None], runs: list[PointRun]
) -> tuple[Figure, ...]:
    """Run the study on an embedded cluster and return its figures.

    Every run is added to ``runs`` when it is over, which may have those of earlier studies.
    """
    from elastream_lab.harness.job_session import fresh_folder, job_session
    from elastream_lab.studies.resilience.study_cluster import study_cluster

    say(f"starting Spark, {study.executors} executors")
    with job_session(study_cluster(study.executors)) as spark:
        _run(spark, study, fresh_folder(spark), say, runs)
    return truth_so_far(study, runs)


def truth_so_far(study: SparkTruth, runs: Sequence[PointRun]) -> tuple[Figure, ...]:
    """Return the figures of the points that every placement has borne or not; none: no figures."""
    whole = whole_points(runs, study.methods)
    about = (
        f"{SUBSTREAMS} made sub-streams, {SUBSTREAMS * len(AGGREGATIONS)} pairs, "
        f"{SERVICE_US:.0f} us for a packet in a result, rivals drawn again every {BLOCK} points"
    )
    return truth_figures(whole, study, about) if whole else ()


def _run(
    spark: SparkSession,
    study: SparkTruth,
    folder: Path,
    say: Callable[[str], None],
    runs: list[PointRun],
) -> None:
    from elastream_lab.applications.traffic.job import warmed

    monitor = _monitor(spark, study, folder)
    host = QuietHost(say, tries=study.points * len(study.methods))
    with warmed(spark, monitor) as (replay, queries):
        say("a trial run, once executors are warm, measures what the pairs cost")
        measured = _trial(study, replay, queries, host, say)
        _drain(replay)
        with placing(queries) as running:
            live = _Live(study, replay, running)
            model = Model.of(measured.problem(), [each.slots for each in running.executors])
            for run in _all_blocks(study, model, live, host, say):
                runs.append(run)  # noqa: PERF402 - kept, should a later one fail


def _all_blocks(
    study: SparkTruth, model: Model, live: _Live, host: QuietHost, say: Callable[[str], None]
) -> Iterator[PointRun]:
    points = model.points(study.seed, study.points)
    for number, numbers in enumerate(blocks(study.points)):
        wanted: dict[tuple[int, ...], list[str]] = {}
        for method in study.methods:
            nodes = model.place(method, study.seed * study.points + number)
            wanted.setdefault(nodes, []).append(method)
        turn = number % len(wanted)
        for nodes, methods in (*list(wanted.items())[turn:], *list(wanted.items())[:turn]):
            live.place(nodes, methods)
            volume = model.volume(nodes)
            for point in numbers:
                rates = points[point]
                predicted = float(model.utilisation(nodes, rates).max())
                seen = live.run(rates)
                while host.try_again(seen.stolen, f"point {point + 1}"):
                    seen = live.run(rates)
                say(
                    f"point {point + 1}, {', '.join(methods)}: foretold {predicted:.2f}, "
                    f"used {seen.used:.2f}, oldest waited {seen.waited:.0f} triggers"
                )
                report = tuple(float(rate) for rate in rates)
                for method in methods:
                    yield PointRun(
                        method,
                        point,
                        report,
                        predicted,
                        seen.used,
                        seen.waited,
                        volume,
                        seen.stolen,
                        study.seed,
                    )


def blocks(points: int) -> list[range]:
    """Return the points by number, some at a time."""
    return [range(first, min(first + BLOCK, points)) for first in range(0, points, BLOCK)]


class _Seen(NamedTuple):
    used: float
    waited: float
    stolen: float


class _Live:
    """Queries that run, whose pairs are moved and whose batches are heard."""

    def __init__(self, study: SparkTruth, replay: Replay, running: Placing) -> None:
        self._study, self._replay, self._running = study, replay, running
        self._cores = {each.id: float(each.slots) for each in running.executors}
        self._heard: dict[tuple[str, int], BatchObservation] = {}
        self._names = tuple(dict.fromkeys(task.query for task in running.tasks))
        self._where: Mapping[TaskId, str] = {}
        batches_of(running.attachment.monitor, self._hear)

    def place(self, nodes: Sequence[int], methods: Sequence[str]) -> None:
        """Move pairs until all are in place; the queries have a packet a trigger meanwhile."""
        trickle = [1 / self._study.trigger_s] * len(self._replay.feeds)
        with fed_meanwhile(self._replay, lambda: trickle, trigger_s=self._study.trigger_s):
            placed = self._running.place(nodes)
        if not placed.holds:
            raise SparkError(f"{', '.join(methods)}: {' '.join(str(placed).splitlines())}")
        self._where = {
            task: self._running.executors[node].id
            for task, node in zip(self._running.tasks, nodes, strict=True)
        }
        _drain(self._replay)

    def run(self, rates: Floats) -> _Seen:
        """Feed the rates of a point, wait until all is read, and return what was seen."""
        before = [len(batches) for batches in self._replay.batches]
        began = machine_times()
        fed = feed(
            self._replay,
            [float(rate) for rate in rates],
            triggers=self._study.batches,
            trigger_s=self._study.trigger_s,
        )
        _drain(self._replay)
        stolen = stolen_share(began, machine_times())
        own = [
            (name, batch.batch)
            for name, batches, first in zip(self._names, self._replay.batches, before, strict=True)
            for batch in batches[first:]
        ]
        report = self._observations(own)
        self._expect_in_place(report)
        used = busiest(report, self._cores, 1000 * self._study.fed_s)
        return _Seen(used, self._waited(fed) / self._study.trigger_s, stolen)

    def _expect_in_place(self, batches: Sequence[BatchObservation]) -> None:
        for task in (task for batch in batches for task in batch.tasks):
            if task.executor != self._where[task.task]:
                raise SparkError(f"{task.task} ran on executor {task.executor}, out of its place")

    def _waited(self, fed: Fed) -> float:
        return max(
            waited_s(batches, [(at_ms, rows[k]) for at_ms, rows in fed.opened], fed.until_ms)
            for k, batches in enumerate(self._replay.batches)
        )

    def _hear(self, batch: BatchObservation) -> None:
        self._heard[batch.query, batch.batch] = batch

    def _observations(self, wanted: Sequence[tuple[str, int]]) -> list[BatchObservation]:
        """Return what was reported of batches; a batch is committed before that."""
        deadline = time.monotonic() + _TOLD_S
        while missing := [each for each in wanted if each not in self._heard]:
            if time.monotonic() > deadline:
                raise SparkError(
                    f"Spark reported nothing about batch {missing[0][1]} of {missing[0][0]}"
                )
            time.sleep(_LOOK_S)
        return [self._heard.pop(each) for each in wanted]


def busiest(
    batches: Sequence[BatchObservation], cores: Mapping[str, float], came_in_ms: float
) -> float:
    """Return the run time that batches asked of the busiest executor, over what it has.

    ``cores`` are those of each executor; packets came within ``came_in_ms``.
    """
    busy_ms = dict.fromkeys(cores, 0.0)
    for batch in batches:
        for task in batch.tasks:
            busy_ms[task.executor] += task.run_ms
        for executor, run_ms in batch.outside_ms.items():
            busy_ms[executor] += run_ms
    return max(run_ms / (cores[executor] * came_in_ms) for executor, run_ms in busy_ms.items())


def _trial(
    study: SparkTruth,
    replay: Replay,
    queries: Sequence[StreamingQuery],
    host: QuietHost,
    say: Callable[[str], None],
) -> Measured:
    """Measure at rates that change from batch to batch, so that a line can be fitted."""
    rng = np.random.default_rng((study.seed, 1))
    most = _most_rate(study)

    def rates() -> Sequence[float]:
        load = _TRIAL_LOAD * float(rng.uniform(0.4, 1.6))
        return [float(part) * load * most for part in rng.dirichlet(np.full(SUBSTREAMS, 3.0))]

    with fed_meanwhile(replay, rates, trigger_s=study.trigger_s):
        measure(queries, batches=1, skip=study.warm_batches, timeout_s=_WARM_S)
    for more in reversed(range(_TRIALS)):
        began = machine_times()
        with fed_meanwhile(replay, rates, trigger_s=study.trigger_s):
            measured = measure(queries, batches=_TRIAL_BATCHES, timeout_s=_TRIAL_S)
        stolen = stolen_share(began, machine_times())
        if not more or not host.try_again(stolen, "the trial"):
            break
    say(f"the trial is over; the host kept {stolen:.1%} of the time")
    return measured


def _drain(replay: Replay) -> None:
    replay.wait(lambda: replay.rows_done >= sum(replay.lead))


def _most_rate(study: SparkTruth) -> float:
    """Return the packets a second that executors could bear if Spark itself cost nothing."""
    return study.executors / (_RESULTS * SERVICE_US * 1e-6)


def _monitor(spark: SparkSession, study: SparkTruth, folder: Path) -> TrafficJob:
    from elastream_lab.applications.traffic.job import TrafficJob
    from elastream_lab.harness.service_time import hashing_pace

    rows, each_s = _rows_needed(study), 1.0 / _most_rate(study)
    traffic = MadeTraffic(
        seed=study.seed,
        span_s=2 * SUBSTREAMS * rows * each_s,
        packets_a_second=1.0 / each_s,
        substreams=SUBSTREAMS,
        bias=0.5,
    )
    folder = folder / "points"
    folder.mkdir()
    recordings = record_substreams(
        make_packets(traffic), folder, substreams=SUBSTREAMS, replay_s=traffic.span_s
    )
    warm_ms = min(float(one.due_ms[min(_WARM_ROWS, one.rows - 1)]) for one in recordings)
    return TrafficJob(
        recordings,
        folder,
        service_us=SERVICE_US,
        rounds_a_ms=hashing_pace(spark) if study.work == "burnt" else None,
        trigger_s=study.trigger_s,
        lead_s=warm_ms / 1000,
        keep_results=False,
    )


def _rows_needed(study: SparkTruth) -> int:
    """Return about how many packets of a sub-stream are read at most, in the whole study."""
    a_point = _most_rate(study) * study.fed_s
    mean = 1 / (SUBSTREAMS + 1)  # of a coordinate in the ideal set
    spread = 3 * math.sqrt(study.points) * mean + 1
    warm_s = study.warm_batches * study.trigger_s
    trial = _most_rate(study) * (_TRIALS * _TRIAL_S / 8 + warm_s / 4)
    runs = 2 * len(study.methods) * (study.points * mean + spread)  # each again at most
    return math.ceil(a_point * runs + trial)
