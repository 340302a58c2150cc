"""How far a gain is beyond chance: every planner from many starts, by values of two months.

A single month is a single path: a plan that differs once leads elsewhere from then on, and two
planners of equal merit end some per cent apart. So planners go through windows of half a month
that start at ten places, and are compared window by window. Values of the judged month itself tell
what the other month costs.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastream.foresight.ssm.single_step import single_step
from elastream.model.plan import StepPlanner
from elastream_lab.studies.figure import Figure, Value
from elastream_lab.studies.migration_cost.run import run_through
from elastream_lab.studies.migration_cost.study import AWARE, DIRECTED, GAMMA, TAU, CostStudy
from elastream_lab.studies.migration_cost.trained import Trained

_TASKS: Final = (64, 128, 256)
_WINDOWS: Final = 10
_BEFORE: Final = "before"
_SAME: Final = "same"
_MONTHS: Final = {_BEFORE: "month before", _SAME: "same month"}

Rows = list[dict[str, Value]]


def over_windows(study: CostStudy, trained: Trained) -> tuple[Figure]:
    """Return how MTM-aware does against single-step in windows of the judged month."""
    months = {_BEFORE: trained, _SAME: Trained(study.judged)}
    if study.train is study.judged:
        months = {_SAME: trained}
    starts, length = _windows(len(study.judged.migrations(study.migrations)))
    moved = partial(_moved, study, starts=starts, length=length)
    rows: Rows = []
    for tasks in sorted({study.tasks, *(m for m in _TASKS if study.judged.tasks % m == 0)}):
        alone = moved(single_step, tasks)
        for month, learnt in months.items():
            for name in (AWARE, DIRECTED):
                aware = learnt.aware(TAU, GAMMA, directed=name == DIRECTED, tasks=tasks)
                rows.append(_compared(tasks, month, name, moved(aware.planner, tasks), alone))
    month = next(iter(months))
    judged = [row for row in rows if row["values_of"] == month]
    reports = ", ".join(
        f"{row['better_in']} at m = {row['tasks']}" for row in judged if row["planner"] == DIRECTED
    )
    return (
        Figure(
            "000 fig. 9, 001 fig. 12 (windows)",
            f"{study.data}, tau {TAU}, {len(starts)} windows of {length}",
            rows,
            None,
            all(float(row["difference"] or 0) < 0 for row in judged),
            "The papers' MTM-aware planner moves less than single-step; here, with direction and "
            f"values of the {_MONTHS[month]}, it does in {reports} of {len(starts)} windows.",
        ),
    )


def _windows(migrations: int) -> tuple[list[int], int]:
    """Return where windows start, and how many migrations each has."""
    length = max(2, migrations // 2)
    return np.unique(np.linspace(0, migrations - length, _WINDOWS, dtype=int)).tolist(), length


def _moved(
    study: CostStudy, planner: StepPlanner, tasks: int, *, starts: list[int], length: int
) -> NDArray[np.float64]:
    """Return the mean state moved in each window, in % of all state."""
    load = study.judged.folded(tasks)
    migrations = load.migrations(study.migrations)
    nodes = (load.nodes[0], *(migration.nodes for migration in migrations))
    runs = (run_through(migrations[s : s + length], nodes[s], planner, TAU) for s in starts)
    return np.array([run.state_moved_percent for run in runs])


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
        "values_of": month,
        "planner": name,
        "state_moved_percent": fmean(moved),
        "single_step_percent": fmean(alone),
        "difference": fmean(differences),
        "spread": stdev(differences) if len(differences) > 1 else None,
        "better_in": sum(difference < 0 for difference in differences),
    }
