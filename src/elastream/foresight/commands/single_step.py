"""``elastream plan single-step``: one migration, every node holding consecutive tasks."""

from __future__ import annotations

from elastream.cli.plan.forecasting import (
    BytesPerBatch,
    BytesPerSecond,
    MovesPerBatch,
    forecast_fields,
)
from elastream.cli.plan.printing import (
    Draw,
    ProblemFile,
    draw_steps,
    print_plan,
    refuse,
    step_fields,
)
from elastream.cli.problem_files import Fields, read_fields, step_problem
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible


def single_step(
    file: ProblemFile,
    draw: Draw = False,
    bytes_per_s: BytesPerSecond = None,
    moves_per_batch: MovesPerBatch = None,
    bytes_per_batch: BytesPerBatch = None,
) -> None:
    """Least state moved in one migration; consecutive tasks.

    Each node holds consecutive tasks.

    Fields: work, state (a number for each task), current (an interval [lb, ub] for each node),
    nodes (how many may hold tasks afterwards), tau (a node may hold (1 + tau) times the mean).

    With --bytes-per-s the plan has a forecast: in which batches and phases state travels, and for
    how many seconds.
    """
    from elastream.foresight.ssm.single_step import single_step as planner

    problem = single_step_problem(read_fields(file))
    outcome = planner(problem)
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        draw_steps([(problem, outcome)])
    fields: dict[str, object] = {"status": outcome.status, "cost": outcome.cost}
    loads = {"limit": outcome.limit, "max_load": outcome.max_load}
    more = forecast_fields(problem, outcome, bytes_per_s, moves_per_batch, bytes_per_batch)
    print_plan(fields | step_fields(outcome) | loads | more)


def single_step_problem(data: Fields) -> StepProblem:
    """Return the problem of a single step: ``current`` is intervals."""
    expect_intervals(data)
    return step_problem(data)


def expect_intervals(data: Fields) -> None:
    """Refuse the node of each task where the planner needs an interval for each node."""
    current = data.get("current")
    if isinstance(current, list) and current and isinstance(current[0], int):
        raise ProblemError("current[0]", f"{abbreviate(current[0])} is not an interval [lb, ub]")
