"""A run of the taxi query: trips replayed, replicas steered if asked for, every minute checked.

Used by ``elastream taxi`` and by the study of paper 004's section 7.3. The query starts on a few
opened rows until its executors are warm, the replication loop is attached, and the replay begins.
From then on this module only watches. At the end every minute's ranking is compared with the plain
one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from elastream.attachment import Attachment, attach
from elastream.core.decisions import Decision
from elastream.core.policy import Policy
from elastream.model.checks import count, non_negative
from elastream.model.errors import ProblemError
from elastream.spark.sessions.embedded_cluster import EmbeddedCluster
from elastream_lab.applications.taxi.job import SESSION, TaxiJob
from elastream_lab.applications.taxi.plain import Ranked, plain_rankings
from elastream_lab.applications.taxi.recorded_trips import RecordedTrips, TimeSlice, record_trips
from elastream_lab.applications.taxi.trips import MadeTrips, make_trips
from elastream_lab.harness.commit_log import CommittedBatch
from elastream_lab.harness.job import RunningJob, running
from elastream_lab.harness.job_session import fresh_folder
from elastream_lab.harness.replay import ReplayClock, replay_backlog
from elastream_lab.harness.replaying import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LEAD_BATCHES: Final = 3
_LEAD_SHARE: Final = 30
"""One row of this many is there before the replay starts, to warm the query."""
_CHANGES: Final = ("scale-out", "scale-in", "rebalance", "move")
_LAST_S: Final = 120.0
"""How long the last minutes are waited for while none of them is reported."""


@dataclass(frozen=True, slots=True)
class TaxiSettings:
    """What shall be run; checked when made."""

    input: tuple[Path, ...] = ()
    """Files in the challenge's columns; none: made trips."""
    part: TimeSlice = field(default_factory=TimeSlice)
    """Which of their trips; all."""
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
        count("seed", self.seed)
        for name, value, most in (
            ("minutes", self.minutes, 100_000.0),
            ("trips_a_minute", self.trips_a_minute, 1e6),
            ("swing", self.swing, 1e6),
            ("replay_s", self.replay_s, 86_400.0),
            ("trigger_s", self.trigger_s, 600.0),
        ):
            if not 0 < non_negative(name, value) <= most:
                raise ProblemError(name, f"{value:g} is not above 0 and at most {most:g}")
        if non_negative("service_us", self.service_us) > 1e6:
            raise ProblemError("service_us", f"{self.service_us:g} is above a second a trip")
        if self.part != TimeSlice() and not self.input:
            raise ProblemError("since", "there is no input to take a part of")
        count("executors", self.executors, least=1, most=16)
        count("partitions", self.partitions, least=1, most=200)


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
    scaling: bool = False
    """Whether an operator has another number of replicas after it; else replicas moved."""


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
    rankings: Mapping[int, tuple[Ranked, ...]] = field(default_factory=dict)
    """The ranking of every minute reported so far."""
    decisions: list[Decision] = field(default_factory=list)
    batches: list[CommittedBatch] = field(default_factory=list)
    samples: list[TaxiSample] = field(default_factory=list)
    changes: list[Span] = field(default_factory=list)
    memory: Any = None
    """What the goal remembered at the end."""
    wrong_minutes: int | None = None
    """How many minutes differ from the plain computation, or were reported twice; ``None`` before
    the check."""

    @property
    def exact(self) -> bool:
        """Whether every minute's ranking was reported, as the plain computation has it."""
        return self.wrong_minutes == 0

    @property
    def rows_done(self) -> int:
        """How many rows are in committed batches."""
        return self.batches[-1].end if self.batches else 0

    def tell(self, doing: str, show: Callable[[TaxiRun], None]) -> None:
        """Say what goes on."""
        self.doing = doing
        show(self)


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
        trips = record_trips(
            files, folder / "trips.arrow", replay_s=settings.replay_s, part=settings.part
        )
        yield TaxiRun(settings, trips)


def cluster_of(settings: TaxiSettings) -> EmbeddedCluster:
    """Return the cluster that a run needs."""
    return EmbeddedCluster(
        executors=settings.executors,
        max_executors=settings.executors,
        app_name="elastream taxi",
        config=SESSION,
    )


