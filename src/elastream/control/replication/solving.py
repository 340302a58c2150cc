"""Plan: the replication problem solved, and its answer as a placement of tasks. Pure.

Where the bounds cannot be met, the query still runs, and should run as well as it can: then the
problem is solved again for the least response time, whatever it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from elastream.control.observation import TaskId
from elastream.control.policy import PlannerName
from elastream.control.replication.graph import OperatorLoad, operator_name
from elastream.control.replication.sharing import shared
from elastream.model.plan import Infeasible
from elastream.model.replication.plan import Evaluation, ReplicationPlan
from elastream.model.replication.problem import Bounds, ReplicationProblem, Weights
from elastream.planners.replication.evaluation import evaluate
from elastream.planners.replication.exact import replication

__all__ = ["ReplicationOrder", "Solved", "solved"]

_WIDE: Final = 1000.0
"""How many times as wide the bounds are then."""
_FASTEST: Final = Weights(_WIDE, 0.01, 0)
"""Response time above all, by its own bound; of equally fast deployments the cheapest."""


@dataclass(frozen=True, slots=True)
class ReplicationOrder:
    """All that a plan depends on."""

    problem: ReplicationProblem
    loads: tuple[OperatorLoad, ...]
    planner: PlannerName
    tau: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Solved:
    """A plan and what it means."""

    plan: ReplicationPlan | Infeasible
    goal: Mapping[TaskId, str]
    """The executor of every task that moves."""
    stay: Evaluation
    """What the current deployment is worth."""
    unmet: str | None = None
    """Why the bounds cannot be met; ``None`` where they are."""


def solved(order: ReplicationOrder) -> Solved:
    """Return the best deployment, and which tasks it moves."""
    problem = order.problem
    stay = evaluate(problem, problem.current or {})
    plan = replication(problem, seconds=order.seconds)
    unmet = None
    if isinstance(plan, Infeasible):
        unmet = plan.reason
        plan = replication(_as_fast_as_can_be(problem), seconds=order.seconds)
    if isinstance(plan, Infeasible):
        return Solved(plan, {}, stay, unmet)
    goal: dict[TaskId, str] = {}
    for load in order.loads:
        replicas = plan.deployment[operator_name(load.operator)]
        if set(replicas) != set(load.replicas):
            placed = shared(load.tasks, replicas, planner=order.planner, tau=order.tau)
            goal |= {t: node for t, node in placed.items() if load.tasks[t].executor != node}
    return Solved(plan, goal, stay, unmet)


def _as_fast_as_can_be(problem: ReplicationProblem) -> ReplicationProblem:
    bounds = problem.bounds
    wide = Bounds(_WIDE * bounds.response_ms, bounds.cost, _WIDE * bounds.downtime_ms)
    return replace(problem, bounds=wide, weights=_FASTEST)
