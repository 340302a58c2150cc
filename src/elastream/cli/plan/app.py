"""``elastream plan KIND FILE``: every planner from a shell, JSON in and JSON out."""

from __future__ import annotations

from typing import Annotated

import typer

from elastream.cli import problem_files
from elastream.cli.plan.effort import BRANCHES_A_SECOND, CELLS_A_SECOND, Seconds, effort_of
from elastream.cli.plan.forecasting import (
    BytesPerBatch,
    BytesPerSecond,
    MovesPerBatch,
    forecast_fields,
)
from elastream.cli.plan.printing import ProblemFile, print_plan, refuse
from elastream.foresight.commands.free_ahead import free_ahead
from elastream.foresight.commands.transition import transition
from elastream.handover.commands.plan import handover
from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.replication.commands import replication
from elastream.resilience.commands import resilient

__all__ = ["app"]

app = typer.Typer(
    help="""Plan a migration: read one problem as JSON, print one plan as JSON.

Exit code 0: a plan was printed. 2: the problem is wrong, one line on standard error says where.
3: no plan exists, and the reason is printed.

  echo '{"work": [3, 1, 2, 4], "state": [10, 5, 0, 7], "current": [[0, 3], [3, 4]],
         "nodes": 3, "tau": 0.4}' | elastream plan single-step -
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Draw = Annotated[
    bool, typer.Option("--draw", help="Also draw the plan for people, on standard error.")
]


@app.command("single-step")
def single_step(
    file: ProblemFile,
    draw: Draw = False,
    bytes_per_s: BytesPerSecond = None,
    moves_per_batch: MovesPerBatch = None,
    bytes_per_batch: BytesPerBatch = None,
) -> None:
    """Least state moved in one migration; each node holds consecutive tasks.

    Fields: work, state (a number for each task), current (an interval [lb, ub] for each node),
    nodes (how many may hold tasks afterwards), tau (a node may hold (1 + tau) times the mean).

    With --bytes-per-s the plan has a forecast: in which batches and phases state travels, and for
    how many seconds.
    """
    from elastream.placement.ssm.single_step import single_step as planner

    problem = problem_files.single_step_problem(problem_files.read_fields(file))
    outcome = planner(problem)
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        _draw([(problem, outcome)])
    fields: dict[str, object] = {"status": outcome.status, "cost": outcome.cost}
    loads = {"limit": outcome.limit, "max_load": outcome.max_load}
    more = forecast_fields(problem, outcome, bytes_per_s, moves_per_batch, bytes_per_batch)
    print_plan(fields | _step_fields(outcome) | loads | more)


@app.command("free-step")
def free_step(
    file: ProblemFile,
    draw: Draw = False,
    seconds: Seconds = None,
    bytes_per_s: BytesPerSecond = None,
    moves_per_batch: MovesPerBatch = None,
    bytes_per_batch: BytesPerBatch = None,
) -> None:
    """Least state moved in one migration; a node may hold any tasks, as on Spark.

    Fields as for single-step; current may also be the node of each task. A plan that is not
    proven optimal has the status "feasible" and a proven lower bound. --bytes-per-s as for
    single-step.
    """
    from elastream.placement.free_step.planner import EFFORT
    from elastream.placement.free_step.planner import free_step as planner

    problem = problem_files.step_problem(problem_files.read_fields(file))
    outcome = planner(problem, effort=effort_of(seconds, BRANCHES_A_SECOND, EFFORT))
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        _draw([(problem, outcome)])
    print_plan(
        {
            "status": outcome.status,
            "cost": outcome.cost,
            "lower_bound": outcome.lower_bound,
            "nodes_of_tasks": outcome.assignment.nodes_of_tasks,
            "moves": _moves(outcome),
            "limit": outcome.limit,
            "max_load": outcome.max_load,
        }
        | forecast_fields(problem, outcome, bytes_per_s, moves_per_batch, bytes_per_batch)
    )


@app.command("sequence")
def sequence(file: ProblemFile, draw: Draw = False, seconds: Seconds = None) -> None:
    """Least state moved over several migrations that are all known beforehand.

    Fields as for single-step, with "targets": [{"nodes": 3, "tau": 0.4}, ...] in place of nodes
    and tau. With "gamma", from 0 to 1, each further migration counts so much less, and the
    weighted cost is least and printed too.
    """
    from elastream.foresight.oms.planner import EFFORT
    from elastream.foresight.oms.planner import sequence as planner

    given = problem_files.read_fields(file)
    problem = problem_files.sequence_problem(given)
    outcome = planner(problem, effort=effort_of(seconds, CELLS_A_SECOND, EFFORT))
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        current = problem.current
        pictures = []
        for target, step in zip(problem.targets, outcome.steps, strict=True):
            pictures.append((StepProblem(problem.work, problem.state, current, target), step))
            current = step.assignment
        _draw(pictures)
    fields: dict[str, object] = {"status": outcome.status, "cost": outcome.cost}
    if "gamma" in given:
        fields["weighted_cost"] = outcome.weighted_cost
    if outcome.status != "optimal":
        fields["lower_bound"] = outcome.lower_bound
    steps = [{"cost": step.cost} | _step_fields(step) for step in outcome.steps]
    print_plan(fields | {"steps": steps})


app.command("free-ahead")(free_ahead)
app.command("handover")(handover)
app.command("transition")(transition)
app.command("resilient")(resilient)
app.command("replication")(replication)


def _step_fields(plan: StepPlan) -> dict[str, object]:
    return {"assignment": plan.assignment.intervals, "moves": _moves(plan)}


def _moves(plan: StepPlan) -> list[dict[str, Number]]:
    return [
        {"task": task, "from": source, "to": target, "state": state}
        for task, source, target, state in plan.moves
    ]


def _draw(steps: list[tuple[StepProblem, StepPlan]]) -> None:
    from elastream.cli.drawing import migration
    from elastream.cli.screen import Screen

    console = Screen(stderr=True)
    for problem, plan in steps:
        console.print(migration(problem, plan))
