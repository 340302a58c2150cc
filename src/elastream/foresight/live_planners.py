"""The planners of a running application that learn from its past changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elastream.core.goal import MadePlanner
from elastream.core.learning import LearningPlanner, Learnt, Lesson

if TYPE_CHECKING:
    from elastream.core.ports import Ticket


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


FREE_AHEAD: Final = _Learning("free-ahead", contiguous=False, until_learnt="free-step")
"""An executor may hold any tasks, chosen with later changes in view."""
TRANSITION: Final = _Learning("transition", contiguous=True, until_learnt="single-step")
"""Every executor holds consecutive tasks, by the values of partitions (MTM)."""
