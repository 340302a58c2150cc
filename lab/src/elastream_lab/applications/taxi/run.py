"""A run of the taxi query: trips replayed, replicas steered if asked for, every minute checked.

Used by ``elastream taxi`` and by the study of paper 004's section 7.3. The query starts on a few
opened rows until its executors are warm, the replication loop is attached, and the replay begins.
From then on this module only watches, but for one thing: under *pause-and-resume*, the paper's way
to reconfigure, the loop's plans are carried out by stopping the query at a batch boundary and
starting it again with its state placed as planned. At the end every minute's ranking is compared
with the plain one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.attachment import Attachment, attach, attach_with
from elastream.harness.commit_log import RETAIN_ALL, CommittedBatch, committed_batches
from elastream.harness.replay import ReplayClock, replay_backlog
from elastream.loop.decisions import Decision
from elastream.loop.goals.replication.goal import Replication
from elastream.loop.policy import Policy
from elastream.loop.ports import Ticket
from elastream.model.checks import amount, count
from elastream.model.errors import ProblemError, SparkError
from elastream.model.observation import TaskId
from elastream.spark.door.private_door import PrivateDoor
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster, scratch_folder
from elastream.spark.steer.graceful_stop import stop_gracefully
from elastream_lab.applications.taxi.plain import Ranked, Rankings, differing, plain_rankings
from elastream_lab.applications.taxi.recorded_trips import RecordedTrips, record_trips
from elastream_lab.applications.taxi.stream import SESSION, TaxiJob, start
from elastream_lab.applications.taxi.trips import MadeTrips, make_trips
from elastream_lab.mechanisms.resumed_placement import place_resumed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.door.queries import StatefulOperator

__all__ = ["Span", "TaxiRun", "TaxiSample", "TaxiSettings", "cluster_of", "prepared", "run"]

_LEAD_BATCHES: Final = 3
_LEAD_SHARE: Final = 30
"""One row in so many is there before the replay starts, to warm the query."""
_LOOK_S: Final = 0.3
_STUCK_S: Final = 120.0
"""How long the query may be behind without any progress; a slow machine is no fault."""


@dataclass(frozen=True, slots=True)
class TaxiSettings:
    """What shall be run; checked when made, by the names of the command's options."""

    input: tuple[Path, ...] = ()
    """Files in the challenge's columns; none: made trips."""
    seed: int = 1
    minutes: float = 60.0
    """Of taxis, made."""
    trips_a_minute: float = 60.0
    swing: float = 4.0
    replay_s: float = 60.0
    """How long the replay takes."""
    executors: int = 3
    partitions: int = 6
    service_us: float = 0.0
    """What a trip costs in countByWindow, slept."""
    trigger_s: float = 1.0

    def __post_init__(self) -> None:
        count("--seed", self.seed)
        for option, value, most in (
            ("--minutes", self.minutes, 100_000.0),
            ("--trips-a-minute", self.trips_a_minute, 1e6),
            ("--swing", self.swing, 1e6),
            ("--seconds", self.replay_s, 86_400.0),
            ("--trigger-s", self.trigger_s, 600.0),
        ):
            if not 0 < amount(option, value) <= most:
                raise ProblemError(option, f"{value:g} is not above 0 and at most {most:g}")
        if amount("--service-us", self.service_us) > 1e6:
            raise ProblemError("--service-us", f"{self.service_us:g} is above a second a trip")
        count("--executors", self.executors, least=1, most=16)
        count("--partitions", self.partitions, least=1, most=200)


@dataclass(frozen=True, slots=True)
class TaxiSample:
    """What was seen at one moment."""

    at_s: float
    """Seconds after the replay started."""
    replicas: Mapping[int, tuple[str, ...]]
    """The executors that hold a share of each operator."""


@dataclass(frozen=True, slots=True)
class Span:
    """A reconfiguration, in milliseconds since the epoch."""

    began_ms: float
    ended_ms: float


