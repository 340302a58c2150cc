"""What a month of migrations costs under every planner: papers 000 and 001, figures 9 to 14 (17).

Chain and values come from one month, the migrations from another. The planners go through the same
consecutive migrations, each from where its own last one ended; state moved is a share of all state.

The papers run two applications, a word count and counts of patterns in a sliding window. A study of
several loads makes the figures of each, and one that compares how their costs fall with tau.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from elastream_lab.studies.figure import Curves, Figure, Value
from elastream_lab.studies.migration_cost.ahead import (
    AHEAD_TAUS,
    free_ahead_figure,
    months_figure,
)
from elastream_lab.studies.migration_cost.parameters import against_gamma, against_tasks
from elastream_lab.studies.migration_cost.schedule import scheduled_figure
from elastream_lab.studies.migration_cost.study import SINGLE_STEPS, CostStudy
from elastream_lab.studies.migration_cost.tau import TAUS, against_tau, best_single_step
from elastream_lab.studies.migration_cost.trained import Trained
from elastream_lab.studies.migration_cost.windows import over_windows

PARTS: Final = ("tau", "ahead", "tasks", "gamma", "windows", "schedule")
"""What the figures vary."""


def figures(
    studies: Sequence[CostStudy],
    parts: Sequence[str] = PARTS,
    ahead_taus: Sequence[float] = AHEAD_TAUS,
) -> list[Callable[[], tuple[Figure, ...]]]:
    """Return what makes the figures, load by load, in the order of the papers."""
    makers: list[Callable[[], tuple[Figure, ...]]] = []
    costs: list[Figure] = []
    looked_ahead: list[Figure] = []

    def of_tau(study: CostStudy, trained: Trained) -> tuple[Figure, ...]:
        made = against_tau(study, trained)
        costs.append(made[0])
        return made

    def of_ahead(study: CostStudy, trained: Trained) -> tuple[Figure, ...]:
        looked_ahead.append(free_ahead_figure(study, trained, ahead_taus))
        return (looked_ahead[-1],)

    for study in studies:
        trained = Trained(study.train)
        by_part: dict[str, Callable[[CostStudy, Trained], tuple[Figure, ...]]] = {
            "tau": of_tau,
            "ahead": of_ahead,
            "tasks": against_tasks,
            "gamma": against_gamma,
            "windows": over_windows,
            "schedule": lambda study, _: (scheduled_figure(study),),
        }
        makers += [partial(by_part[part], study, trained) for part in PARTS if part in parts]
    if "tau" in parts and len(studies) > 1:
        names = [study.judged.name for study in studies]
        makers.append(lambda: (_loads_compared(names, costs),))
    if "ahead" in parts and len(studies) > 1:
        makers.append(lambda: (months_figure(looked_ahead),))
    return makers


def _loads_compared(names: Sequence[str], costs: Sequence[Figure]) -> Figure:
    """Return how single-step's cost falls with tau, for each load as a share of its first."""
    rows: list[dict[str, Value]] = []
    left: list[float] = []
    for name, figure in zip(names, costs, strict=True):
        best = best_single_step(
            {
                rule: [r["state_moved_percent"] for r in figure.rows if r["planner"] == rule]
                for rule in SINGLE_STEPS
            }
        )
        rows += [
            {"tau": tau, "load": name, "state_moved_percent": cost, "of_the_first": cost / best[0]}
            for tau, cost in zip(TAUS, best, strict=True)
        ]
        left.append(best[1] / best[0])
    return Figure(
        "000 fig. 9, 001 fig. 12 (loads)",
        "the best single-step tie rule on each load",
        rows,
        Curves("tau", ("of_the_first",), "load"),
        left[0] < min(left[1:]),
        f"The papers' cost falls faster with tau for words than for patterns; here tau {TAUS[1]} "
        f"leaves {', '.join(f'{share:.0%}' for share in left)} of the cost of {TAUS[0]} for "
        f"{', '.join(names)}.",
    )
