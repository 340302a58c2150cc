"""The next migration of a schedule: any task on any node, with all known later sizes in view.

Several first steps are tried, each continued to the end of the schedule within every limit: the
free step with look-ahead, the step that moves the least now, and the best sequence of consecutive
tasks (OMS, papers 000 and 001), with the tasks of each node numbered one after the other. The one
that moves the least in total wins, so a plan never moves more in total than the papers' sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from elastream.foresight.ahead.futures import LookAhead
from elastream.foresight.ahead.planner import free_ahead
from elastream.foresight.ahead.problem import FreeAheadProblem, Future
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.assignment import Assignment
from elastream.model.checks import Number
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.model.words import pluralize
from elastream.placement.by_stage import by_stage
from elastream.placement.even_spread import attainable_tau
from elastream.placement.free_step.planner import free_step

_PROOF_EFFORT = 500_000
"""Effort for the proof of the last migration of a schedule."""
_ANY_COST = LookAhead(most_extra=1.0)
"""Known later migrations may justify any state moved now."""


_EFFORT = 300_000_000
"""Cells of the sequence planner: about five seconds on an ordinary core."""


@dataclass(frozen=True, slots=True)
class ScheduledPlanner:
    """Plans a migration together with the next ones of the schedule."""

    ahead: tuple[int, ...]
    """Sizes after the one that is planned."""
    tau: float
    gamma: float
    name: str = "free-ahead"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the first migration of the cheapest way through the schedule."""
        if not problem.plain:
            return by_stage(problem, self, contiguous=False)
        work = tuple(float(each) for each in problem.work)
        later = tuple(
            Target(nodes, attainable_tau(work, nodes, self.tau, contiguous=False))
            for nodes in self.ahead
        )
        found = scheduled_step(problem, later, self.gamma, effort=_EFFORT)
        return found if isinstance(found, Infeasible) else found.step

    def explain(self, plan: StepPlan) -> str:
        """Return the explanation for the log."""
        if not self.ahead:
            return "the last size of the schedule"
        sizes = pluralize(len(self.ahead), "size")
        return f"planned together with {sizes} to come; {plan.cost:g} bytes now"


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """The current migration, and the total that the schedule moves with it."""

    step: StepPlan
    total: float
    """State moved by all migrations of the schedule, discounted; by actual plans."""
    way: Literal["free", "ahead", "sequence"]
    """The planner: a free step, one with look-ahead, or a sequence of consecutive tasks."""


def scheduled_step(
    step: StepProblem, later: Sequence[Target], gamma: Number, *, effort: float
) -> ScheduledStep | Infeasible:
    """Return the first migration of the cheapest way through the schedule, or why there is none.

    ``later`` are the migrations after ``step``, ``gamma`` the weight of each of them relative to
    the previous one, and ``effort`` the limit for a sequence of consecutive tasks, in cells of its
    planner. A later target that is infeasible is left to its own planning.
    """
    now = free_step(step, effort=0 if later else _PROOF_EFFORT)
    if isinstance(now, Infeasible) or not later:
        return now if isinstance(now, Infeasible) else ScheduledStep(now, float(now.cost), "free")
    ways = [ScheduledStep(now, _total(step, now, later, gamma), "free")]
    future = Future(1.0, tuple(later))
    ahead = free_ahead(FreeAheadProblem.of_futures(step, [future], gamma), look=_ANY_COST)
    if not isinstance(ahead, Infeasible):
        total = _total(step, ahead.step, later, gamma)
        if ahead.status == "optimal":
            total = float(ahead.step.cost) + float(gamma) * ahead.projected
        ways.append(ScheduledStep(ahead.step, total, "ahead"))
        if ahead.status == "optimal":
            return ways[-1]
    consecutive = _sequence(step, later, gamma, effort)
    if consecutive is not None:
        ways.append(consecutive)
    return min(ways, key=lambda way: (way.total, way.step.cost))


def _total(step: StepProblem, first: StepPlan, later: Sequence[Target], gamma: Number) -> float:
    """Return what the schedule moves if free steps follow ``first``."""
    total, weight, current = float(first.cost), 1.0, first.assignment
    for target in later:
        weight *= float(gamma)
        plan = free_step(StepProblem(step.work, step.state, current, target), effort=0)
        if isinstance(plan, StepPlan):
            total += weight * float(plan.cost)
            current = plan.assignment
    return total


def _sequence(
    step: StepProblem, later: Sequence[Target], gamma: Number, effort: float
) -> ScheduledStep | None:
    """Return the first step of the best sequence of consecutive tasks, numbered node by node."""
    places = step.current.nodes_of_tasks
    order = list(range(len(places)))
    if step.current.intervals is None:
        order.sort(key=places.__getitem__)
    numbered = SequenceProblem(
        tuple(step.work[task] for task in order),
        tuple(step.state[task] for task in order),
        Assignment(tuple(places[task] for task in order), step.current.nodes),
        (step.target, *later),
        gamma,
    )
    plan = sequence(numbered, effort=effort)
    if isinstance(plan, Infeasible):
        return None
    first = step_plan(step, _unnumbered(order, plan.steps[0].assignment.nodes_of_tasks))
    saved_by_copies = plan.steps[0].cost - first.cost
    return ScheduledStep(first, float(plan.weighted_cost - saved_by_copies), "sequence")


def _unnumbered(order: Sequence[int], nodes: Sequence[int]) -> tuple[int, ...]:
    found = [0] * len(order)
    for task, node in zip(order, nodes, strict=True):
        found[task] = node
    return tuple(found)
