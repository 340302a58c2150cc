"""How far a gain is beyond chance: every planner from many starts, by values of two months.

A single month is a single path: a plan that differs once leads elsewhere from then on, and two
planners of equal merit end some per cent apart. So planners go through windows of half a month
that start at ten places, and are compared window by window. Values of the judged month itself tell
what the other month costs.
"""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastream.planners.catalog import StepPlanner
from elastream.planners.single_step import single_step
from elastream.studies.figure import Figure, Value
from elastream.studies.migration_cost_run import run_through
from elastream.studies.migration_cost_study import AWARE, DIRECTED, GAMMA, TAU, CostStudy
from elastream.studies.migration_cost_trained import Trained

__all__ = ["over_windows"]

_TASKS: Final = (64, 128, 256)
_WINDOWS: Final = 10
_BEFORE: Final = "the month before"
_SAME: Final = "the same month"

Rows = list[dict[str, Value]]


def over_windows(study: CostStudy, trained: Trained) -> tuple[Figure]:
    """Return how MTM-aware does against single-step in windows of the judged month."""
    months = {_BEFORE: trained, _SAME: Trained(study.judged)}
    if study.train is study.judged:
        months = {_SAME: trained}
    rows: Rows = []
    for tasks in sorted({study.tasks, *(m for m in _TASKS if study.judged.tasks % m == 0)}):
        alone = _moved(study, single_step, tasks)
        for month, learnt in months.items():
            for name in (AWARE, DIRECTED):
                aware = learnt.aware(TAU, GAMMA, directed=name == DIRECTED, tasks=tasks)
                moved = _moved(study, aware.planner, tasks)
                rows.append(_compared(tasks, month, name, moved, alone))
    learnt_from = next(iter(months))
    judged = [row for row in rows if row["learnt_from"] == learnt_from]
    told = ", ".join(
        f"{row['better_in']} of {row['windows']} at m = {row['tasks']}"
        for row in judged
        if row["planner"] == DIRECTED
    )
    return (
        Figure(
            "000 fig. 9, 001 fig. 12 (windows)",
            f"{study.data}, tau {TAU}, windows of half of them",
            rows,
            None,
            all(float(row["difference"] or 0) < 0 for row in judged),
            "The papers' MTM-aware planner moves less than single-step; here, with values of "
            f"{learnt_from} and direction, it does in {told}.",
        ),
    )


def _moved(study: CostStudy, planner: StepPlanner, tasks: int) -> NDArray[np.float64]:
    """Return the mean state moved in each window, in % of all state."""
    load = study.judged.folded(tasks)
    migrations = load.migrations(study.migrations)
    nodes = (load.nodes[0], *(migration.nodes for migration in migrations))
    length = max(2, len(migrations) // 2)
    starts = np.unique(np.linspace(0, len(migrations) - length, _WINDOWS, dtype=int)).tolist()
    return np.array(
        [
            run_through(
                migrations[start : start + length], nodes[start], planner, TAU
            ).state_moved_percent
            for start in starts
        ]
    )


def _compared(
    tasks: int,
    month: str,
    name: str,
    moved: NDArray[np.float64],
    alone: NDArray[np.float64],
) -> dict[str, Value]:
    differences = (moved - alone).tolist()
    return {
        "tasks": tasks,
        "learnt_from": month,
        "planner": name,
        "state_moved_percent": fmean(moved),
        "single_step_percent": fmean(alone),
        "difference": fmean(differences),
        "spread": stdev(differences) if len(differences) > 1 else None,
        "better_in": sum(difference < 0 for difference in differences),
        "windows": len(differences),
    }
