"""A plan's projected cost by every reading of the papers, for comparison.

The *policy's value* is what a query that learns each size only when it comes can reach: plans are
made by it. The *hindsight* is definition 4.1 of paper 000 (5.3 of 001). Figure 6 adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.partitions import (
    Partitions,
    all_partitions,
    count_partitions,
)
from elastream.foresight.mtm.problem import ProjectionProblem, TransitionPlan, TransitionProblem
from elastream.foresight.ssm.cuts import cut_of
from elastream.model.plan import Infeasible
from elastream_lab.studies.projected_cost.figure_six import FigureSix, figure_six
from elastream_lab.studies.projected_cost.hindsight import Hindsight, Sampling, hindsight

_MOST_SUMMED = 4000
"""Figure 6's sum is over all pairs: of this many partitions they take 128 MB."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The cost of the migrations after a plan, by each reading, in bytes."""

    policy: float | None
    """The value of the policy: ``projected`` of the plan."""
    hindsight: Hindsight
    """The definition, from the plan's partition on."""
    least_total: Hindsight
    """The same with the migration at hand: no plan moves less now and, discounted, later."""
    total: float | None
    """What the plan moves now and, discounted, later, by the policy's value."""
    figure_six: FigureSix | None
    """Figure 6's sum; ``None`` where there are too many partitions to list."""

    @property
    def gap(self) -> float | None:
        """What the policy's value is above the hindsight: what it would be worth to know."""
        return None if self.policy is None else self.policy - self.hindsight.mean

    @property
    def total_gap(self) -> float | None:
        """The most that a better plan, or a better pool, could save now and later; a statistic."""
        return None if self.total is None else self.total - self.least_total.mean


def readings(
    problem: TransitionProblem,
    plan: TransitionPlan,
    sampling: Sampling | None = None,
    planned: Callable[[], None] = lambda: None,
) -> Readings | Infeasible:
    """Return every reading of what follows ``plan``; the same sequences serve both estimates.

    ``planned`` is called after each sequence that is planned by itself: twice for each at most.
    """
    step, chain = problem.step, problem.chain
    states = chain.reachable(problem.state)
    projection = ProjectionProblem(step.work, step.state, step.target.tau, chain.restricted(states))
    state = states.index(problem.state)
    after = hindsight(projection, plan.step.assignment, state, sampling=sampling, planned=planned)
    if isinstance(after, Infeasible):
        return after
    whole = hindsight(
        projection, step.current, state, with_first=True, sampling=sampling, planned=planned
    )
    if isinstance(whole, Infeasible):
        return whole
    total = None
    if plan.projected is not None:
        total = float(plan.step.cost) + chain.gamma * plan.projected
    return Readings(plan.projected, after, whole, total, _summed(projection, plan, state))


def _summed(problem: ProjectionProblem, plan: TransitionPlan, state: int) -> FigureSix | None:
    ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
    if count_partitions(ground) > _MOST_SUMMED:
        return None
    members = all_partitions(ground)
    here = Partitions.of_cuts([cut_of(plan.step.assignment)], ground)
    return figure_six(ground, members, int(members.places(here)[0]), state)
