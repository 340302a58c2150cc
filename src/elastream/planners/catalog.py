"""Every planner of a single migration by its name, so that studies and tests run them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.planners.free_step.planner import free_step
from elastream.planners.rivals.consistent_hashing import consistent_hashing
from elastream.planners.rivals.even_split import even_split
from elastream.planners.rivals.redist import redist
from elastream.planners.single_step import single_step

__all__ = ["STEP_PLANNERS", "StepPlanner"]

StepPlanner = Callable[[StepProblem], StepPlan | Infeasible]
"""A plan for one migration, or why there is none; settings have defaults."""

STEP_PLANNERS: Mapping[str, StepPlanner] = MappingProxyType(
    {
        "single-step": single_step,
        "free-step": free_step,
        "even-split": even_split,
        "consistent-hashing": consistent_hashing,
        "redist": redist,
    }
)
"""The planners first, then the baselines, which may exceed the load limit."""
