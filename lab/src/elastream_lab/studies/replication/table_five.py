"""Table V and figure 6 of paper 004: what each run came to, its row, and the verdict on all.

Runs that have sixty decisions take ten minutes each, so those of an earlier study can be joined:
those that were run alike, by their own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from elastream.model.errors import ProblemError
from elastream.replication.model.problem import Weights
from elastream_lab.studies.earlier import written_figures
from elastream_lab.studies.figure import Figure
from elastream_lab.studies.machine import MUCH

_NAME: Final = "004 table V, figure 6"


@dataclass(frozen=True, slots=True)
class SparkWeighting:
    """A row of table V."""

    name: str
    weights: Weights
    paper_response_ms: float
    paper_cost: float
    paper_downtime_percent: float


BASELINE: Final = SparkWeighting("baseline", Weights(0.5, 0.5, 0), 103.6, 9.3, 10.18)
BALANCED: Final = SparkWeighting("balanced", Weights(0.3, 0.3, 0.4), 90.0, 9.8, 2.36)
RESPONSE: Final = SparkWeighting("response time", Weights(0.6, 0, 0.4), 88.8, 9.9, 1.27)
COST: Final = SparkWeighting("cost", Weights(0, 0.6, 0.4), 116.6, 8.9, 4.00)
_WEIGHTINGS: Final = {each.name: each for each in (BASELINE, BALANCED, RESPONSE, COST)}


@dataclass(frozen=True, slots=True)
class Moment:
    """A batch: when it was committed, and how it was with the stream then."""

    at_s: float
    """Seconds after the replay started."""
    response_ms: float
    """Mean over its rows."""
    rows_per_s: float
    replicas: int

    def as_row(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "at_s": round(self.at_s, 2),
            "response_ms": round(self.response_ms),
            "rows_per_s": round(self.rows_per_s, 1),
            "replicas": self.replicas,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to."""

    weighting: SparkWeighting
    seconds: float
    response_ms: float
    """Mean over all rows."""
    outside_ms: float
    """Mean over the rows of batches that no reconfiguration affected."""
    p99_ms: float
    cost: float
    """Replicas, in the mean over time."""
    downtime_s: float
    scalings: int
    migrations: int
    exact: bool
    moments: tuple[Moment, ...]
    changes_s: tuple[float, ...]
    """When each reconfiguration began, in seconds after the replay started."""
    stolen: float = 0.0
    """Share of the time that the host of a virtual machine kept for others."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any], seconds: float) -> Outcome:
        """Return what a row says; raises ``KeyError`` or ``TypeError`` where it is none."""
        return cls(
            weighting=_WEIGHTINGS[row["weighting"]],
            seconds=seconds,
            response_ms=row["response_ms"],
            outside_ms=row["outside_ms"],
            p99_ms=row["p99_ms"],
            cost=row["cost"],
            downtime_s=row["downtime_s"],
            scalings=row["scalings"],
            migrations=row["migrations"],
            exact=row["exact"],
            moments=tuple(Moment(**each) for each in row["moments"]),
            changes_s=tuple(row["changes_s"]),
            stolen=row["stolen"],
        )

    @property
    def reconfigurations(self) -> int:
        """How many there were of both kinds."""
        return self.scalings + self.migrations

    @property
    def downtime_percent(self) -> float:
        """Downtime over the length of the run."""
        return 100 * self.downtime_s / self.seconds

    def as_row(self) -> dict[str, object]:
        """Return the row of the table, with what the picture is drawn from."""
        paper = self.weighting
        return {
            "weighting": paper.name,
            "response_ms": round(self.response_ms),
            "outside_ms": round(self.outside_ms),
            "p99_ms": round(self.p99_ms),
            "cost": round(self.cost, 2),
            "downtime_s": round(self.downtime_s, 2),
            "downtime_percent": round(self.downtime_percent, 2),
            "scalings": self.scalings,
            "migrations": self.migrations,
            "exact": self.exact,
            "stolen": round(self.stolen, 4),
            "paper_response_ms": paper.paper_response_ms,
            "paper_cost": paper.paper_cost,
            "paper_downtime_percent": paper.paper_downtime_percent,
            "moments": [moment.as_row() for moment in self.moments],
            "changes_s": [round(at_s, 2) for at_s in self.changes_s],
        }


def earlier_outcomes(paths: Sequence[Path], how: str, seconds: float) -> list[Outcome]:
    """Return the runs that earlier studies wrote; all must have been run alike, and so long."""
    known: list[Outcome] = []
    for path in paths:
        figure = written_figures(path).get(_NAME)
        if figure is None:
            raise ProblemError(str(path), "has no table V: a run on Spark writes it")
        if figure.get("data") != how:
            raise ProblemError(str(path), f"was run otherwise: {figure.get('data')}; now {how}")
        try:
            known += [Outcome.of_row(row, seconds) for row in figure["rows"]]
        except (KeyError, TypeError) as error:
            raise ProblemError(str(path), f"has a row that is not in the table: {error}") from None
    return known


def table_five(done: Sequence[Outcome], how: str) -> Figure:
    """Return table V and figure 6 as the summary of a study; ``how`` says what was run.

    The trend holds where weighing downtime cuts it in every run.
    """
    exact = all(each.exact for each in done)
    of = {name: [each for each in done if each.weighting.name == name] for name in _WEIGHTINGS}
    holds, says = False, "Not all runs that the verdict needs were made."
    if (baseline := of["baseline"]) and (balanced := of["balanced"]):
        holds = exact and max(map(_percent, balanced)) <= min(map(_percent, baseline))
        says = (
            "The paper: counting downtime cuts it from 10.2 % of the run to 2.4 %, with "
            f"pause-and-resume. Here state moves live: from {_downtime(baseline)} to "
            f"{_downtime(balanced)}. A reconfiguration of the baseline takes "
            f"{_per_change(baseline):.1f} s of downtime."
        )
    rows = [each.as_row() for each in done]
    verdict = f"{says} {'Every' if exact else 'NOT every'} ranking is exact."
    if disturbed := sum(each.stolen > MUCH for each in done):
        verdict += f" In {disturbed} of {len(done)} runs the host kept more than {MUCH:.0%}."
    return Figure(_NAME, how, rows, None, holds, verdict)


def _percent(run: Outcome) -> float:
    return run.downtime_percent


def _downtime(runs: Sequence[Outcome]) -> str:
    """Say the downtime of runs that were alike: the mean, and how far they lie apart."""
    each = [_percent(run) for run in runs]
    apart = f" ({min(each):.1f} to {max(each):.1f} in {len(each)} runs)" if len(each) > 1 else ""
    return f"{fmean(each):.1f} %{apart}"


def _per_change(runs: Sequence[Outcome]) -> float:
    changes = sum(each.reconfigurations for each in runs)
    return sum(each.downtime_s for each in runs) / max(1, changes)
