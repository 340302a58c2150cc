"""``elastream study projected-cost``: what the papers' readings of a plan's later cost give."""

from __future__ import annotations

from itertools import count
from typing import Annotated

import typer

from elastream.cli.plan.printing import ProblemFile, print_plan, refuse
from elastream.cli.problem_files import read_fields
from elastream.foresight.commands.progress import progress
from elastream.model.plan import Infeasible

_SEQUENCES = typer.Option(
    "--sequences", min=2, help="Sequences of later migrations, each planned with hindsight."
)


def projected_cost(
    file: ProblemFile,
    sequences: Annotated[int, _SEQUENCES] = 100,
) -> None:
    """Compare the readings of the papers' projected cost.

    The problem is that of `elastream plan transition`. "policy" is the value that its plan is made
    by; "hindsight" what later migrations would move if they were known (definition 4.1 of 000, 5.3
    of 001), a lower bound, with its standard error; "least_total" the same with this migration;
    "figure_6" the sum of that figure. Seconds a sequence for 64 tasks.

      elastream study projected-cost problem.json --sequences 200
    """
    from elastream.foresight.commands.transition import transition_problem
    from elastream.foresight.mtm.planner import transition
    from elastream_lab.studies.projected_cost.hindsight import Hindsight, Sampling
    from elastream_lab.studies.projected_cost.readings import readings

    problem = transition_problem(read_fields(file))
    plan = transition(problem)
    if isinstance(plan, Infeasible):
        refuse(plan)
    planned = count(1)
    with progress("planning sequences with hindsight", 2 * sequences) as report:
        found = readings(
            problem, plan, Sampling(sequences=sequences), lambda: report(next(planned))
        )
    if isinstance(found, Infeasible):
        refuse(found)

    def estimate(name: str, estimated: Hindsight) -> dict[str, object]:
        return {
            name: estimated.mean,
            "standard_error": estimated.standard_error,
            "sequences": estimated.sequences,
            "migrations": estimated.migrations,
            "proven": estimated.proven,
        }

    summed = found.figure_six
    print_plan(
        {
            "cost": plan.step.cost,
            "policy": found.policy,
            "hindsight": estimate("projected", found.hindsight) | {"gap": found.gap},
            "least_total": estimate("cost", found.least_total)
            | {"of_this_plan": found.total, "gap": found.total_gap},
            "figure_6": None
            if summed is None
            else {"sum": summed.summed, "growth": summed.growth, "drawn": summed.drawn},
        }
    )
