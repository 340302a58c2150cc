"""Figure 18 of paper 003 on Spark, at a size that two cores bear: bursts under every placement.

The traffic monitor of section 7.3.5 (:mod:`elastream_lab.applications.traffic`): three sub-streams
with four aggregations each, 12 pairs. Like the paper's delay operators, a packet costs every result
it is counted in a time that passes where the state is, slept, so that executors and not cores are
what there is too little of, or burnt.

A trial run measures what every pair costs. Then, for each repeat, the same bursts are replayed
under every placement, at every load level from the lowest on: ROD's, which knows costs alone; those
of its rivals, which balance the rates of the first seconds of that traffic; and Spark's own, which
is left as it comes. Placements are carried out in the running queries and verified before the
clocks start. Their order changes from repeat to repeat. Levels of which the host of a virtual
machine kept much of the time are replayed again, twice at most, and those of an earlier study not
at all.

Reported, for the replay of each level alone: the *worst utilisation*, the largest over executors of
the run time that the packets asked of it, in tasks with state and without, over the time in which
they came, above 1 where an executor cannot keep up (over the time the replay took, one that drags
on would look better used); the *placed utilisation*, the same of tasks with state alone, which a
placement can do something about; the 99th percentile of the *batch time*, over the batches of all
queries that read packets; and the *response time* of packets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from elastream.model.checks import count, non_negative, positive
from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import BatchObservation
from elastream.resilience.planner.normalised import Floats, Ints, Space
from elastream.resilience.spark.measure import Measured, measure
from elastream.resilience.spark.watching import batches_of, watching
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS
from elastream_lab.applications.traffic.packets import Packets
from elastream_lab.applications.traffic.placed_pairs import placed_pairs
from elastream_lab.harness.response_time import responses
from elastream_lab.rivals import placements as rivals
from elastream_lab.rivals.methods import METHODS as PLANNERS
from elastream_lab.studies.figure import Value
from elastream_lab.studies.machine import MUCH, QuietHost, machine_times, stolen_share
from elastream_lab.studies.resilience.batch_figures import batch_figures
from elastream_lab.studies.resilience.level_traffic import LEAD_S, Levelled, Source
from elastream_lab.studies.resilience.points import by_substream, space_of_trial
from elastream_lab.studies.resilience.truth import WORKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream_lab.applications.traffic.job import TrafficJob
    from elastream_lab.harness.replaying import Replay


METHODS: Final = ("rod", "llf", "connected", "stock")
"""The placements compared where nothing else is said."""
KNOWN: Final = (*METHODS, "refined", "correlation", "max-rate", "random")
"""All that can be compared: ours, the paper's rivals, and what Spark does."""

SUBSTREAMS: Final = 3
_LOAD: Final = 0.15
"""Share of the executors' time that the packets cost at level 1, in the mean."""
_TRIAL_BATCHES: Final = 6
_TRIAL_S: Final = 600.0
_TRIES: Final = 3
"""How often levels are replayed while the host of a virtual machine keeps much of its time."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkLatency:
    """What to run; checked when made."""

    seed: int = 0
    repeats: int = 2
    replay_s: float = 20.0
    """How long the replay of the bursts takes, at each level."""
    methods: tuple[str, ...] = METHODS
    levels: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    """By what the rates are multiplied."""
    executors: int = 3
    work: str = "slept"
    """How the time passes that a packet costs."""
    log: Packets | None = None
    """Packets to replay; ``None``: they are made."""
    trigger_s: float = 3.0

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("repeats", self.repeats, least=1)
        if not 5 <= non_negative("replay_s", self.replay_s) <= 3600:
            raise ProblemError("replay_s", f"{self.replay_s:g} is not between 5 and 3600")
        for method in self.methods:
            if method not in KNOWN:
                raise ProblemError("methods", f"there is no {method!r}; {', '.join(KNOWN)}")
        if "rod" not in self.methods or len(set(self.methods)) < 2:
            raise ProblemError("methods", "name rod and at least one other")
        for level in self.levels:
            if positive("levels", level) < 1:
                raise ProblemError("levels", f"{level:g} is below 1")
        if not self.levels or any(np.diff(self.levels) <= 0):
            raise ProblemError("levels", "give levels that rise, each once")
        count("executors", self.executors, least=2, most=16)
        if self.work not in WORKS:
            raise ProblemError("work", f"{self.work!r} is not known; give {' or '.join(WORKS)}")

    @property
    def source(self) -> Source:
        """The packets."""
        return Source(SUBSTREAMS, self.replay_s, self.levels, self.repeats, self.seed, self.log)

    @property
    def service_us(self) -> float:
        """What a packet costs every result that it is counted in."""
        rows = sum(aggregation.rows_a_packet for aggregation in AGGREGATIONS)
        return _LOAD * self.executors / (self.source.packets_a_second * rows) * 1e6


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the replay of one level showed."""

    method: str
    repeat: int
    level: float
    worst_utilisation: float
    """Of an executor, all its work counted."""
    placed_utilisation: float
    """Of an executor, tasks with state alone."""
    p99_batch_ms: float
    mean_response_ms: float
    p99_response_ms: float
    worst_response_ms: float
    stolen: float = 0.0
    """Share of the time that the host of a virtual machine kept for others."""

    def as_row(self) -> dict[str, Value]:
        """Return it as a row of the figure that has each by itself."""
        return {**asdict(self), "repeat": self.repeat + 1}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Replayed:
        """Return what a row says; raises ``KeyError`` or ``TypeError`` where it is none."""
        known = {field.name: row[field.name] for field in fields(cls)}
        return cls(**{**known, "repeat": row["repeat"] - 1})

    @property
    def failed(self) -> bool:
        """Whether an executor was asked for more than it has."""
        return self.worst_utilisation > 1


