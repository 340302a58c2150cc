"""State moved, time to plan and time to precompute against tau (000 figures 9-11, 001 12-14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from elastream_lab.studies.figure import Curves, Figure, Value, falls, rises
from elastream_lab.studies.migration_cost.rings import Rings
from elastream_lab.studies.migration_cost.run import Run
from elastream_lab.studies.migration_cost.study import (
    AWARE,
    BOUNDED,
    DIRECTED,
    EVEN,
    FLATTEST,
    FREE_AHEAD,
    GAMMA,
    HASHED,
    OTHERS,
    SINGLE_STEPS,
    CostStudy,
)
from elastream_lab.studies.migration_cost.trained import Trained

TAUS: Final = (0.2, 0.4, 0.8, 1.2)
_TIGHT: Final = 0.4
"""Up to this threshold looking ahead pays; beyond, it must not cost."""
_CLOSE: Final = 1.05
"""Costs within this ratio count as not worse."""
_HALF, _MOST_OF_HASHED = 0.5, 0.7
_NEGLIGIBLE_MS: Final = 10.0

Runs = Mapping[str, Sequence[Run]]
"""A run for each of :data:`TAUS`, by planner."""


def against_tau(study: CostStudy, trained: Trained) -> tuple[Figure, Figure, Figure]:
    """Return the papers' three figures over the same runs."""
    runs: dict[str, list[Run]] = {}
    precomputed: list[dict[str, Value]] = []
    load = study.judged.folded(study.tasks)
    rings = Rings(load.migrations(study.migrations), load.nodes[0], range(study.seeds))
    for tau in TAUS:
        for name, planner in (*SINGLE_STEPS.items(), *OTHERS.items()):
            runs.setdefault(name, []).append(study.run(planner, tau, tasks=study.tasks))
        runs.setdefault(HASHED, []).append(rings.unbounded(tau))
        runs.setdefault(BOUNDED, []).append(rings.bounded(tau))
        free_ahead = trained.free_ahead(tasks=study.tasks)
        runs.setdefault(FREE_AHEAD, []).append(study.run(free_ahead, tau, tasks=study.tasks))
        for name, directed in ((AWARE, False), (DIRECTED, True)):
            aware = trained.aware(tau, GAMMA, directed=directed, tasks=study.tasks)
            runs.setdefault(name, []).append(study.run(aware.planner, tau, tasks=study.tasks))
            seconds, valued = aware.precompute_s, aware.partitions
            precomputed.append(
                {"tau": tau, "chain": name, "precompute_s": seconds, "partitions": valued}
            )
    return (
        _cost_figure(study, runs),
        _time_figure(study, runs),
        _precompute_figure(study, precomputed),
    )


def best_single_step(runs: Mapping[str, Sequence[float]]) -> list[float]:
    """Return at each tau the cost of the tie rule that moves least."""
    return [min(costs) for costs in zip(*(runs[name] for name in SINGLE_STEPS), strict=True)]


def _rows(runs: Runs, *columns: str) -> list[dict[str, Value]]:
    return [
        {"tau": tau, "planner": name, **{column: asdict(run)[column] for column in columns}}
        for place, tau in enumerate(TAUS)
        for name, of_name in runs.items()
        for run in (of_name[place],)
    ]


def _cost_figure(study: CostStudy, runs: Runs) -> Figure:
    costs = {name: [run.state_moved_percent for run in of_name] for name, of_name in runs.items()}
    best = best_single_step(costs)
    aware = [min(pair) for pair in zip(costs[AWARE], costs[DIRECTED], strict=True)]
    claims = {
        f"MTM-aware moves less than the best single-step up to tau {_TIGHT}": all(
            a < b for tau, a, b in zip(TAUS, aware, best, strict=True) if tau <= _TIGHT
        ),
        "and is not worse beyond": all(
            a <= b * _CLOSE for tau, a, b in zip(TAUS, aware, best, strict=True) if tau > _TIGHT
        ),
        "single-step moves at most half of even split": all(
            b <= e * _HALF for b, e in zip(best, costs[EVEN], strict=True)
        ),
        "and less than consistent hashing": all(
            b < h for b, h in zip(best, costs[HASHED], strict=True)
        ),
        "costs fall with tau": falls(best) and falls(aware),
    }
    said = "; ".join(f"{claim}: {'yes' if held else 'NO'}" for claim, held in claims.items())
    return Figure(
        "000 fig. 9, 001 fig. 12",
        study.data,
        _rows(runs, "state_moved_percent", "imbalance", "over_limit_percent"),
        Curves("tau", ("state_moved_percent",), "planner", log=True),
        all(claims.values()),
        f"The papers say, and here: {said}. {_against_rings(best, runs)}",
    )


def _against_rings(best: Sequence[float], runs: Runs) -> str:
    """Return what single-step moves of what rings move, and what limit those keep."""

    def ratios(name: str) -> str:
        pairs = zip(best, runs[name], strict=True)
        return ", ".join(f"{b / max(run.state_moved_percent, 1e-9):.2f}" for b, run in pairs)

    hashed = runs[HASHED][0]
    under = [
        tau
        for tau, b, run in zip(TAUS, best, runs[HASHED], strict=True)
        if b <= _MOST_OF_HASHED * run.state_moved_percent
    ]
    at_most = f"at most {_MOST_OF_HASHED} at tau {', '.join(map(str, under)) or 'none'}"
    taus = ", ".join(map(str, TAUS))
    return (
        f"Single-step moves {ratios(HASHED)} of consistent hashing at tau {taus} ({at_most}), but "
        f"hashing leaves a node {hashed.imbalance:.0%} above the mean and is over the limit of tau "
        f"{TAUS[0]} in {hashed.over_limit_percent:.0f} % of its plans; of hashing that keeps the "
        f"limit where it can, single-step moves {ratios(BOUNDED)}."
    )


def _time_figure(study: CostStudy, runs: Runs) -> Figure:
    slowest = {name: max(run.plan_ms for run in runs[name]) for name in (FLATTEST, AWARE)}
    return Figure(
        "000 fig. 10, 001 fig. 13",
        study.data,
        _rows(runs, "plan_ms"),
        Curves("tau", ("plan_ms",), "planner"),
        max(slowest.values()) < _NEGLIGIBLE_MS,
        "The papers call the time to plan negligible at every tau; here single-step takes at most "
        f"{slowest[FLATTEST]:.2f} ms and MTM-aware {slowest[AWARE]:.2f} ms, medians.",
    )


def _precompute_figure(study: CostStudy, rows: list[dict[str, Value]]) -> Figure:
    seconds = [float(row["precompute_s"] or 0) for row in rows if row["chain"] == AWARE]
    return Figure(
        "000 fig. 11, 001 fig. 14",
        study.data,
        rows,
        Curves("tau", ("precompute_s",), "chain"),
        rises(seconds),
        "The papers need hundreds of minutes on 64 executors, more with tau, as there are more "
        f"partitions; a pool takes {min(seconds):.0f} to {max(seconds):.0f} s in one process, and "
        "its size, not that of the space it is drawn from, decides.",
    )
