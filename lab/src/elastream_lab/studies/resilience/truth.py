"""Figure 14 of paper 003 as the paper ran it: whether executors bear what the model says.

Points of input rates are drawn from the ideal set and run on executors under every placement. A
placement *bears* a point where no executor saturates and the backlog does not grow. The part of the
points that it bears is what the paper calls the ratio of its feasible set to the ideal one; the
model says the same of the same points without running them. This module has the settings, what is
made of the runs, and the verdict; :mod:`~elastream_lab.studies.resilience.point_runs` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_up
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import numpy as np

from elastream.model.checks import count, non_negative
from elastream.model.errors import ProblemError
from elastream_lab.rivals.methods import METHODS
from elastream_lab.studies.earlier import written_figures
from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.machine import MUCH

WORKS: Final = ("slept", "burnt")
ALL_METHODS: Final = (
    "rod",
    "refined",
    *(name for name in METHODS if name not in ("rod", "refined")),
)
"""Ours, then all rivals."""
BLOCK: Final = 4
"""Points that a placement bears one after the other, before the next placement has its turn. The
rivals' placements are drawn again for each block."""
_OURS: Final = ("rod", "refined")
_AGREE: Final = 0.9
"""The model shows the truth where it is right of this many runs."""


@dataclass(frozen=True, slots=True)
class SparkTruth:
    """What to run; checked when made."""

    seed: int = 0
    points: int = 100
    batches: int = 5
    """Triggers that bring packets, for each point under each placement."""
    executors: int = 3
    work: str = "slept"
    """How the time passes that a packet costs."""
    methods: tuple[str, ...] = ALL_METHODS
    trigger_s: float = 2.0
    """How often a batch begins; a batch without packets should take much less."""
    warm_batches: int = 150
    """Batches of each query before the trial: in the first minutes of a JVM tasks take a tenth
    longer than ever after."""

    def __post_init__(self) -> None:
        count("seed", self.seed)
        count("points", self.points, least=1, most=10_000)
        count("batches", self.batches, least=2, most=1000)
        count("executors", self.executors, least=2, most=16)
        count("warm_batches", self.warm_batches, most=10_000)
        if not 0.5 <= non_negative("trigger_s", self.trigger_s) <= 600:
            raise ProblemError("trigger_s", f"{self.trigger_s:g} is not between 0.5 and 600")
        if self.work not in WORKS:
            raise ProblemError("work", f"{self.work!r} is not known; give {' or '.join(WORKS)}")
        for method in self.methods:
            if method not in ALL_METHODS:
                known = ", ".join(ALL_METHODS)
                raise ProblemError("methods", f"there is no {method!r}; {known}")
        if "rod" not in self.methods or not set(self.methods) - set(_OURS):
            raise ProblemError("methods", "name rod and at least one rival")

    @property
    def fed_s(self) -> float:
        """How long packets come, for each point under each placement."""
        return self.batches * self.trigger_s


