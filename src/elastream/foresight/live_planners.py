"""The planners of a running application that give every executor consecutive tasks, or learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.core.goal import MadePlanner
from elastream.core.learning import LearningPlanner, Learnt, Lesson
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan

if TYPE_CHECKING:
    from elastream.core.ports import Ticket


@dataclass(frozen=True, slots=True)
class _SingleStep:
    name: str = "single-step"
    contiguous: bool = True

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        from elastream.foresight.ssm.single_step import single_step  # imports NumPy

        return single_step(problem)


@dataclass(frozen=True, slots=True)
class _Learning(LearningPlanner):
    name: str
    contiguous: bool
    until_learnt: str

    def learn(self, lesson: Lesson, folder: Path | None, *, ticket: Ticket) -> Learnt:
        from elastream.foresight.learner import learn  # imports NumPy

        return learn(lesson, folder, ticket=ticket)

    def for_sizes(self, sizes: Sequence[int], tau: float, gamma: float) -> MadePlanner | None:
        if self.contiguous:
            return None
        from elastream.foresight.ahead.by_schedule import ScheduledPlanner  # imports NumPy

        return ScheduledPlanner(tuple(sizes), tau, gamma)


SINGLE_STEP: Final = _SingleStep()
"""Every executor holds consecutive tasks (SSM)."""
FREE_AHEAD: Final = _Learning("free-ahead", contiguous=False, until_learnt="free-step")
"""An executor may hold any tasks, chosen with later changes in view."""
TRANSITION: Final = _Learning("transition", contiguous=True, until_learnt="single-step")
"""Every executor holds consecutive tasks, by the values of partitions (MTM)."""
