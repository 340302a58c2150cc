"""Runs planners through the same consecutive migrations, each from where its last one ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from elastream.control.balance import even_bounds
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.model.transition import MigrationChain
from elastream.planners.catalog import StepPlanner
from elastream.planners.rivals.consistent_hashing import ring_assignment
from elastream.planners.single_step import single_step
from elastream.planners.transition.ground import Ground
from elastream.planners.transition.neighbourhood import targets
from elastream.planners.transition.placing import current_cut, placed
from elastream.studies.migration_cost_load import Migration

__all__ = ["Run", "by_fewest_nodes", "by_most_nodes", "hashed", "run_through"]


@dataclass(frozen=True, slots=True)
class Run:
    """What a planner did over all migrations."""

    state_moved_percent: float
    """Mean over the migrations, of all state."""
    plan_ms: float
    """Median time a plan."""
    over_limit: int
    """Plans above the load limit; baselines know none."""


def run_through(
    migrations: Sequence[Migration], first_nodes: int, planner: StepPlanner, tau: float
) -> Run:
    """Return what the planner moves; it starts from the most even intervals."""
    bounds = even_bounds(migrations[0].work, first_nodes)
    current = Assignment.from_intervals(list(pairwise(bounds)), tasks=len(migrations[0].work))
    shares, times, over = [], [], 0
    for migration in migrations:
        step = StepProblem.of(
            migration.work,
            migration.state,
            current,
            migration.nodes,
            max(tau, migration.least_tau),
        )
        start = time.perf_counter()
        plan = planner(step)
        times.append(time.perf_counter() - start)
        if isinstance(plan, Infeasible):
            raise AssertionError(plan.reason)
        shares.append(plan.cost / max(sum(migration.state), 1))
        over += plan.status == "unbalanced"
        current = plan.assignment
    return Run(100 * float(np.mean(shares)), 1000 * median(times), over)


def hashed(migrations: Sequence[Migration], first_nodes: int, seeds: range) -> Run:
    """Return what consistent hashing moves, the mean over its rings."""
    tasks = len(migrations[0].work)
    path = [first_nodes, *(migration.nodes for migration in migrations)]
    states = [np.array(migration.state) for migration in migrations]
    shares, times = [], []
    for seed in seeds:
        rings = {}
        for nodes in set(path):
            start = time.perf_counter()
            ring = ring_assignment(tasks, nodes, seed)
            times.append(time.perf_counter() - start)
            rings[nodes] = np.array(ring.nodes_of_tasks)
        for (before, after), state in zip(pairwise(path), states, strict=True):
            moved = state[rings[before] != rings[after]].sum()
            shares.append(moved / max(int(state.sum()), 1))
    return Run(100 * float(np.mean(shares)), 1000 * median(times), 0)


def by_fewest_nodes(step: StepProblem) -> StepPlan | Infeasible:
    """Return a plan of single-step's cost; of those one that uses the fewest nodes."""
    return _tied(step, prefer_few=True)


def by_most_nodes(step: StepProblem) -> StepPlan | Infeasible:
    """Return a plan of single-step's cost; of those one that uses the most nodes."""
    return _tied(step, prefer_few=False)


def _tied(step: StepProblem, *, prefer_few: bool) -> StepPlan | Infeasible:
    alone = MigrationChain((step.target.nodes,), ((1.0,),), 0.0)
    ground = Ground.of(step.work, step.state, step.target.tau, alone)
    here = current_cut(step)
    rows = targets(ground, np.array(here, dtype=np.int64)).tolist()
    if not rows:
        return single_step(step)
    plans = [step_plan(step, placed(step, tuple(sorted(set(row)))), optimal=True) for row in rows]
    least = min(plan.cost for plan in plans)
    sign = 1 if prefer_few else -1
    ties = [plan for plan in plans if plan.cost == least]
    return min(ties, key=lambda plan: sign * len(set(plan.assignment.nodes_of_tasks)))