@dataclass(frozen=True, slots=True)
class PointRun:
    """One point under one placement."""

    method: str
    point: int
    rates: tuple[float, ...]
    """Packets a second of each sub-stream."""
    predicted: float
    """Utilisation of the busiest executor, as the model has it."""
    used: float
    """The same as it was: run time that the packets asked of it over the time they came in."""
    waited: float
    """How long the oldest packet that no batch had begun had waited in the end, in triggers."""
    volume: float
    """Of the placement, in the model."""
    stolen: float = 0.0
    """Share of the time that the host of a virtual machine kept for others."""
    seed: int = 0
    """That drew the points."""

    def as_row(self) -> dict[str, Value]:
        """Return the run as a row of the figure that has each by itself."""
        return {
            "seed": self.seed,
            "point": self.point + 1,
            "method": self.method,
            **{f"rate_{k}": rate for k, rate in enumerate(self.rates)},
            "predicted_utilisation": self.predicted,
            "measured_utilisation": self.used,
            "waited_triggers": self.waited,
            "volume": self.volume,
            "foretold": self.foretold,
            "borne": self.borne,
            "stolen": self.stolen,
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> PointRun:
        """Return the run of a row; raises ``KeyError`` where it lacks something."""
        rates = takewhile(row.__contains__, (f"rate_{k}" for k in count_up()))
        return cls(
            method=row["method"],
            point=row["point"] - 1,
            rates=tuple(row[name] for name in rates),
            predicted=row["predicted_utilisation"],
            used=row["measured_utilisation"],
            waited=row["waited_triggers"],
            volume=row["volume"],
            stolen=row["stolen"],
            seed=row["seed"],
        )

    @property
    def saturates(self) -> bool:
        """Whether an executor was asked for more than it has."""
        return self.used >= 1

    @property
    def backlog_grows(self) -> bool:
        """Whether the packets of two triggers or more waited in the end."""
        return self.waited > _WAITS

    @property
    def borne(self) -> bool:
        """Whether executors bore it."""
        return not self.saturates and not self.backlog_grows

    @property
    def foretold(self) -> bool:
        """Whether the model says that they do."""
        return self.predicted < 1

    @property
    def agrees(self) -> bool:
        """Whether the model was right."""
        return self.borne == self.foretold


_WAITS: Final = 1.5
_EACH: Final = "003 fig. 14 (on Spark, each run)"


def earlier_runs(paths: Iterable[Path], study: SparkTruth) -> list[PointRun]:
    """Return what earlier runs of the study wrote, of other points under the same placements."""
    known: list[PointRun] = []
    for path in paths:
        figure = written_figures(path).get(_EACH)
        if figure is None:
            raise ProblemError(str(path), "has no points on executors: a run on Spark writes them")
        data = str(figure.get("data"))
        if _how(study) not in data:
            raise ProblemError(str(path), f"was run otherwise: {data}; now {_how(study)}")
        try:
            runs = [PointRun.of_row(row) for row in figure.get("rows", ())]
        except (KeyError, TypeError) as error:
            raise ProblemError(str(path), f"has a row without {error}") from None
        if {run.method for run in runs} != set(study.methods):
            report = ", ".join(sorted({run.method for run in runs}))
            raise ProblemError(str(path), f"has the placements {report}; `methods` are others")
        for seed in {run.seed for run in runs} & {study.seed, *(run.seed for run in known)}:
            raise ProblemError(str(path), f"has the points of seed {seed}, which are there already")
        known += runs
    return known


def whole_points(runs: Sequence[PointRun], methods: Sequence[str]) -> list[PointRun]:
    """Return the runs of those points that were run under all placements."""
    borne_by: dict[tuple[int, int], set[str]] = {}
    for run in runs:
        borne_by.setdefault((run.seed, run.point), set()).add(run.method)
    return [run for run in runs if borne_by[run.seed, run.point] >= set(methods)]


def _how(study: SparkTruth) -> str:
    return (
        f"{study.batches} batches each, one every {study.trigger_s:g} s; {study.executors} "
        f"executors; a packet's cost is {study.work}"
    )


def truth_figures(runs: Sequence[PointRun], study: SparkTruth, about: str) -> tuple[Figure, ...]:
    """Return the ratios of every method, measured and predicted, and every run by itself.

    ``about`` says what ran, next to the settings.
    """
    points = len({(run.seed, run.point) for run in runs})
    seeds = sorted({run.seed for run in runs})
    methods = [name for name in study.methods if any(run.method == name for run in runs)]
    rows = [_summary(name, [run for run in runs if run.method == name]) for name in methods]
    data = (
        f"{points} points of the ideal set, {_how(study)}; {about}; "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
    )
    if disturbed := sum(run.stolen > MUCH for run in runs):
        data += f"; in {disturbed} of {len(runs)} runs the host kept more than {MUCH:.0%}"
    right = float(np.mean([run.agrees for run in runs]))
    off = float(np.mean([abs(run.used - run.predicted) for run in runs]))
    measured = {str(row["method"]): float(row["measured_ratio"] or 0.0) for row in rows}
    best = all(measured["rod"] >= measured[name] for name in methods if name not in _OURS)
    holds = right >= _AGREE and best
    says = (
        "The paper: what a simulator says tracks what machines bear very closely, and ROD bears "
        f"most; here the model is right of {right:.1%} of the runs ({_AGREE:.0%} are asked for), "
        f"off by {off:.2f} of an executor in the mean, and of the points that executors bore ROD "
        f"has {'no fewer than any rival' if best else 'fewer than a rival'}."
    )
    each = [
        run.as_row()
        for run in sorted(runs, key=lambda run: (methods.index(run.method), run.predicted))
    ]
    ratios = Curves("predicted_ratio", ("measured_ratio",), "method")
    used = Curves("predicted_utilisation", ("measured_utilisation",), "method")
    return (
        Figure("003 fig. 14 (on Spark)", data, rows, ratios, holds, says),
        Figure(_EACH, data, each, used, holds, says),
    )


def _summary(method: str, runs: Sequence[PointRun]) -> dict[str, Value]:
    return {
        "method": method,
        "measured_ratio": float(np.mean([run.borne for run in runs])),
        "predicted_ratio": float(np.mean([run.foretold for run in runs])),
        "volume": float(np.mean([run.volume for run in runs])),
        "right": float(np.mean([run.agrees for run in runs])),
        "too_hopeful": sum(run.foretold and not run.borne for run in runs),
        "too_fearful": sum(run.borne and not run.foretold for run in runs),
        "saturated": sum(run.saturates for run in runs),
        "backlog_grew": sum(run.backlog_grows for run in runs),
        "measured_utilisation": float(np.mean([run.used for run in runs])),
        "predicted_utilisation": float(np.mean([run.predicted for run in runs])),
    }
