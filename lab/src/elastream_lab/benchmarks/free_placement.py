"""Free placement against consecutive tasks: the state that must move, and the time a plan takes.

The papers give each node consecutive tasks; Spark does not ask for that. Both planners get the same
problem and prove their plans, so the difference is the price of the rule and nothing else. Two
loads: work and state drawn evenly, with as many tasks on each node; and few heavy tasks among many
light ones, with as much work on each node.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from elastream.foresight.ssm.single_step import single_step
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.certificate import certify_step
from elastream.placement.free_step.planner import free_step
from elastream_lab.benchmarks._problems import skewed, uniform

PROBLEMS = {"uniform": uniform, "skewed": skewed}
SIZES = [(1_000, 9, 10), (10_000, 90, 100), (100_000, 900, 1_000), (100_000, 1_000, 900)]
"""Tasks, nodes before and after."""
TAU = 0.05


def run() -> None:
    """Print the table."""
    for planner in (single_step, free_step):
        planner(skewed(20_000, 40, 50, 0.4))  # compiles
    table = Table(title=f"state that moves, consecutive tasks and free placement, tau {TAU}")
    for column in ("load", "tasks", "nodes", "single-step", "seconds", "free-step", "seconds"):
        table.add_column(column, justify="right")
    for load, made in PROBLEMS.items():
        for tasks, before, after in SIZES:
            problem = made(tasks, before, after, TAU)
            row = [load, f"{tasks:,}", f"{before}→{after}"]
            row += _measured(single_step, problem, contiguous=True)
            row += _measured(free_step, problem, contiguous=False)
            table.add_row(*row)
    Console(width=100).print(table)


def _measured(
    planner: Callable[[StepProblem], StepPlan | Infeasible],
    problem: StepProblem,
    *,
    contiguous: bool,
) -> tuple[str, str]:
    """Return the share of the state that the certified plan moves, and the seconds it took."""
    began = time.perf_counter()
    plan = planner(problem)
    took = time.perf_counter() - began
    assert isinstance(plan, StepPlan), plan.reason
    assert certify_step(problem, plan, contiguous=contiguous).faults == ()
    return f"{plan.cost / sum(problem.state):.2%} {plan.status}", f"{took:.1f}"