@dataclass
class TaxiRun:
    """One run: what it is, and what has been seen of it so far."""

    settings: TaxiSettings
    trips: RecordedTrips
    doing: str = "starting"
    start_ms: int | None = None
    """When the replay started; ``None`` before."""
    lead_rows: int = 0
    """Rows that were opened before that."""
    rankings: dict[int, tuple[Ranked, ...]] = field(default_factory=dict)
    """The ranking of every minute told so far."""
    told_twice: int = 0
    """Minutes that were told anew, and differently."""
    decisions: list[Decision] = field(default_factory=list)
    batches: list[CommittedBatch] = field(default_factory=list)
    samples: list[TaxiSample] = field(default_factory=list)
    changes: list[Span] = field(default_factory=list)
    wrong_minutes: int | None = None
    """How many minutes differ from the plain computation; ``None`` before the check."""

    @property
    def exact(self) -> bool:
        """Whether every minute's ranking was told, as the plain computation has it."""
        return self.wrong_minutes == 0 and not self.told_twice

    @property
    def rows_done(self) -> int:
        """How many rows are in committed batches."""
        return self.batches[-1].end if self.batches else 0

    def hear(self, minutes: Rankings) -> None:
        """Take in what a batch has told."""
        for minute, best in minutes.items():
            self.told_twice += self.rankings.get(minute, best) != best
            self.rankings[minute] = best


@contextmanager
def prepared(settings: TaxiSettings) -> Iterator[TaxiRun]:
    """Make or read the trips, and give the run; removes its files at the end."""
    with tempfile.TemporaryDirectory(prefix="elastream-taxi-") as name:
        folder = Path(name)
        files: Sequence[Path] = settings.input
        if not files:
            files = [folder / "trips.csv"]
            made = MadeTrips(
                seed=settings.seed,
                span_s=60 * settings.minutes,
                trips_a_minute=settings.trips_a_minute,
                swing=settings.swing,
            )
            make_trips(made, files[0])
        trips = record_trips(files, folder / "trips.arrow", replay_s=settings.replay_s)
        yield TaxiRun(settings, trips)


def cluster_of(settings: TaxiSettings) -> EmbeddedCluster:
    """Return the cluster that a run needs."""
    return EmbeddedCluster(
        executors=settings.executors,
        max_executors=settings.executors,
        app_name="elastream taxi",
        config={**RETAIN_ALL, **SESSION},
    )


def run(
    taxi: TaxiRun,
    spark: SparkSession,
    *,
    show: Callable[[TaxiRun], None],
    policy: Policy | None = None,
    pauses: bool = False,
    log: Callable[[Decision], None] | None = None,
) -> None:
    """Run it to the end and check it; ``show`` is called a few times a second.

    ``pauses``: plans are carried out by pause-and-resume, not live.
    """
    folder = Path(tempfile.mkdtemp(dir=scratch_folder(spark)))
    job = TaxiJob(
        recording=taxi.trips.recording,
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=taxi.settings.partitions,
        service_us=taxi.settings.service_us,
        trigger_s=taxi.settings.trigger_s,
    )
    stream = _Stream(taxi, spark, job, policy, pauses, log)
    try:
        _lead_in(taxi, stream, show)
        stream.steer()
        _replay(taxi, stream, show)
    finally:
        stream.leave()
    stop_gracefully(stream.query)
    taxi.doing = "checking against the plain computation"
    show(taxi)
    taxi.wrong_minutes = differing(taxi.rankings, plain_rankings(taxi.trips.trips))


class _Pausing:
    """Where the loop's moves go under pause-and-resume: noted, for the query to be stopped for."""

    def __init__(self) -> None:
        self.wanted: Mapping[TaskId, str] | None = None

    def place(self, query: str, wanted: Mapping[TaskId, str], *, ticket: Ticket) -> bool:  # noqa: ARG002
        """Note the moves."""
        ticket.check()
        self.wanted = dict(wanted)
        return False


