"""``elastream plan transition``: least state moved, now and in the migrations to come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from elastream.cli.plan.printing import ProblemFile, print_plan, refuse, step_fields
from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.foresight.commands.progress import progress
from elastream.foresight.commands.single_step import single_step_problem
from elastream.foresight.mtm.problem import MigrationChain, TransitionPlan, TransitionProblem
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

Values = Annotated[
    Path | None,
    typer.Option("--values", help="Plan from values that `elastream values build` has stored."),
]
STEP_FIELDS = ("work", "state", "current", "nodes", "tau")


def transition(file: ProblemFile, values: Values = None) -> None:
    """Least expected state moved, now and later; consecutive tasks.

    Each node holds consecutive tasks.

    The problem is single-step's with a "chain": {"sizes", "matrix", "gamma"}: how likely a
    migration from sizes[i] nodes leads to sizes[j]. All partitions are valued where there are few
    thousands, and the plan is optimal; else the best of a pool is found, in under a minute for
    64 tasks. Stored values must be those of the same problem.

    "projected" is the value of a policy, which learns each size when it comes.

      elastream plan transition problem.json
      elastream plan transition problem.json --values values.parquet
    """
    problem = transition_problem(read_fields(file))
    outcome = _planned(problem, values)
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    step = outcome.step
    print_plan(
        {
            "status": outcome.status,
            "cost": step.cost,
            **step_fields(step),
            "limit": step.limit,
            "max_load": step.max_load,
            "projected": outcome.projected,
            "partitions": outcome.partitions,
        }
    )


def transition_problem(data: Fields) -> TransitionProblem:
    """Return the problem: single-step's fields, the chain and, where it matters, the direction."""
    expect_fields("", data, required=(*STEP_FIELDS, "chain"), optional=("direction",))
    step = single_step_problem({name: data[name] for name in STEP_FIELDS})
    return TransitionProblem.of(step, chain_of(data["chain"]), data.get("direction"))


def chain_of(data: object) -> MigrationChain:
    """Return the chain of a problem file."""
    if not isinstance(data, dict):
        raise ProblemError("chain", f"{abbreviate(data)} is not an object")
    expect_fields("chain.", data, required=("sizes", "matrix", "gamma"), optional=("directions",))
    return MigrationChain.of(data["sizes"], data["matrix"], data["gamma"], data.get("directions"))


def by_round(report: Callable[[int, str], None]) -> Callable[[int, int], None]:
    """Return what shows each finished round of growth."""

    def finished(number: int, partitions: int) -> None:
        report(number, f"round {number}, {partitions:,} partitions")

    return finished


def _planned(problem: TransitionProblem, stored: Path | None) -> TransitionPlan | Infeasible:
    if stored is None:
        from elastream.foresight.mtm.growth import GrowthSettings
        from elastream.foresight.mtm.planner import transition as planner

        settings = GrowthSettings()
        with progress("valuing partitions", settings.rounds) as report:
            finished = by_round(report)
            return planner(problem, settings=settings, finished=finished)
    from elastream.foresight.mtm.planner import TransitionPlanner
    from elastream.foresight.mtm.problem import ProjectionProblem
    from elastream.foresight.values_file import read_values

    step = problem.step
    values = read_values(stored)
    wanted = ProjectionProblem(step.work, step.state, step.target.tau, problem.chain)
    if values.problem.fingerprint != wanted.fingerprint:
        raise ProblemError("--values", f"{stored} holds the values of another problem")
    return TransitionPlanner(values).plan_to(step, problem.state)
