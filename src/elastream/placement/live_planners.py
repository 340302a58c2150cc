"""The planners of a running application that need no forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan


@dataclass(frozen=True, slots=True)
class _FreeStep:
    name: str = "free-step"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        from elastream.placement.free_step.planner import (  # imports NumPy
            QUICK_EFFORT,
            free_step,
        )

        return free_step(problem, effort=QUICK_EFFORT)


FREE_STEP: Final = _FreeStep()
"""An executor may hold any tasks."""
