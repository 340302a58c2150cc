"""Every planner of a single migration by its name, so that studies and tests run them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from elastream.model.checks import shown
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.planners.free_step.planner import free_step
from elastream.planners.single_step import single_step
from elastream_lab.rivals.consistent_hashing import consistent_hashing
from elastream_lab.rivals.even_split import even_split
from elastream_lab.rivals.names import RIVALS
from elastream_lab.rivals.redist import redist

__all__ = ["STEP_PLANNERS", "Rival", "rival"]

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


@dataclass(frozen=True, slots=True)
class Rival:
    """A baseline as a planner that the live loop takes, for comparison."""

    name: str
    contiguous: bool = False
    """None of them needs consecutive tasks to start from."""

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the baseline's plan."""
        return STEP_PLANNERS[self.name](problem)


def rival(name: str) -> Rival:
    """Return the baseline of that name."""
    if name not in RIVALS:
        raise ProblemError("planner", f"{shown(name)} is no baseline; use {', '.join(RIVALS)}")
    return Rival(name)
