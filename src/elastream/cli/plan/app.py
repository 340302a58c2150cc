"""``elastream plan KIND FILE``: every planner from a shell, JSON in and JSON out."""

from __future__ import annotations

from typing import Final

import typer

from elastream.cli.plan.forecasting import (
    BytesPerBatch,
    BytesPerSecond,
    MovesPerBatch,
    forecast_fields,
)
from elastream.cli.plan.printing import (
    Draw,
    ProblemFile,
    Seconds,
    draw_steps,
    effort_of,
    moves_of,
    print_plan,
    refuse,
)
from elastream.cli.problem_files import read_fields, staged_problem
from elastream.model.plan import Infeasible

BRANCHES_A_SECOND: Final = 100_000
"""Effort that an ordinary core spends on a free step in a second."""

app = typer.Typer(
    help="""Plan a migration: one problem in, one plan out, as JSON.

Exit code 0: a plan was printed. 2: the problem is wrong, one line on standard error says where.
3: no plan exists, and the reason is printed.

  echo '{"work": [3, 1, 2, 4], "state": [10, 5, 0, 7], "current": [[0, 3], [3, 4]],
         "nodes": 3, "tau": 0.4}' | elastream plan single-step -
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("free-step")
def free_step(
    file: ProblemFile,
    draw: Draw = False,
    seconds: Seconds = None,
    bytes_per_s: BytesPerSecond = None,
    moves_per_batch: MovesPerBatch = None,
    bytes_per_batch: BytesPerBatch = None,
) -> None:
    """Least state moved in one migration; any tasks on a node.

    A node may hold any tasks, as on Spark.

    Fields as for single-step; current may also be the node of each task. Optional: stages (of
    each task; they run one after another), slots and memory (of each node), within ("batch", the
    default, or "stage"). A plan that is not proven optimal has the status "feasible" and a proven
    lower bound. --bytes-per-s as for single-step.
    """
    from elastream.placement.free_step.planner import EFFORT
    from elastream.placement.free_step.planner import free_step as planner

    problem = staged_problem(read_fields(file))
    outcome = planner(problem, effort=effort_of(seconds, BRANCHES_A_SECOND, EFFORT))
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        draw_steps([(problem, outcome)])
    print_plan(
        {
            "status": outcome.status,
            "cost": outcome.cost,
            "lower_bound": outcome.lower_bound,
            "nodes_of_tasks": outcome.assignment.nodes_of_tasks,
            "moves": moves_of(outcome),
            "limit": outcome.limit,
            "max_load": outcome.max_load,
            "batch": outcome.batch,
            "batch_limit": outcome.batch_limit,
        }
        | forecast_fields(problem, outcome, bytes_per_s, moves_per_batch, bytes_per_batch)
    )
