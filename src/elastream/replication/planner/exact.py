"""The optimal replication plan, with proof (EDRP; rEDRP if the problem is restricted).

Paper 004, sections 5 and 7.2. The paper gives CPLEX an integer program with a variable for every
pair of configurations of neighbouring operators: O(E n^2k) of them, ten minutes for 24 nodes and k
= 2. Here a relaxation to single replicas rules out configurations one by one, O(n^k) values per
operator, and the few that are left are searched; see ``minimise``.

The figures of the plan come from ``evaluation``, which shares nothing with the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from elastream.model.checks import non_negative
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.replication.model.plan import ReplicationPlan
from elastream.replication.model.problem import Deployment, ReplicationProblem
from elastream.replication.planner.configurations import Ints
from elastream.replication.planner.elimination import Effort
from elastream.replication.planner.evaluation import evaluate
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

    ``effort`` is counted in values (see ``Effort``). When it is spent, the best deployment is
    returned with a proven lower bound. If none was found and not all were ruled out, a
    ``ProblemError`` asks for more effort.
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
    return Infeasible(_why_infeasible(problem, solve))


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
    number = {node.name: u for u, node in enumerate(problem.nodes)}
    in_order = {
        operator.name: tuple(sorted(problem.current[operator.name], key=number.__getitem__))
        for operator in problem.operators
    }
    return plan_of(problem, in_order, plan.lower_bound)


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


def _why_infeasible(problem: ReplicationProblem, solve: Callable[[Objective], Minimum]) -> str:
    """Return one sentence that names the bound or capacity that cannot be met.

    The problem is solved again without its bounds, for each metric alone. If there is no deployment
    even then, the nodes are too small. If the minimum of a metric is above its bound, that bound
    cannot be met. Otherwise the bounds exclude each other.
    """
    bounds = problem.bounds
    response = Objective(1 / bounds.response_ms, 0.0, 0.0)
    fastest = solve(response)
    if fastest.best is None and np.isinf(fastest.lower_bound):
        total = sum(node.resources for node in problem.nodes)
        slots = sum(node.slots for node in problem.nodes)
        have = f"{total:g} resources in all"
        if any(operator.busy for operator in problem.operators):
            have += f", and {slots:g} slots"
        return (
            "the operators do not fit on the nodes they may run on, each with as few replicas as "
            f"it can bear: the nodes have {have}"
        )
    if fastest.lower_bound > 1:
        return _above("response_ms", fastest, bounds.response_ms, "responds faster than", "ms")
    cheapest = solve(Objective(0.0, 1 / bounds.cost, 0.0))
    if cheapest.lower_bound > 1:
        return _above("cost", cheapest, bounds.cost, "costs less than", "an hour")
    within = solve(replace(response, cost_limit=float(bounds.cost)))
    if within.best is not None or np.isfinite(within.lower_bound):
        return (
            f"the bounds response_ms {bounds.response_ms:g} and cost {bounds.cost:g} cannot be met "
            f"together: within that cost no deployment responds faster than "
            f"{within.lower_bound * bounds.response_ms:.6g} ms"
        )
    return "the bounds response_ms and cost cannot be met together"


def _above(field: str, least: Minimum, bound: float, what: str, unit: str) -> str:
    return (
        f"the bound {field} is {bound:g}, and no deployment that fits the nodes {what} "
        f"{least.lower_bound * bound:.6g} {unit}"
    )
