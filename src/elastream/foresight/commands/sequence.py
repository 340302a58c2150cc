"""``elastream plan sequence``: several migrations that are all known beforehand."""

from __future__ import annotations

from typing import Any, Final

from elastream.cli.plan.printing import (
    Draw,
    ProblemFile,
    Seconds,
    draw_steps,
    effort_of,
    print_plan,
    refuse,
    step_fields,
)
from elastream.cli.problem_files import Fields, expect_fields, read_fields
from elastream.foresight.commands.single_step import expect_intervals
from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.checks import abbreviate
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible

CELLS_A_SECOND: Final = 60_000_000
"""Effort that an ordinary core spends in a second."""


def sequence(file: ProblemFile, draw: Draw = False, seconds: Seconds = None) -> None:
    """Least state moved over several migrations known beforehand.

    Fields as for single-step, with "targets": [{"nodes": 3, "tau": 0.4}, ...] in place of nodes
    and tau. With "gamma", from 0 to 1, each further migration counts so much less, and the
    weighted cost is least and printed too.
    """
    from elastream.foresight.oms.planner import EFFORT
    from elastream.foresight.oms.planner import sequence as planner

    given = read_fields(file)
    problem = sequence_problem(given)
    outcome = planner(problem, effort=effort_of(seconds, CELLS_A_SECOND, EFFORT))
    if isinstance(outcome, Infeasible):
        refuse(outcome)
    if draw:
        current = problem.current
        pictures = []
        for target, step in zip(problem.targets, outcome.steps, strict=True):
            pictures.append((StepProblem(problem.work, problem.state, current, target), step))
            current = step.assignment
        draw_steps(pictures)
    fields: dict[str, object] = {"status": outcome.status, "cost": outcome.cost}
    if "gamma" in given:
        fields["weighted_cost"] = outcome.weighted_cost
    if outcome.status != "optimal":
        fields["lower_bound"] = outcome.lower_bound
    steps = [{"cost": step.cost} | step_fields(step) for step in outcome.steps]
    print_plan(fields | {"steps": steps})


def sequence_problem(data: Fields) -> SequenceProblem:
    """Return the problem: ``targets`` replaces ``nodes`` and ``tau``."""
    expect_fields("", data, required=("work", "state", "current", "targets"), optional=("gamma",))
    expect_intervals(data)
    targets = targets_of("targets", data["targets"])
    gamma = data.get("gamma", 1)
    return SequenceProblem.of(data["work"], data["state"], data["current"], targets, gamma)


def targets_of(field: str, listed: object) -> list[tuple[Any, Any]]:
    """Return the pairs (nodes, tau) of a list of targets."""
    pairs = []
    for place, target in objects_of(field, listed):
        expect_fields(f"{place}.", target, required=("nodes", "tau"))
        pairs.append((target["nodes"], target["tau"]))
    return pairs


def objects_of(field: str, listed: object) -> list[tuple[str, Fields]]:
    """Return the objects of a list, each with the name of its place."""
    if not isinstance(listed, list):
        raise ProblemError(field, f"{abbreviate(listed)} is not a list")
    for i, each in enumerate(listed):
        if not isinstance(each, dict):
            raise ProblemError(f"{field}[{i}]", f"{abbreviate(each)} is not an object")
    return [(f"{field}[{i}]", each) for i, each in enumerate(listed)]
