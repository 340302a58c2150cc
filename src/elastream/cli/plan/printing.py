"""What the ``elastream plan`` commands share: their arguments, and how a plan is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from elastream.cli.exits import INFEASIBLE
from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan

ProblemFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The problem as JSON; - reads standard input.")
]
Draw = Annotated[
    bool, typer.Option("--draw", help="Also draw the plan for people, on standard error.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        show_default="the planner's own effort",
        help="Effort to prove the plan best, in seconds of an ordinary core, roughly; "
        "counted, not timed. Not enough: the best plan is printed with its bound.",
    ),
]


def effort_of(seconds: float | None, rate: float, otherwise: float) -> float:
    """Return the effort that ``seconds`` are worth; ``otherwise`` where none are given.

    Planners look at no clock: they count what they do, so that equal problems have equal plans on
    any machine. ``rate`` is what an ordinary core counts in a second, and promises no time.
    """
    return otherwise if seconds is None else seconds * rate


def print_plan(fields: Mapping[str, object]) -> None:
    """Print one JSON object, the whole of standard output."""
    typer.echo(json.dumps(fields, allow_nan=False))


def refuse(outcome: Infeasible) -> NoReturn:
    """Print why no plan exists and end with the exit code that says so."""
    print_plan({"status": outcome.status, "reason": outcome.reason})
    raise typer.Exit(INFEASIBLE)


def step_fields(plan: StepPlan) -> dict[str, object]:
    """Return the intervals of a step and its moves."""
    return {"assignment": plan.assignment.intervals, "moves": moves_of(plan)}


def moves_of(plan: StepPlan) -> list[dict[str, Number]]:
    """Return the moves of a step."""
    return [
        {"task": task, "from": source, "to": target, "state": state}
        for task, source, target, state in plan.moves
    ]


def draw_steps(steps: list[tuple[StepProblem, StepPlan]]) -> None:
    """Draw steps on standard error."""
    from elastream.cli.drawing import migration
    from elastream.cli.screen import Screen

    console = Screen(stderr=True)
    for problem, plan in steps:
        console.print(migration(problem, plan))
