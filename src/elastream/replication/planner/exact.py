"""The optimal replication plan, with proof (EDRP; rEDRP if the problem is restricted).

Paper 004, sections 5 and 7.2. The paper gives CPLEX an integer program with a variable for every
pair of configurations of neighbouring operators: O(E n^2k) of them, ten minutes for 24 nodes and k
= 2. Here a relaxation to single replicas rules out configurations one by one, O(n^k) values per
operator, and the few that are left are searched; see ``minimise``.

The figures of the plan come from ``evaluation``, which shares nothing with the search.
"""

from __future__ import annotations

import numpy as np

from elastream.model.checks import non_negative
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import Deployment, ReplicationProblem
from elastream.replication.planner.configurations import Ints
from elastream.replication.planner.effort import Effort
from elastream.replication.planner.evaluation import evaluate
from elastream.replication.planner.infeasibility import reason_of
from elastream.replication.planner.instance import Instance, Objective, instance_of
from elastream.replication.planner.minimise import Minimum, minimise
from elastream.replication.planner.search import LEAST_GAIN, ValuedDeployment
from elastream.replication.planner.symmetry import (
    consecutive_members,
    interchangeable,
    without_mirror_images,
)

EFFORT = 9e9
"""Default effort in values: about a minute on an ordinary core."""


def replication(
    problem: ReplicationProblem, *, effort: float = EFFORT
) -> ReplicationPlan | Infeasible:
    """Return the deployment with the least objective, or why there is none.

    ``effort`` is counted in values (:mod:`~elastream.replication.planner.effort`). When it is
    spent, the best deployment so far is returned with a proven lower bound. If none was found by
    then and not all were ruled out, a ``ProblemError`` asks for more effort.
    """
    remaining = Effort(non_negative("effort", effort))
    instance = instance_of(problem)
    if isinstance(instance, Infeasible):
        return instance
    alike = interchangeable(problem)
    instance = without_mirror_images(instance, alike)
    in_order = consecutive_members(alike)
    start = _current_rows(problem, instance)

    def solve(goal: Objective) -> Minimum:
        return minimise(instance, goal, effort=remaining, in_order=in_order, start=start)

    least = solve(objective_of(problem))
    if least.best is not None:
        deployment = deployment_of(problem, instance, least.best)
        return _or_stay(problem, plan_of(problem, deployment, least.lower_bound))
    if np.isfinite(least.lower_bound):
        raise ProblemError("effort", "more is needed to find a deployment or to rule all out")
    return Infeasible(reason_of(problem, solve))


def _current_rows(problem: ReplicationProblem, instance: Instance) -> list[Ints] | None:
    """Return the row of each operator's current configuration; None if one is ruled out."""
    if problem.current is None:
        return None
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    rows = []
    for name, domain in zip(instance.names, instance.domains, strict=True):
        places = [number[node] for node in problem.current[name]]
        count = np.bincount(places, minlength=len(number))
        rows.append(np.flatnonzero((domain.count == count).all(axis=1)))
    return rows if all(len(row) for row in rows) else None


def _or_stay(problem: ReplicationProblem, plan: ReplicationPlan) -> ReplicationPlan:
    """Return the plan, or the current deployment if it is as good: a tie moves nothing."""
    if problem.current is None:
        return plan
    stay = evaluate(problem, problem.current)
    if stay.faults or stay.objective is None or stay.objective > plan.objective + LEAST_GAIN:
        return plan
    return plan_of(problem, _in_order(problem, problem.current), plan.lower_bound)


def _in_order(problem: ReplicationProblem, deployment: Deployment) -> Deployment:
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    return {
        operator.name: tuple(sorted(deployment[operator.name], key=number.__getitem__))
        for operator in problem.operators
    }


def objective_of(problem: ReplicationProblem) -> Objective:
    """Return equation 12 with the bounds as limits."""
    weights, bounds = problem.scaled_weights, problem.bounds
    return Objective(
        weights.response / bounds.response_ms,
        weights.cost / bounds.cost,
        weights.downtime / bounds.downtime_ms,
        float(bounds.response_ms),
        float(bounds.cost),
    )


def deployment_of(
    problem: ReplicationProblem, instance: Instance, valued: ValuedDeployment
) -> Deployment:
    """Return the deployment by names, operators and nodes in the problem's order."""
    places = dict(zip(instance.names, valued.places, strict=True))
    return {
        operator.name: tuple(problem.nodes[node].name for node in places[operator.name])
        for operator in problem.operators
    }


def plan_of(
    problem: ReplicationProblem, deployment: Deployment, lower_bound: float
) -> ReplicationPlan:
    """Return the plan for a deployment, with the metrics of the evaluation."""
    evaluation = evaluate(problem, deployment)
    if evaluation.faults or evaluation.objective is None or evaluation.response_ms is None:
        raise RuntimeError(f"a planned deployment is not allowed: {', '.join(evaluation.faults)}")
    proven = evaluation.objective - lower_bound <= 1e-9 * max(1.0, evaluation.objective)
    return ReplicationPlan(
        "optimal" if proven else "feasible",
        evaluation.objective,
        deployment,
        evaluation.response_ms,
        evaluation.cost,
        evaluation.downtime_ms,
        evaluation.objective if proven else max(0.0, lower_bound),
    )