def replays(study: SparkLatency, say: Callable[[str], None], found: list[Replayed]) -> None:
    """Run the study on an embedded cluster, and add to ``found`` what each replay showed.

    What ``found`` has already is not replayed again.
    """
    from elastream_lab.harness.job_session import fresh_folder, job_session
    from elastream_lab.harness.service_time import hashing_pace
    from elastream_lab.studies.resilience.study_cluster import study_cluster

    say(f"starting Spark, {study.executors} executors")
    with job_session(study_cluster(study.executors)) as spark:
        pace = hashing_pace(spark) if study.work == "burnt" else None
        for one in _Replays(spark, study, fresh_folder(spark), pace, say).all(tuple(found)):
            found.append(one)  # noqa: PERF402 - kept, should a later one fail


class _Turn(NamedTuple):
    """A placement that has the bursts of a repeat; ``None`` is Spark's own."""

    method: str
    repeat: int
    allocation: list[int] | None


@dataclass(frozen=True, slots=True, eq=False)
class _Replays:
    """All replays of a study, in one session."""

    spark: SparkSession
    study: SparkLatency
    folder: Path
    rounds_a_ms: float | None
    say: Callable[[str], None]

    def all(self, known: Sequence[Replayed]) -> Iterator[Replayed]:
        """Run a trial, then each repeat under each placement, but for what is known."""
        self.say("a trial run measures what the pairs cost")
        host = QuietHost(
            self.say, tries=_TRIES * (len(self.study.methods) * self.study.repeats + 1)
        )
        measured = self._trial(host)
        space = space_of_trial(measured.problem())
        had = {(one.repeat, one.method, one.level) for one in known}
        methods = self.study.methods
        for repeat in range(self.study.repeats):
            bursts = self.study.source.bursts(repeat, self.folder / f"bursts-{repeat}")
            seen = _rates_seen(measured, bursts)
            turn = repeat % len(methods)
            for method in (*methods[turn:], *methods[:turn]):
                levels = tuple(
                    level for level in self.study.levels if (repeat, method, level) not in had
                )
                turn_of = _Turn(method, repeat, placement(method, space, seen))
                yield from quietest(partial(self._levels, turn_of), levels, host)

    def _monitor(self, bursts: Levelled) -> TrafficJob:
        from elastream_lab.applications.traffic.job import TrafficJob

        return TrafficJob(
            bursts.recordings,
            Path(tempfile.mkdtemp(dir=self.folder)),
            service_us=self.study.service_us,
            rounds_a_ms=self.rounds_a_ms,
            trigger_s=self.study.trigger_s,
            lead_s=LEAD_S,
            keep_results=False,
        )

    def _trial(self, host: QuietHost) -> Measured:
        """Measure on traffic of the same kind that no replay will see."""
        from elastream_lab.applications.traffic.job import warmed

        bursts = self.study.source.trial(self.folder / "bursts-trial")
        for more in reversed(range(_TRIES)):
            began = machine_times()
            with warmed(self.spark, self._monitor(bursts)) as (replay, queries):
                replay.begin(lead_s=LEAD_S)
                measured = measure(queries, batches=_TRIAL_BATCHES, timeout_s=_TRIAL_S)
            stolen = stolen_share(began, machine_times())
            if not more or not host.try_again(stolen, "the trial"):
                break
        return measured

    def _levels(self, turn: _Turn, levels: tuple[float, ...]) -> Iterator[Replayed]:
        from elastream_lab.applications.traffic.job import warmed

        method, repeat, allocation = turn
        folder = Path(tempfile.mkdtemp(dir=self.folder)) / "bursts"
        bursts = self.study.source.bursts(repeat, folder, levels)
        monitor = self._monitor(bursts)
        with warmed(self.spark, monitor) as (replay, queries):
            with replay.fed(monitor.lead, every_s=monitor.trigger_s):
                if allocation is not None:
                    placed = placed_pairs(queries, allocation)
                    if not placed.holds:
                        raise SparkError(f"{method}: {' '.join(str(placed).splitlines())}")
            with watching(queries) as seen:
                batches: list[BatchObservation] = []
                batches_of(seen.monitor, batches.append)
                for number, level in enumerate(bursts.levels):
                    began = machine_times()
                    began_ms = _replayed_level(replay, bursts, number)
                    stolen = stolen_share(began, machine_times())
                    for streaming in queries:  # the last batch is committed before it is reported
                        streaming.processAllAvailable()
                    executors = [executor.id for executor in seen.internals.executors()]
                    report = batch_figures(
                        list(batches), began_ms, self.study.replay_s * 1000, executors
                    )
                    waits = _responses_ms(replay, bursts, number)
                    one = Replayed(
                        method,
                        repeat,
                        level,
                        report.worst_utilisation,
                        report.placed_utilisation,
                        float(np.percentile(report.durations_ms, 99)),
                        float(waits.mean()),
                        float(np.percentile(waits, 99)),
                        float(waits.max()),
                        stolen,
                    )
                    self.say(
                        f"repeat {repeat + 1}, {method}, level {level:g}: worst utilisation "
                        f"{one.worst_utilisation:.2f}, mean response "
                        f"{one.mean_response_ms / 1000:.1f} s"
                    )
                    yield one


