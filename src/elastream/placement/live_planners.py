"""The planners of a running application that need no forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan

_PROOF_EFFORT = 500_000
"""A query that needs more executors should not wait long for the proof that a plan is optimal."""


@dataclass(frozen=True, slots=True)
class _FreeStep:
    name: str = "free-step"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        from elastream.placement.free_step.planner import free_step  # imports NumPy

        return free_step(problem, effort=_PROOF_EFFORT)


FREE_STEP: Final = _FreeStep()
"""An executor may hold any tasks."""
