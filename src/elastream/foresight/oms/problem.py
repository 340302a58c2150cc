"""Several migrations, all known beforehand; the plan for them, and the check of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from elastream.foresight.mtm.problem import discount
from elastream.model.assignment import Assignment
from elastream.model.checks import Number, Numbers
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Status, StepPlan
from elastream.placement.certificate import ROUNDING, Certificate, certify_step, differing


@dataclass(frozen=True, slots=True)
class SequenceProblem:
    """Several migrations, one after the other, all known beforehand (section 4.1 of paper 000)."""

    work: tuple[Number, ...]
    """Load of each task, the same at every migration."""
    state: tuple[Number, ...]
    """State size of each task, the same at every migration, in bytes."""
    current: Assignment
    """Where the tasks are before the first migration."""
    targets: tuple[Target, ...]
    """What each migration must reach, in order; at least one."""
    gamma: Number = 1
    """Weight of each further migration (section 4.2 of paper 000), from 0 to 1: the state moved by
    migration ``i``, from 0, counts ``gamma ** i``. A fraction is the decimal number that it prints
    as."""

    @classmethod
    def of(
        cls,
        work: Numbers,
        state: Numbers,
        current: Assignment | Sequence[Sequence[int]],
        targets: Sequence[tuple[int, Number]],
        gamma: Number = 1,
    ) -> SequenceProblem:
        """Return the checked problem; each target is a pair (nodes, tau)."""
        step = StepProblem.of(work, state, current, nodes=1, tau=0)
        if not targets:
            raise ProblemError("targets", "is empty; give at least one migration")
        checked = tuple(Target.of(*pair, f"targets[{i}].") for i, pair in enumerate(targets))
        return cls(step.work, step.state, step.current, checked, discount("gamma", gamma, most=1))


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """The outcome of several migrations, one after the other."""

    status: Status
    """``optimal``: no plan for the same problem has a lower ``weighted_cost``; proven."""
    cost: Number
    """State moved in all steps together, in bytes; each step counts the same."""
    steps: tuple[StepPlan, ...]
    lower_bound: Number
    """No plan for the same problem has a ``weighted_cost`` below this."""
    weighted_cost: Number
    """What is minimised: the sum of ``gamma ** i`` times the cost of step ``i``, from 0, in bytes.
    Equal to ``cost`` where gamma is 1."""


def certify_sequence(problem: SequenceProblem, plan: SequencePlan) -> Certificate:
    """Check every step of ``plan`` from the assignment the previous step left, and both totals.

    Shares no code with the planner.
    """
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
