"""Costs and times against m (000 figure 12, 001 figure 15) and gamma (000 14, 001 17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from elastream.foresight.ssm.single_step import single_step
from elastream.model.plan import StepPlanner
from elastream_lab.studies.figure import Curves, Figure, Value, falls, rises
from elastream_lab.studies.migration_cost.study import AWARE, FLATTEST, GAMMA, TAU, CostStudy
from elastream_lab.studies.migration_cost.trained import Trained

GAMMAS: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
TASKS: Final = (32, 64, 128, 256)
_CLOSE: Final = 0.1
"""A cost that rises by less than this share of that at gamma 0 counts as level."""

Rows = list[dict[str, Value]]


def against_tasks(study: CostStudy, trained: Trained) -> tuple[Figure, Figure]:
    """Return cost and time to plan against m, of a trace of many tasks folded to fewer."""
    rows: Rows = []
    counts = sorted({study.tasks, *(m for m in TASKS if study.judged.tasks % m == 0)})
    for tasks in counts:
        aware = trained.aware(TAU, GAMMA, directed=False, tasks=tasks)
        planners: dict[str, StepPlanner] = {FLATTEST: single_step, AWARE: aware.planner}
        for name, planner in planners.items():
            run = study.run(planner, TAU, tasks=tasks)
            rows.append(
                {
                    "tasks": tasks,
                    "planner": name,
                    "state_moved_percent": run.state_moved_percent,
                    "plan_ms": run.plan_ms,
                    "precompute_s": aware.precompute_s if name == AWARE else None,
                }
            )
    costs = {name: _column(rows, "state_moved_percent", name) for name in (FLATTEST, AWARE)}
    times = {name: _column(rows, "plan_ms", name) for name in (FLATTEST, AWARE)}
    data = f"{study.data}, tau {TAU}"
    span = f"from {counts[0]} to {counts[-1]} tasks"
    return (
        Figure(
            "000 fig. 12, 001 fig. 15",
            data,
            _only(rows, "tasks", "planner", "state_moved_percent"),
            Curves("tasks", ("state_moved_percent",), "planner"),
            len(counts) > 1 and all(map(falls, costs.values())),
            f"The papers' cost falls with m, as there are more plans to choose from; here, {span}, "
            f"that of single-step goes {_path(costs[FLATTEST], '.2f')} % and that of MTM-aware "
            f"{_path(costs[AWARE], '.2f')} %.",
        ),
        Figure(
            "000 fig. 12, 001 fig. 15 (time)",
            data,
            _only(rows, "tasks", "planner", "plan_ms", "precompute_s"),
            Curves("tasks", ("plan_ms",), "planner"),
            len(counts) > 1 and rises(times[FLATTEST]),
            f"The papers' time of single-step grows with the square of m; here, {span}, it goes "
            f"{_path(times[FLATTEST], '.2f')} ms, that of MTM-aware {_path(times[AWARE], '.2f')} "
            f"ms, and its values take {_path(_column(rows, 'precompute_s', AWARE), '.0f')} s.",
        ),
    )


def against_gamma(study: CostStudy, trained: Trained) -> tuple[Figure, Figure]:
    """Return cost and time to precompute against gamma; 0 is single-step."""
    rows: Rows = []
    for gamma in GAMMAS:
        aware = trained.aware(TAU, gamma, directed=False, tasks=study.tasks)
        run = study.run(aware.planner, TAU, tasks=study.tasks)
        rows.append(
            {
                "gamma": gamma,
                "state_moved_percent": run.state_moved_percent,
                "precompute_s": aware.precompute_s,
                "partitions": aware.partitions,
            }
        )
    costs, seconds = _column(rows, "state_moved_percent"), _column(rows, "precompute_s")
    data = f"{study.data}, tau {TAU}"
    return (
        Figure(
            "000 fig. 14, 001 fig. 17",
            data,
            _only(rows, "gamma", "state_moved_percent"),
            Curves("gamma", ("state_moved_percent",)),
            costs[-2] < costs[0] and falls(costs, _CLOSE * costs[0]),
            "The papers' cost falls as the future counts more; here it goes "
            f"{_path(costs, '.2f')} % from gamma {GAMMAS[0]:g} to {GAMMAS[-1]:g}.",
        ),
        Figure(
            "000 fig. 14, 001 fig. 17 (time)",
            data,
            _only(rows, "gamma", "precompute_s", "partitions"),
            Curves("gamma", ("precompute_s",)),
            rises(seconds[1:]),
            "The papers' time to precompute rises with gamma, sweep by sweep; here policies are "
            f"valued to the end at any gamma, and it goes {_path(seconds, '.0f')} s.",
        ),
    )


def _only(rows: Rows, *columns: str) -> Rows:
    return [{column: row[column] for column in columns} for row in rows]


def _column(rows: Rows, column: str, planner: str | None = None) -> list[float]:
    return [float(row[column] or 0) for row in rows if planner in (None, row.get("planner"))]


def _path(values: Sequence[float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values)
