"""Steps of plans as ``elastream plan`` prints and draws them."""

from __future__ import annotations

from typing import Annotated

import typer

from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan

Draw = Annotated[
    bool, typer.Option("--draw", help="Also draw the plan for people, on standard error.")
]


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
