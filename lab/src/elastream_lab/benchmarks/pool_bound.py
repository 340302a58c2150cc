"""How far a pool may be from the best plan: its value next to what hindsight says is the least.

Where partitions are too many to value, a pool is. Its value is that of a policy, so an upper bound;
the papers' definition, sampled, is a lower one
(:mod:`~elastream_lab.studies.projected_cost.hindsight`).
"""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

from elastream.foresight.mtm.planner import transition
from elastream.foresight.mtm.problem import TransitionPlan, TransitionProblem
from elastream.model.migration import StepProblem, Target
from elastream_lab.benchmarks.transition import TAUS, on_the_fewest, skewed_problem
from elastream_lab.studies.projected_cost.hindsight import Hindsight, Sampling
from elastream_lab.studies.projected_cost.readings import Readings, readings

TASKS = 64
NODES = 12
SEQUENCES = 32


def run() -> None:
    """Print the table."""
    console = Console()
    table = Table(
        title=f"{TASKS} skewed tasks, 8 to {NODES} nodes, sizes 8 to 16, gamma 0.8;"
        f" {SEQUENCES} sequences; in % of all state"
    )
    for column in (
        "tau", "plan s", "hindsight s", "later: policy", "hindsight", "now and later: plan",
        "no plan below", "proven",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for tau in track(TAUS, console=Console(stderr=True), transient=True):
        table.add_row(*_row(tau))
    console.print(table)


def _row(tau: float) -> list[str]:
    projection = skewed_problem(TASKS, tau)
    step = StepProblem(
        projection.work, projection.state, on_the_fewest(projection), Target(NODES, tau)
    )
    problem = TransitionProblem.of(step, projection.chain)
    begun = time.perf_counter()
    plan = transition(problem)
    planned = time.perf_counter()
    assert isinstance(plan, TransitionPlan)
    found = readings(problem, plan, Sampling(sequences=SEQUENCES))
    read = time.perf_counter()
    assert isinstance(found, Readings)
    assert found.policy is not None
    assert found.total is not None
    everything = float(sum(step.state))

    def bound(report: Hindsight) -> str:
        return f"{report.mean / everything:.2%} ± {report.standard_error / everything:.2%}"

    return [
        f"{tau:g}",
        f"{planned - begun:.1f}",
        f"{read - planned:.0f}",
        f"{found.policy / everything:.2%}",
        bound(found.hindsight),
        f"{found.total / everything:.2%}",
        bound(found.least_total),
        f"{found.hindsight.proven} and {found.least_total.proven}",
    ]
