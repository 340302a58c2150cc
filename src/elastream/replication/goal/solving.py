"""Solve the replication problem. Pure, but takes seconds.

A change must leave room below the slots, so that noise alone does not call for the next one; the
current deployment may use them all. If the bounds cannot be met, the queries still run and should
run as well as possible: first batches need not keep their trigger; then the problem is solved for
the least response time, if there are too few slots with as few more as it takes. Rules other than
bounds always hold.

Executors that could be added (newcomers) are nodes of the plan. To the solver they are like any
other, but their real speed is not known yet. At the mean speed a newcomer would look better than
half of the live executors, and measurement noise would make the two swap endlessly. So a newcomer
replaces a live executor only if the bounds cannot be met otherwise.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Final

from elastream.model.plan import Infeasible
from elastream.replication.goal.problem import SOURCE, is_newcomer
from elastream.replication.model.plan import Evaluation, ReplicationPlan
from elastream.replication.model.problem import Bounds, Deployment, ReplicationProblem, Weights

_AS_GOOD: Final = 1e-9
_HEADROOM: Final = 0.9
"""Share of the slots that a new deployment may use."""
_ROOM: Final = tuple(1.5**times for times in range(12))
"""Factors by which slots are made more where there are too few: up to 86."""
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
    broken: tuple[str, ...] = ()
    """Rules other than bounds that the current deployment breaks."""
    unmet: str | None = None
    """Why the bounds cannot be met; ``None`` if they are met."""


@dataclass(frozen=True)
class Solve:
    """A problem to solve on a worker thread."""

    problem: ReplicationProblem
    effort: float
    """Number of values that the solver may compute for a proof."""
    repairs: tuple[str, ...] = ()
    """Rules that replicas break which ``problem.current`` takes for moved already."""

    def __call__(self) -> Solved:
        """Return the best deployment."""
        from elastream.replication.planner.evaluation import evaluate, placement_faults
        from elastream.replication.planner.exact import plan_of  # imports NumPy

        current = self.problem.current or {}
        stay = evaluate(self.problem, current)
        broken = self.repairs + tuple(placement_faults(self.problem, current))
        plan = self._solved(_with_room(self.problem, _HEADROOM))
        if not stay.faults and stay.objective is not None:
            if isinstance(plan, Infeasible):
                plan = plan_of(self.problem, current, 0.0)
            elif stay.objective <= plan.objective + _AS_GOOD:
                plan = plan_of(self.problem, current, min(plan.lower_bound, stay.objective))
            return Solved(plan, stay, broken)
        stable = _with_stable_batches(self.problem)
        unmet = None
        for problem in (self.problem, stable):
            if isinstance(plan, Infeasible):
                plan = self._solved(problem)
                unmet = plan.reason if isinstance(plan, Infeasible) else None
        if isinstance(plan, Infeasible):
            plan = self._solved(self._attainable(stable))
        return Solved(plan, stay, broken, unmet)

    def _solved(self, problem: ReplicationProblem) -> ReplicationPlan | Infeasible:
        from elastream.replication.planner.exact import replication

        plan = replication(problem, effort=self.effort)
        if isinstance(plan, Infeasible):
            return plan
        return prefer_live_executors(problem, plan, self.effort)

    def _attainable(self, problem: ReplicationProblem) -> ReplicationProblem:
        """Return the problem with wide bounds, and as little more room as it takes."""
        bounds = self.problem.bounds
        cost = _WIDE * bounds.cost if self.repairs else bounds.cost
        wide = Bounds(_WIDE * bounds.response_ms, cost, _WIDE * bounds.downtime_ms)
        problem = replace(problem, bounds=wide, weights=_FASTEST)

        def fits(times: float) -> bool:
            return not isinstance(self._solved(_with_room(problem, times)), Infeasible)

        if not fits(_ROOM[-1]):
            return problem
        return _with_room(problem, _ROOM[bisect_left(_ROOM, 1, hi=len(_ROOM) - 1, key=fits)])


def _with_room(problem: ReplicationProblem, share: float) -> ReplicationProblem:
    return replace(
        problem,
        nodes=tuple(replace(node, slots=node.slots * share) for node in problem.nodes),
        batches=tuple(replace(each, most=each.most * share) for each in problem.batches),
    )


def _with_stable_batches(problem: ReplicationProblem) -> ReplicationProblem:
    """Return the problem in which batches need not keep their trigger, but must not grow."""
    batches = tuple(replace(each, most=max(each.most, 1)) for each in problem.batches)
    return replace(problem, batches=batches)


def executors_for(deployment: Deployment, alive: int) -> int:
    """Return the number of executors needed to carry out the deployment.

    Newcomers are added to live executors; executors that end up without replicas are released
    later.
    """
    used = _used(deployment)
    newcomers = sum(map(is_newcomer, used))
    return alive + newcomers if newcomers else len(used)


def prefer_live_executors(
    problem: ReplicationProblem, plan: ReplicationPlan, effort: float
) -> ReplicationPlan:
    """Return the best available deployment in which no newcomer replaces a live executor.

    That is the plan itself if it has no such newcomer, or if nothing else meets the bounds. The
    plan keeps its lower bound.
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
    candidates = [each for each in (swapped, alone) if isinstance(each, ReplicationPlan)]
    best = min(candidates, key=lambda each: each.objective, default=plan)
    return plan_of(problem, best.deployment, plan.lower_bound)


def _used(deployment: Deployment) -> frozenset[str]:
    return frozenset(node for nodes in deployment.values() for node in nodes) - {SOURCE}


def _with_idle(
    problem: ReplicationProblem, plan: ReplicationPlan, idle: Set[str]
) -> ReplicationPlan | None:
    """Return the plan with idle executors in the place of newcomers, as many as possible.

    Newcomers are replaced one at a time, each by the executor that is best in its place. Returns
    ``None`` if none can be replaced.
    """
    from elastream.replication.planner.evaluation import evaluate
    from elastream.replication.planner.exact import plan_of

    unused = sorted(idle)
    for newcomer in sorted(filter(is_newcomer, _used(plan.deployment)))[: len(unused)]:
        swaps = {name: _renamed(plan.deployment, newcomer, name) for name in unused}
        allowed = [name for name in unused if not evaluate(problem, swaps[name]).faults]
        if not allowed:
            return None
        plans = {name: plan_of(problem, swaps[name], plan.lower_bound) for name in allowed}
        best = min(allowed, key=lambda name: plans[name].objective)
        plan = plans[best]
        unused.remove(best)
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
