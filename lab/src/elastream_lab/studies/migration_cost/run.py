"""Runs planners through the same consecutive migrations, each from where its last one ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.neighbourhood import targets
from elastream.foresight.mtm.problem import MigrationChain
from elastream.foresight.ssm.cuts import cut_of, nodes_of_cut
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, StepPlanner, step_plan
from elastream.placement.even_spread import even_bounds
from elastream_lab.studies.migration_cost.load import Migration


@dataclass(frozen=True, slots=True)
class Run:
    """What a planner did over all migrations."""

    state_moved_percent: float
    """Mean over the migrations, of all state."""
    plan_ms: float
    """Median time a plan."""
    imbalance: float
    """Mean over the migrations of the threshold that the heaviest node needs."""
    over_limit_percent: float
    """Plans above the load limit, of all; baselines know none."""

    @classmethod
    def of(
        cls,
        shares: Sequence[float],
        plan_s: float,
        imbalances: Sequence[float],
        over: Sequence[bool],
    ) -> Run:
        """Return the figures of a run: shares of state, a time, and how the nodes were loaded."""
        moved, above = (100 * float(np.mean(figures)) for figures in (shares, over))
        return cls(moved, 1000 * plan_s, float(np.mean(imbalances)), above)


def run_through(
    migrations: Sequence[Migration], first_nodes: int, planner: StepPlanner, tau: float
) -> Run:
    """Return what the planner moves; it starts from the most even intervals."""
    import numba  # noqa: F401 - kernels are compiled from now on, as in a process that stays

    bounds = even_bounds(migrations[0].work, first_nodes)
    current = Assignment.from_intervals(list(pairwise(bounds)), tasks=len(migrations[0].work))
    shares, times, imbalances, over = [], [], [], []
    for migration in migrations:
        step = StepProblem.of(
            migration.work, migration.state, current, migration.nodes, migration.tau(tau)
        )
        start = time.perf_counter()
        plan = planner(step)
        times.append(time.perf_counter() - start)
        if isinstance(plan, Infeasible):
            raise AssertionError(plan.reason)
        shares.append(float(plan.cost) / max(sum(migration.state), 1))
        imbalances.append(migration.imbalance(float(plan.max_load)))
        over.append(plan.status == "unbalanced")
        current = plan.assignment
    return Run.of(shares, median(times), imbalances, over)


def by_fewest_nodes(step: StepProblem) -> StepPlan | Infeasible:
    """Return a plan of single-step's cost; of those one that uses the fewest nodes."""
    return _tied(step, prefer_few=True)


def by_most_nodes(step: StepProblem) -> StepPlan | Infeasible:
    """Return a plan of single-step's cost; of those one that uses the most nodes."""
    return _tied(step, prefer_few=False)


def _tied(step: StepProblem, *, prefer_few: bool) -> StepPlan | Infeasible:
    alone = MigrationChain((step.target.nodes,), ((1.0,),), 0.0)
    ground = Ground.of(step.work, step.state, step.target.tau, alone)
    here = cut_of(step.current)
    rows = targets(ground, np.array(here, dtype=np.int64)).tolist()
    if not rows:
        return single_step(step)
    plans = [
        step_plan(step, nodes_of_cut(step, tuple(sorted(set(row)))), optimal=True) for row in rows
    ]
    least = min(plan.cost for plan in plans)
    sign = 1 if prefer_few else -1
    ties = [plan for plan in plans if plan.cost == least]
    return min(ties, key=lambda plan: sign * len(set(plan.assignment.nodes_of_tasks)))