def run(
    taxi: TaxiRun,
    spark: SparkSession,
    *,
    show: Callable[[TaxiRun], None],
    policy: Policy | None = None,
    log: Callable[[Decision], None] | None = None,
    folder: Path | None = None,
) -> None:
    """Run it to the end and check it; ``show`` is called a few times a second.

    ``folder``: for clock and checkpoint, where the session is not an embedded one; all executors
    must see it.
    """
    folder = folder or fresh_folder(spark)
    job = TaxiJob(
        trips=taxi.trips,
        clock=ReplayClock(folder / "clock"),
        checkpoint=folder / "checkpoint",
        partitions=taxi.settings.partitions,
        service_us=taxi.settings.service_us,
        trigger_s=taxi.settings.trigger_s,
    )
    taxi.rankings = job.rankings
    with running(spark, job) as stream:
        replay = Replay(job.feeds, stream.check)
        (taxi.batches,) = replay.batches
        taxi.tell("warming the query", show)
        taxi.lead_rows = job.recording.rows // _LEAD_SHARE
        replay.lead_in([taxi.lead_rows], batches=_LEAD_BATCHES, show=lambda: show(taxi))
        with _Steering(taxi, job, stream, policy, log=log) as steering:
            _replay(taxi, replay, steering, show)
    taxi.tell("checking against the plain computation", show)
    taxi.wrong_minutes = job.wrong(spark)


class _Steering:
    """The loop of a run, if it has one."""

    def __init__(
        self,
        taxi: TaxiRun,
        job: TaxiJob,
        stream: RunningJob,
        policy: Policy | None,
        *,
        log: Callable[[Decision], None] | None,
    ) -> None:
        self._taxi = taxi
        self._job = job
        self._stream = stream
        self._policy = policy
        self._log = log
        self._changing: tuple[float, Mapping[int, int]] | None = None
        """When the change under way was decided, and how many replicas operators had then."""
        self._attachment: Attachment | None = None

    def __enter__(self) -> Self:
        if self._policy is not None:
            (query,) = self._stream.queries
            self._attachment = attach(
                query,
                self._policy,
                log=self._decided,
                backlog=replay_backlog(self._job.recording, self._job.clock),
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._attachment is not None:
            self._taxi.memory = self._attachment.state.memory
            self._attachment.detach()

    def replicas(self) -> dict[int, tuple[str, ...]] | None:
        """Return which executors hold a share of each operator.

        ``None`` where that is not known: without a loop, and until a query that was started again
        has shown it in a batch.
        """
        held: dict[int, set[str]] = {}
        where = {} if self._attachment is None else self._attachment.where()
        for task, executor in where.items():
            held.setdefault(task.operator, set()).add(executor)
        return {operator: tuple(sorted(names)) for operator, names in held.items()} or None

    def _numbers(self) -> dict[int, int]:
        return {operator: len(names) for operator, names in (self.replicas() or {}).items()}

    def _decided(self, decision: Decision) -> None:
        self._taxi.decisions.append(decision)
        if decision.kind in _CHANGES:
            self._changing = (time.time() * 1000, self._numbers())
        elif decision.kind in ("done", "abandon") and self._changing is not None:
            began_ms, before = self._changing
            span = Span(began_ms, time.time() * 1000, scaling=self._numbers() != before)
            self._taxi.changes.append(span)
            self._changing = None
        if self._log is not None:
            self._log(decision)


def _replay(
    taxi: TaxiRun, replay: Replay, steering: _Steering, show: Callable[[TaxiRun], None]
) -> None:
    taxi.doing = "replaying"
    taxi.start_ms = start_ms = replay.begin()
    minutes = len(plain_rankings(taxi.trips.trips))
    since_s: dict[int, float] = {}

    def look() -> None:
        if (replicas := steering.replicas()) is not None:
            taxi.samples.append(TaxiSample(time.time() - start_ms / 1000, replicas))
        show(taxi)

    def ended() -> bool:
        """Return whether the last minutes are reported, or nothing more is for a long time."""
        if not replay.has_read_all:
            return False
        taxi.doing = "replayed, the last minutes are being reported"
        number, now_s = len(taxi.rankings), time.monotonic()
        return number >= minutes or now_s - since_s.setdefault(number, now_s) > _LAST_S

    replay.wait(ended, each=look)
