"""Figure 18 of paper 003 on Spark, at a size that two cores bear: bursts under four placements.

The traffic monitor of section 7.3.5 (:mod:`elastream_lab.applications.traffic`): three sub-streams
with four aggregations each, 12 pairs on three executors. Like the paper's delay operators, a packet
costs every result it is counted in a time that is slept where the state is, so that executors and
not cores are what there is too little of.

A trial run measures what every pair costs. Then, for each repeat, other bursts are made, and the
same ones are replayed under every placement: ROD's, which knows costs alone; those of LLF and
Connected, which balance the rates of the first seconds of that traffic; and Spark's own, which is
left as it comes. Placements are carried out in the running queries and verified before the clocks
start. Their order changes from repeat to repeat.

Told are, of the replay alone: the *worst utilisation*, the largest over executors of the run time
that the packets asked of it over the time in which they came, above 1 where an executor cannot keep
up (over the time the replay took, one that drags on would look better used); the 99th percentile of
the *batch time*, over the batches of all queries that read packets; and that of the *response time*
of packets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.model.checks import amount, count
from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import BatchObservation
from elastream.model.plan import Infeasible
from elastream.planners.resilient.normalised import Floats, Ints, Space, normalise
from elastream.spark.observe.measure import Measured, measure
from elastream.spark.observe.watching import batches_of, watching
from elastream_lab.applications.traffic.aggregations import AGGREGATIONS
from elastream_lab.applications.traffic.made_packets import MadeTraffic, make_packets
from elastream_lab.applications.traffic.packets import record_substreams
from elastream_lab.applications.traffic.placed_pairs import placed_pairs
from elastream_lab.rivals import placements as rivals
from elastream_lab.rivals.methods import METHODS as PLANNERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from elastream.harness.recording import Recording
    from elastream_lab.applications.traffic.job import TrafficJob

__all__ = [
    "EXECUTORS",
    "METHODS",
    "SUBSTREAMS",
    "Replayed",
    "SparkLatency",
    "batch_figures",
    "replays",
]

METHODS: Final = ("rod", "llf", "connected", "stock")
"""The placements compared; "refined" may be asked for too."""
_KNOWN: Final = (*METHODS, "refined")

EXECUTORS: Final = 3
SUBSTREAMS: Final = 3
_LEAD_S: Final = 6.0
"""What the rivals see, and what makes the queries ready."""
_UTILISATION: Final = 0.45
"""Share of the executors' time that the packets sleep, in the mean."""
_PACKETS_A_SECOND: Final = 60.0
_TRIAL_BATCHES: Final = 6
_TRIAL_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class SparkLatency:
    """What to run; checked when made."""

    seed: int = 0
    repeats: int = 2
    replay_s: float = 20.0
    """How long the replay of the bursts takes."""
    methods: tuple[str, ...] = METHODS
    trigger_s: float = 3.0

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("repeats", self.repeats, least=1)
        if not 5 <= amount("replay_s", self.replay_s) <= 3600:
            raise ProblemError("replay_s", f"{self.replay_s:g} is not between 5 and 3600")
        for method in self.methods:
            if method not in _KNOWN:
                raise ProblemError("methods", f"there is no {method!r}; {', '.join(_KNOWN)}")
        if "rod" not in self.methods or len(set(self.methods)) < 2:
            raise ProblemError("methods", "name rod and at least one other")

    @property
    def service_us(self) -> float:
        """What a packet costs every result that it is counted in."""
        rows = sum(aggregation.rows_a_packet for aggregation in AGGREGATIONS)
        return _UTILISATION * EXECUTORS / (_PACKETS_A_SECOND * rows) * 1e6


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one replay showed."""

    method: str
    repeat: int
    worst_utilisation: float
    p99_batch_ms: float
    median_batch_ms: float
    p99_response_ms: float


def replays(study: SparkLatency, say: Callable[[str], None]) -> list[Replayed]:
    """Run the study on an embedded cluster and return what each replay showed."""
    from elastream.harness.job_session import fresh_folder, job_session
    from elastream.spark.sessions.embedded_cluster import EmbeddedCluster

    cluster = EmbeddedCluster(
        executors=EXECUTORS,
        max_executors=EXECUTORS,
        executor_memory_mb=700,
        checkpoint_in_memory=True,
        app_name="elastream study",
        config={"spark.sql.shuffle.partitions": "4"},
    )
    say(f"starting Spark, {EXECUTORS} executors")
    with job_session(cluster) as spark:
        return _replays(spark, study, fresh_folder(spark), say)


def _replays(
    spark: SparkSession, study: SparkLatency, folder: Path, say: Callable[[str], None]
) -> list[Replayed]:
    say("a trial run measures what the pairs cost")
    measured = _trial(spark, study, folder)
    space = _space(measured)
    found = []
    for repeat in range(study.repeats):
        recordings = _recordings(study.seed + repeat, study.replay_s, folder / f"bursts-{repeat}")
        seen = _rates_seen(measured, recordings)
        turn = repeat % len(study.methods)
        for method in (*study.methods[turn:], *study.methods[:turn]):
            allocation = _allocation(method, space, seen)
            monitor = _monitor(study, recordings, folder / f"{method}-{repeat}")
            found.append(_replay(spark, study, monitor, method, repeat, allocation))
            last = found[-1]
            say(
                f"repeat {repeat + 1}, {method}: worst utilisation {last.worst_utilisation:.2f}, "
                f"p99 of batches {last.p99_batch_ms / 1000:.1f} s"
            )
    return found


def _recordings(seed: int, replay_s: float, folder: Path) -> tuple[Recording, ...]:
    folder.mkdir()
    whole_s = _LEAD_S + replay_s
    traffic = MadeTraffic(
        seed=seed,
        span_s=whole_s,
        packets_a_second=_PACKETS_A_SECOND,
        substreams=SUBSTREAMS,
    )
    return record_substreams(make_packets(traffic), folder, substreams=SUBSTREAMS, replay_s=whole_s)


def _monitor(study: SparkLatency, recordings: tuple[Recording, ...], folder: Path) -> TrafficJob:
    from elastream_lab.applications.traffic.job import TrafficJob

    folder.mkdir()
    return TrafficJob(
        recordings,
        folder,
        service_us=study.service_us,
        trigger_s=study.trigger_s,
        lead_s=_LEAD_S,
        keep_results=False,
    )


def _trial(spark: SparkSession, study: SparkLatency, folder: Path) -> Measured:
    """Measure on traffic of the same kind that no replay will see."""
    from elastream_lab.applications.traffic.job import warmed

    recordings = _recordings(study.seed + 1_000_003, _TRIAL_S, folder / "bursts-trial")
    monitor = _monitor(study, recordings, folder / "trial")
    with warmed(spark, monitor) as (replay, queries):
        replay.begin(lead_s=monitor.lead_s)
        return measure(queries, batches=_TRIAL_BATCHES, timeout_s=_TRIAL_S)


def _space(measured: Measured) -> Space:
    space = normalise(measured.problem())
    if isinstance(space, Infeasible):  # executors have cores, and there is no lower bound
        raise SparkError(space.reason)
    return space


def _by_substream(space: Space) -> Space:
    """Return the space with the operators of a sub-stream connected: they read the same one."""
    streams = space.shares.argmax(axis=1)
    ends = [(j, j + 1) for j in range(len(streams) - 1) if streams[j] == streams[j + 1]]
    return replace(space, ends=np.array(ends), transfers=np.zeros((len(ends), SUBSTREAMS)))


def _rates_seen(measured: Measured, recordings: Sequence[Recording]) -> Floats:
    """Return the rates of the first seconds, in the normalised space."""
    rows = np.array([recording.rows_due(_LEAD_S * 1000) for recording in recordings])
    costs = np.array(measured.problem().load).sum(axis=0)
    seen: Floats = costs * np.maximum(rows, 1) / _LEAD_S / sum(measured.capacity)
    return seen


def _allocation(method: str, space: Space, seen: Floats) -> list[int] | None:
    """Return the node of each pair; ``None`` leaves them where Spark put them."""
    if method == "stock":
        return None
    chosen: Ints
    if method == "llf":
        chosen = rivals.largest_load_first(space, seen)
    elif method == "connected":
        chosen = rivals.connected(_by_substream(space), seen)
    else:
        chosen = PLANNERS[method](space, 0)
    return [int(node) for node in space.nodes[chosen]]


def _replay(
    spark: SparkSession,
    study: SparkLatency,
    monitor: TrafficJob,
    method: str,
    repeat: int,
    allocation: list[int] | None,
) -> Replayed:
    from elastream_lab.applications.traffic.job import warmed

    batches: list[BatchObservation] = []
    with warmed(spark, monitor) as (replay, queries):
        with replay.fed(monitor.lead, every_s=monitor.trigger_s):
            if allocation is not None:
                placed = placed_pairs(queries, allocation)
                if not placed.holds:
                    raise SparkError(f"{method}: {' '.join(str(placed).splitlines())}")
        with watching(queries) as seen:
            batches_of(seen.monitor, batches.append)
            start_ms = replay.begin(lead_s=monitor.lead_s)
            replay.wait(lambda: replay.has_read_all)
            for streaming in queries:  # the last batch is committed before it is told of
                streaming.processAllAvailable()
            executors = [executor.id for executor in seen.door.executors()]
    began_ms = start_ms + monitor.lead_s * 1000
    utilisation, durations = batch_figures(batches, began_ms, study.replay_s * 1000, executors)
    p99, median = np.percentile(durations, [99, 50])
    response = float(np.percentile(replay.responses().response_ms, 99))
    return Replayed(method, repeat, utilisation, float(p99), float(median), response)


def batch_figures(
    batches: Sequence[BatchObservation],
    began_ms: float,
    came_in_ms: float,
    executors: Sequence[str],
) -> tuple[float, list[float]]:
    """Return the worst utilisation, and how long each batch with packets took.

    The packets came within ``came_in_ms`` from ``began_ms`` on.
    """
    replayed = [b for b in batches if b.rows and b.finished_at_ms - b.duration_ms >= began_ms]
    if not replayed:
        raise SparkError("no batch of the replay was seen")
    busy_ms = dict.fromkeys(executors, 0.0)
    for batch in replayed:
        for task in batch.tasks:
            busy_ms[task.executor] = busy_ms.get(task.executor, 0.0) + task.run_ms
    return max(busy_ms.values()) / came_in_ms, [batch.duration_ms for batch in replayed]
