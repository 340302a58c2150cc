"""What ``elastream bench elasticity`` is asked to do, checked before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elastream.model.checks import abbreviate, count, positive
from elastream.model.errors import ProblemError
from elastream_lab.harness.made_posts import WORDS_A_POST

WAYS: Final = (
    "fixed-min",
    "fixed-max",
    "spark-dynamic",
    "elastream",
    "elastream-ahead",
    "elastream-spare",
)
"""Ways to size an application, in the order in which they run."""
WORKS: Final = ("slept", "burnt")
"""What the service time of a word can be."""

_DAY_HOURS: Final = 24.0
_LONGEST_TRIGGERS: Final = 2.0
"""A batch takes at most the rows that this many triggers bring at the busiest moment, as a query in
production would."""


@dataclass(frozen=True, slots=True)
class ElasticitySettings:
    """What shall be compared; checked when made."""

    load: Path | None = None
    """A file of counts over time; ``None`` for a made day."""
    begin: str | None = None
    """When the chosen hours of the file begin; ``None`` for those with the busiest moment."""
    hours: float | None = None
    """How many hours of the file; ``None`` for a day."""
    seconds: float = 600.0
    """How long the replay takes."""
    ways: tuple[str, ...] = WAYS
    min_executors: int = 1
    max_executors: int = 4
    peak_utilisation: float = 0.5
    """Share of the time of ``max_executors`` that the busiest moment's words take, where its rate
    is not given: with what a batch takes in addition, they are all needed."""
    peak_rows_per_s: float | None = None
    service_us: float = 1000.0
    """What a word costs."""
    work: str = "slept"
    """How a word costs that."""
    trigger_s: float = 2.0
    partitions: int = 8
    backlog_timeout_s: int = 2
    """Spark's own dynamic allocation: how long tasks wait before it asks for executors."""
    idle_timeout_s: int = 10
    """The same: how long an executor does nothing before it goes."""
    look_ahead_s: float = 20.0
    """How far the way with a forecast looks: about what an executor needs to be ready."""
    seed: int = 1
    """Of the posts, and of the made day."""

    def __post_init__(self) -> None:
        if self.load is None:
            for name in ("begin", "hours"):
                if getattr(self, name) is not None:
                    raise ProblemError(name, "chooses a part of `load`, which is not given")
        if not 10 <= positive("seconds", self.seconds) <= 86_400:
            raise ProblemError("seconds", f"{self.seconds:g} is not between 10 and 86400")
        for way in self.ways or ("",):
            _one_of("ways", way, WAYS)
        _one_of("work", self.work, WORKS)
        count("min_executors", self.min_executors, least=1)
        count("max_executors", self.max_executors, least=2, most=64)
        if self.min_executors >= self.max_executors:
            low, high = self.min_executors, self.max_executors
            raise ProblemError("min_executors", f"{low} is not below `max_executors`, {high}")
        if positive("peak_utilisation", self.peak_utilisation) > 1:
            raise ProblemError("peak_utilisation", f"{self.peak_utilisation:g} is above 1")
        if self.peak_rows_per_s is not None:
            positive("peak_rows_per_s", self.peak_rows_per_s)
        if positive("service_us", self.service_us) > 1e6:
            raise ProblemError("service_us", f"{self.service_us:g} is above a second a word")
        for name in ("trigger_s", "look_ahead_s", *(("hours",) if self.hours is not None else ())):
            positive(name, getattr(self, name))
        count("partitions", self.partitions, least=self.max_executors, most=1000)
        for name in ("backlog_timeout_s", "idle_timeout_s"):
            count(name, getattr(self, name), least=1)
        count("seed", self.seed)

    @property
    def load_hours(self) -> float:
        """How many hours of a file."""
        return _DAY_HOURS if self.hours is None else self.hours

    @property
    def peak(self) -> float:
        """Rows a second at the busiest moment."""
        if self.peak_rows_per_s is not None:
            return self.peak_rows_per_s
        return self.peak_utilisation * self.max_executors / (WORDS_A_POST * self.service_us / 1e6)

    @property
    def rows_a_batch(self) -> int:
        """Most rows that a batch takes."""
        return max(1, round(_LONGEST_TRIGGERS * self.trigger_s * self.peak))

    def as_json(self) -> dict[str, object]:
        """Return what a figure depends on."""
        return {
            "executors": [self.min_executors, self.max_executors],
            "peak_rows_per_s": round(self.peak, 1),
            "service_us": self.service_us,
            "work": self.work,
            "trigger_s": self.trigger_s,
            "partitions": self.partitions,
            "rows_a_batch": self.rows_a_batch,
            "backlog_timeout_s": self.backlog_timeout_s,
            "idle_timeout_s": self.idle_timeout_s,
            "look_ahead_s": self.look_ahead_s,
            "seed": self.seed,
        }


def _one_of(field: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ProblemError(field, f"{abbreviate(name)} is not one of {', '.join(known)}")
