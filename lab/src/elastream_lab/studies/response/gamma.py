"""What the discount does to state and waits: papers 000 (figure 14) and 001 (figure 17).

By the definitions of the migration benchmark: a migration lasts from the moment it is asked for
until the query is steady again, and what was computed beforehand is reported next to it, as
preparation.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any, Final

from elastream_lab.studies.figure import Curves, Figure, falls, rises
from elastream_lab.studies.response.costs import Costs
from elastream_lab.studies.response.days import Days
from elastream_lab.studies.response.figures import judged
from elastream_lab.studies.response.planning import Planning, aware_planner
from elastream_lab.studies.response.settings import ResponseStudy
from elastream_lab.studies.response.simulated import run_simulated

GAMMAS: Final = (0.0, 0.4, 0.8, 0.95)
_CLOSE: Final = 0.1
"""A figure that rises by less than this share of that at gamma 0 counts as level."""


def gamma_figure(study: ResponseStudy, costs: Costs, days: Days, data: str) -> Figure:
    """Return cost, delay and preparation against gamma, on the simulated cluster."""
    rows = [_row(study, costs, days, gamma) for gamma in GAMMAS]
    moved, added, took = (
        [float(row[column]) for row in rows]
        for column in ("state_moved_percent", "added_p99_ms", "precompute_s")
    )
    holds, said = judged(
        {
            "the state moved falls as the future counts more": _falls(moved),
            "so does what a migration adds to the wait": _falls(added),
            "the time to precompute rises": rises(took[1:]),
        }
    )
    paths = ", ".join(f"{value:.2f}" for value in moved)
    return Figure(
        "000 fig. 14, 001 fig. 17 (waits)",
        f"{costs.application}, window {costs.window}, {data}",
        rows,
        Curves("gamma", ("state_moved_percent",)),
        holds,
        f"The papers say, and here: {said}. From gamma {GAMMAS[0]:g} to {GAMMAS[-1]:g} the state "
        f"moved goes {paths} %.",
    )


def _row(study: ResponseStudy, costs: Costs, days: Days, gamma: float) -> dict[str, Any]:
    began = time.perf_counter()
    loads = days.loads
    aware = aware_planner(loads.work, loads.state_parts, study.tau, days.chain(gamma))
    took = time.perf_counter() - began
    planning = Planning("transition", study.tau, aware=aware)
    runs = range(1, study.repeats + 1)
    measured = [each for run in runs for each in run_simulated(study, costs, days, planning, run)]
    return {
        "gamma": gamma,
        "state_moved_percent": fmean(each.state_moved_percent for each in measured),
        "mean_ms": fmean(each.mean_ms for each in measured),
        "p99_ms": fmean(each.p99_ms for each in measured),
        "added_p99_ms": fmean(each.added_p99_ms or 0.0 for each in measured),
        "settled_s": fmean(each.settled_s for each in measured),
        "precompute_s": took,
        "migrations": len(measured),
    }


def _falls(values: list[float]) -> bool:
    return values[-2] < values[0] and falls(values, _CLOSE * abs(values[0]))
