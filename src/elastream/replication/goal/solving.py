"""Solve the replication problem. Pure, but takes seconds.

If the bounds cannot be met, the queries still run and should run as well as possible. Then the
problem is solved again for the least response time at any price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from elastream.model.plan import Infeasible
from elastream.replication.goal.newcomers import prefer_live_executors
from elastream.replication.model.plan import Evaluation, ReplicationPlan
from elastream.replication.model.problem import Bounds, ReplicationProblem, Weights

_WIDE: Final = 1000.0
"""Factor by which the bounds are widened in that case."""
_FASTEST: Final = Weights(_WIDE, 0.01, 0)
"""Response time first, relative to its own bound; among equally fast deployments the cheapest."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan and its context."""

    plan: ReplicationPlan | Infeasible
    stay: Evaluation
    """Evaluation of the current deployment."""
    unmet: str | None = None
    """Why the bounds cannot be met; ``None`` if they are met."""


@dataclass(frozen=True)
class Solve:
    """A problem to solve on a worker thread."""

    problem: ReplicationProblem
    effort: float
    """Number of values that the solver may compute for a proof."""

    def __call__(self) -> Solved:
        """Return the best deployment."""
        from elastream.replication.planner.evaluation import evaluate
        from elastream.replication.planner.exact import replication

        problem = self.problem
        stay = evaluate(problem, problem.current or {})
        plan = replication(problem, effort=self.effort)
        unmet = None
        if isinstance(plan, Infeasible):
            unmet = plan.reason
            problem = _as_fast_as_can_be(problem)
            plan = replication(problem, effort=self.effort)
        if isinstance(plan, ReplicationPlan):
            plan = prefer_live_executors(problem, plan, self.effort)
        return Solved(plan, stay, unmet)


def _as_fast_as_can_be(problem: ReplicationProblem) -> ReplicationProblem:
    bounds = problem.bounds
    wide = Bounds(_WIDE * bounds.response_ms, bounds.cost, _WIDE * bounds.downtime_ms)
    return replace(problem, bounds=wide, weights=_FASTEST)