class _Stream:
    """The query with its loop; both can be stopped and started again."""

    def __init__(
        self,
        taxi: TaxiRun,
        spark: SparkSession,
        job: TaxiJob,
        policy: Policy | None,
        pauses: bool,
        log: Callable[[Decision], None] | None,
    ) -> None:
        self._taxi = taxi
        self._spark = spark
        self.job = job
        self._policy = policy
        self._pausing = _Pausing() if pauses else None
        self._log = log
        self._moving_since_ms: float | None = None
        self._attachment: Attachment | None = None
        self.query: StreamingQuery = start(spark, job, taxi.hear)

    def steer(self) -> None:
        """Attach the loop, if there is one."""
        if self._policy is None:
            return
        backlog = replay_backlog(self.job.recording, self.job.clock)
        if self._pausing is None:
            self._attachment = attach(self.query, self._policy, log=self._decided, backlog=backlog)
        else:  # all at once: the query stops only once for it
            policy = replace(self._policy, moves_per_batch=None, bytes_per_batch=None)
            self._attachment = attach_with(
                self.query, policy, self._pausing, log=self._decided, backlog=backlog
            )

    def replicas(self) -> dict[int, tuple[str, ...]] | None:
        """Return which executors hold a share of each operator; ``None`` without a loop."""
        if self._attachment is None:
            return None
        held: dict[int, set[str]] = {}
        for task, executor in self._attachment.where().items():
            held.setdefault(task.operator, set()).add(executor)
        return {operator: tuple(sorted(names)) for operator, names in held.items()}

    def pause_if_asked(self) -> None:
        """Carry out what the loop has planned, by pause-and-resume."""
        pausing, attachment = self._pausing, self._attachment
        if pausing is None or attachment is None or pausing.wanted is None:
            return
        wanted, pausing.wanted = pausing.wanted, None
        began_ms = time.time() * 1000
        goal = {**attachment.where(), **wanted}
        operators = self._operators(attachment)
        attachment.detach()
        stop_gracefully(self.query)
        self.query = start(self._spark, self.job, self._taxi.hear)
        place_resumed(PrivateDoor.of(self._spark), self.query, operators, goal)
        if self._policy is not None and isinstance(self._policy.goal, Replication):
            later = replace(self._policy.goal, first_ignores_downtime=False)
            self._policy = replace(self._policy, goal=later)
        self.steer()
        self._taxi.changes.append(Span(began_ms, time.time() * 1000))

    def leave(self) -> None:
        """End the loop; the query runs on."""
        if self._attachment is not None:
            self._attachment.detach()

    def _operators(self, attachment: Attachment) -> tuple[StatefulOperator, ...]:
        (watched,) = attachment.monitor.watched()
        return watched.operators

    def _decided(self, decision: Decision) -> None:
        self._taxi.decisions.append(decision)
        if self._pausing is None and decision.kind == "plan":
            self._moving_since_ms = time.time() * 1000
        elif decision.kind in ("done", "abandon") and self._moving_since_ms is not None:
            self._taxi.changes.append(Span(self._moving_since_ms, time.time() * 1000))
            self._moving_since_ms = None
        if self._log is not None:
            self._log(decision)


def _lead_in(taxi: TaxiRun, stream: _Stream, show: Callable[[TaxiRun], None]) -> None:
    """Feed the query a few rows at a time, until its first batches are behind it."""
    taxi.doing = "warming the query"
    taxi.lead_rows = stream.job.recording.rows // _LEAD_SHARE
    for batch in range(1, _LEAD_BATCHES + 1):
        stream.job.clock.open(taxi.lead_rows * batch // _LEAD_BATCHES)
        show(taxi)
        stream.query.processAllAvailable()


def _replay(taxi: TaxiRun, stream: _Stream, show: Callable[[TaxiRun], None]) -> None:
    taxi.doing = "replaying"
    taxi.start_ms = round(time.time() * 1000)
    stream.job.clock.start(taxi.start_ms)
    rows = stream.job.recording.rows
    end_s = taxi.start_ms / 1000 + stream.job.recording.replay_s
    minutes = len(plain_rankings(taxi.trips.trips))
    done, done_s = (taxi.rows_done, len(taxi.rankings)), end_s
    while True:
        _look(taxi, stream)
        show(taxi)
        if not stream.query.isActive:
            raise SparkError(f"the query ended: {stream.query.exception() or 'nobody knows why'}")
        now_s = time.time()
        if (taxi.rows_done, len(taxi.rankings)) != done:
            done, done_s = (taxi.rows_done, len(taxi.rankings)), max(now_s, end_s)
        still_s = now_s - done_s
        if taxi.rows_done == rows:
            taxi.doing = "replayed, the last minutes are being told"
            if len(taxi.rankings) >= minutes or still_s > _STUCK_S:
                return
        elif still_s > _STUCK_S:
            raise SparkError(f"the query is behind, and read no row for {still_s:.0f} s")
        else:
            stream.pause_if_asked()
        time.sleep(_LOOK_S)


def _look(taxi: TaxiRun, stream: _Stream) -> None:
    last = taxi.batches[-1].batch if taxi.batches else -1
    taxi.batches.extend(committed_batches(stream.job.checkpoint, after=last))
    replicas = stream.replicas()
    if replicas is not None and taxi.start_ms is not None:
        taxi.samples.append(TaxiSample(time.time() - taxi.start_ms / 1000, replicas))
