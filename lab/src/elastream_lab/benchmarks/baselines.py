"""baselines: what every planner and every rival moves in the same migration, and how even it is.

State moved and the heaviest node over the mean, in percent; a plan over the limit is marked. Rings
are blind to where tasks are. The last column is what papers 000 and 001 give for consistent
hashing: the mean of a hundred runs that begin on a ring of their own.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream_lab.benchmarks._problems import skewed
from elastream_lab.rivals.catalog import STEP_PLANNERS
from elastream_lab.rivals.consistent_hashing import average_cost

_MIGRATIONS = [(64, 8, 10, 0.4), (64, 10, 8, 0.4), (400, 20, 25, 0.2), (2_000, 40, 50, 0.1)]
"""Tasks, nodes before and after, tau."""


def run() -> None:
    """Print a row for each migration."""
    table = Table(title="state moved / heaviest node over the mean, % (! over the limit)")
    for heading in ("migration", *STEP_PLANNERS, "ring to ring"):
        table.add_column(heading, justify="left" if heading == "migration" else "right")
    for tasks, before, after, tau in _MIGRATIONS:
        problem = skewed(tasks, before, after, tau)
        plans = [planner(problem) for planner in STEP_PLANNERS.values()]
        name = f"{tasks:,} tasks {before}→{after}, tau {tau:g}"
        ring = 100 * average_cost(problem) / sum(problem.state)
        table.add_row(name, *(_cell(problem, plan) for plan in plans), f"{ring:.1f}")
    Console(width=150).print(table)


def _cell(problem: StepProblem, plan: StepPlan | Infeasible) -> str:
    if isinstance(plan, Infeasible):
        return "none"
    moved = 100 * plan.cost / sum(problem.state)
    mean = sum(problem.work) / problem.target.nodes
    over = "!" if plan.status == "unbalanced" else ""
    return f"{moved:.1f} / {100 * (plan.max_load / mean - 1):.0f}{over}"
