"""``elastream plan sequence``: several migrations that are all known beforehand."""

from __future__ import annotations

from elastream.cli import problem_files
from elastream.cli.plan.effort import CELLS_A_SECOND, Seconds, effort_of
from elastream.cli.plan.printing import ProblemFile, print_plan, refuse
from elastream.cli.plan.steps import Draw, draw_steps, step_fields
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible


def sequence(file: ProblemFile, draw: Draw = False, seconds: Seconds = None) -> None:
    """Least state moved over several migrations known beforehand.

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
        draw_steps(pictures)
    fields: dict[str, object] = {"status": outcome.status, "cost": outcome.cost}
    if "gamma" in given:
        fields["weighted_cost"] = outcome.weighted_cost
    if outcome.status != "optimal":
        fields["lower_bound"] = outcome.lower_bound
    steps = [{"cost": step.cost} | step_fields(step) for step in outcome.steps]
    print_plan(fields | {"steps": steps})
