"""Executors that might come, as nodes of a plan: beside those that are alive, not instead of them.

To the solver a newcomer is a node like any other. In truth nobody knows yet what it will be. Taken
to be of mean speed it would be better than half of the executors that are alive, and they would
take turns for the noise of what was measured. So one is wanted in the place of a living executor
only where the bounds cannot be met otherwise.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from elastream.replication.goal.problem import SOURCE, is_newcomer
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import Deployment, ReplicationProblem

__all__ = ["beside_living", "executors_for"]

_AS_GOOD: Final = 1e-9


def executors_for(deployment: Deployment, alive: int) -> int:
    """Return how many executors it takes to carry the deployment out.

    Newcomers come beside those that are alive; what these do not hold is given back later.
    """
    used = _used(deployment)
    come = sum(map(is_newcomer, used))
    return alive + come if come else len(used)


def beside_living(
    problem: ReplicationProblem, plan: ReplicationPlan, effort: float
) -> ReplicationPlan:
    """Return the best deployment at hand in which no newcomer stands for a living executor.

    That is the plan itself where it does without, or where nothing else keeps the bounds. Its lower
    bound stays.
    """
    from elastream.replication.planner.exact import plan_of, replication

    living = {each.name for each in problem.nodes if not is_newcomer(each.name)} - {SOURCE}
    used = _used(plan.deployment)
    idle = living - used
    if not idle or used <= living:
        return plan
    swapped = _with_idle(problem, plan, idle)
    if swapped is not None and swapped.objective <= plan.objective + _AS_GOOD:
        return swapped
    alone = replication(_for_living(problem), effort=effort)
    found = [each for each in (swapped, alone) if isinstance(each, ReplicationPlan)]
    best = min(found, key=lambda each: each.objective, default=plan)
    return plan_of(problem, best.deployment, plan.lower_bound)


def _used(deployment: Deployment) -> frozenset[str]:
    return frozenset(node for nodes in deployment.values() for node in nodes) - {SOURCE}


def _with_idle(
    problem: ReplicationProblem, plan: ReplicationPlan, idle: Set[str]
) -> ReplicationPlan | None:
    """Return the plan with idle executors for newcomers, as many as there are of both.

    One newcomer after the other gives way to the executor that is the best in its place; ``None``
    where none can be.
    """
    from elastream.replication.planner.evaluation import evaluate
    from elastream.replication.planner.exact import plan_of

    left = sorted(idle)
    for newcomer in sorted(filter(is_newcomer, _used(plan.deployment)))[: len(left)]:
        swaps = {name: _renamed(plan.deployment, newcomer, name) for name in left}
        allowed = [name for name in left if not evaluate(problem, swaps[name]).faults]
        if not allowed:
            return None
        plans = {name: plan_of(problem, swaps[name], plan.lower_bound) for name in allowed}
        best = min(allowed, key=lambda name: plans[name].objective)
        plan = plans[best]
        left.remove(best)
    return plan


def _renamed(deployment: Deployment, old: str, new: str) -> Deployment:
    return {
        operator: tuple(new if node == old else node for node in nodes)
        for operator, nodes in deployment.items()
    }


def _for_living(problem: ReplicationProblem) -> ReplicationProblem:
    """Return the problem without newcomers."""
    operators = (
        replace(
            operator,
            nodes=tuple(n for n in problem.allowed_nodes(operator) if not is_newcomer(n)),
        )
        for operator in problem.operators
    )
    return replace(problem, operators=tuple(operators))