def quietest(
    replay: Callable[[tuple[float, ...]], Iterable[Replayed]],
    levels: tuple[float, ...],
    host: QuietHost,
) -> Iterator[Replayed]:
    """Replay levels, again those of which the host kept much of the time; give each's best try.

    Those that were not disturbed come at once, and are kept should the study be ended.
    """
    best: dict[float, Replayed] = {}
    wanted = levels
    for more in reversed(range(_TRIES if levels else 0)):
        for one in replay(wanted):
            best[one.level] = min(best.get(one.level, one), one, key=_stolen)
            if _stolen(best[one.level]) <= MUCH:
                yield best[one.level]
        wanted = tuple(level for level in wanted if _stolen(best[level]) > MUCH)
        worst = max((_stolen(best[level]) for level in wanted), default=0.0)
        report = ", ".join(f"{level:g}" for level in wanted)
        if not more or not host.try_again(worst, f"level {report}"):
            break
    yield from (best[level] for level in wanted if level in best)


def _stolen(one: Replayed) -> float:
    return one.stolen


def _replayed_level(replay: Replay, bursts: Levelled, number: int) -> float:
    """Replay one level and return when its first packet was due."""
    begins_s = bursts.begins_s(number)
    start_ms = replay.begin(lead_s=begins_s)
    until = sum(last for _, last in bursts.rows(number))
    replay.wait(lambda: replay.rows_done >= until)
    return start_ms + 1000 * begins_s


def _responses_ms(replay: Replay, bursts: Levelled, number: int) -> Floats:
    """Return the response times of the packets of one level, which has just been read."""
    start_ms = float(replay.start_ms or 0)
    found = [
        responses(feed.recording.due_ms, start_ms, batches, first=max(first, opened)).response_ms
        for feed, batches, (first, _), opened in zip(
            replay.feeds, replay.batches, bursts.rows(number), replay.lead, strict=True
        )
    ]
    waits: Floats = np.concatenate(found)
    if not len(waits):
        raise SparkError("no packet of the replay was seen")
    return waits


def _rates_seen(measured: Measured, bursts: Levelled) -> Floats:
    """Return the rates of each of the first seconds, in the normalised space."""
    seconds = np.arange(1, round(LEAD_S) + 1)
    recordings = bursts.recordings
    due = np.array([[each.rows_due(1000.0 * s) for each in recordings] for s in (0, *seconds)])
    problem = measured.problem()
    costs = np.array(problem.load).sum(axis=0) + np.array(problem.unplaced).sum(axis=0)
    seen: Floats = costs * np.maximum(np.diff(due, axis=0), 1) / sum(measured.capacity)
    return seen


def placement(method: str, space: Space, seen: Floats) -> list[int] | None:
    """Return the node of each pair; ``None`` leaves them where Spark put them."""
    if method == "stock":
        return None
    chosen: Ints
    if method == "llf":
        chosen = rivals.largest_load_first(space, seen.mean(axis=0))
    elif method == "connected":
        chosen = rivals.connected(by_substream(space), seen.mean(axis=0))
    elif method == "max-rate":
        chosen = rivals.max_rate(space, seen)
    elif method == "correlation":
        chosen = rivals.correlation(space, seen)
    else:
        chosen = PLANNERS[method](space, 0)
    return [int(node) for node in space.nodes[chosen]]
