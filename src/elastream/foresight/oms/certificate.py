"""Check a plan for a sequence, step by step; shares no code with the planner."""

from __future__ import annotations

from fractions import Fraction

from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.model.migration import StepProblem
from elastream.placement.certificate import ROUNDING, Certificate, certify_step, differing


def certify_sequence(problem: SequenceProblem, plan: SequencePlan) -> Certificate:
    """Check every step of ``plan`` from the assignment the previous step left, and both totals."""
    if len(plan.steps) != len(problem.targets):
        wrong = f"{len(plan.steps)} steps for {len(problem.targets)} migrations"
        return Certificate((wrong,), Fraction(0), Fraction(0))
    faults: list[str] = []
    cost = weighted = max_load = Fraction(0)
    weight = Fraction(1)
    current = problem.current
    for number, (target, step) in enumerate(zip(problem.targets, plan.steps, strict=True)):
        before = StepProblem(problem.work, problem.state, current, target)
        certificate = certify_step(before, step, contiguous=True)
        faults += [f"step {number}: {fault}" for fault in certificate.faults]
        cost += certificate.cost
        weighted += weight * certificate.cost
        weight *= Fraction(problem.gamma)
        max_load = max(max_load, certificate.max_load)
        current = step.assignment
    faults += differing("cost", plan.cost, cost)
    faults += differing("weighted_cost", plan.weighted_cost, weighted)
    if Fraction(plan.lower_bound) > weighted * (1 + ROUNDING):
        faults.append(f"lower bound {plan.lower_bound} is above the cost {float(weighted)}")
    if plan.status == "optimal" and plan.lower_bound != plan.weighted_cost:
        faults.append("called optimal with a lower bound below the cost")
    return Certificate(tuple(faults), cost, max_load)
