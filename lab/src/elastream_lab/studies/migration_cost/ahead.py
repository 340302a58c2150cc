"""Free placement that looks ahead, month by month and tau by tau, next to the two that it joins.

No one has it, so there is no figure to reproduce; the goal is ours: on every month and at every tau
no more state moved than by the better of free-step and MTM-aware planning, and less at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from elastream.model.plan import StepPlanner
from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.migration_cost.study import (
    AWARE,
    DIRECTED,
    FREE,
    FREE_AHEAD,
    GAMMA,
    OTHERS,
    CostStudy,
)
from elastream_lab.studies.migration_cost.trained import Trained

AHEAD_TAUS: Final = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
FIGURE: Final = "free placement that looks ahead"
_EQUAL: Final = 1e-6
_RIVALS: Final = (FREE, AWARE, DIRECTED)

Row = Mapping[str, Value]


def free_ahead_figure(study: CostStudy, trained: Trained, taus: Sequence[float]) -> Figure:
    """Return what each of the planners moves at each tau."""
    free_ahead = trained.free_ahead(tasks=study.tasks)
    rows: list[dict[str, Value]] = []
    for tau in taus:
        planners: dict[str, StepPlanner] = {FREE_AHEAD: free_ahead, FREE: OTHERS[FREE]}
        for name in (AWARE, DIRECTED):
            directed = name == DIRECTED
            aware = trained.aware(tau, GAMMA, directed=directed, tasks=study.tasks)
            planners[name] = aware.planner
        for name, planner in planners.items():
            run = study.run(planner, tau, tasks=study.tasks)
            rows.append(
                {
                    "tau": tau,
                    "planner": name,
                    "state_moved_percent": run.state_moved_percent,
                    "plan_ms": run.plan_ms,
                }
            )
    pairs = [(tau, *_pair(rows, tau)) for tau in taus]
    report = ", ".join(f"{tau:g}: {ahead:.3f} against {rival:.3f} %" for tau, ahead, rival in pairs)
    return Figure(
        FIGURE,
        study.data,
        rows,
        Curves("tau", ("state_moved_percent",), "planner", log=True),
        all(map(_reached, pairs)),
        "No paper has it: any task on any node, with the migrations to come in view. It should "
        f"move no more than the better of free-step and MTM-aware; at tau {report}; more at "
        f"{sum(not _reached(pair) for pair in pairs)}, less at {sum(map(_less, pairs))} of "
        f"{len(taus)}.",
    )


def months_figure(figures: Sequence[Figure]) -> Figure:
    """Return all months in one table: what it moves of the better of the two."""
    rows: list[dict[str, Value]] = []
    for figure in figures:
        for tau in dict.fromkeys(row["tau"] for row in figure.rows):
            ahead, rival = _pair(figure.rows, tau)
            rows.append(
                {
                    "month": figure.data,
                    "tau": tau,
                    "free_ahead_percent": ahead,
                    "better_rival_percent": rival,
                    "ratio": ahead / rival if rival else None,
                    "reached": _reached((tau, ahead, rival)),
                }
            )
    missed = [row for row in rows if not row["reached"]]
    where = "; ".join(f"tau {row['tau']} of {row['month']}" for row in missed)
    return Figure(
        f"{FIGURE} (all months)",
        f"{len(figures)} months and loads",
        rows,
        None,
        not missed,
        f"It should move no more than the better of free-step and MTM-aware everywhere; it does in "
        f"{len(rows) - len(missed)} of {len(rows)} cases{', not at ' + where if missed else ''}.",
    )


def _pair(rows: Sequence[Row], tau: Value) -> tuple[float, float]:
    """Return what free-ahead moves at a tau, and the least of what the others move."""
    costs = {
        row["planner"]: float(row["state_moved_percent"] or 0) for row in rows if row["tau"] == tau
    }
    return costs[FREE_AHEAD], min(costs[name] for name in _RIVALS)


def _reached(pair: tuple[Value, float, float]) -> bool:
    return pair[1] <= pair[2] * (1 + _EQUAL)


def _less(pair: tuple[Value, float, float]) -> bool:
    return pair[1] < pair[2] * (1 - _EQUAL)
