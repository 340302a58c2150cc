"""By hand: nothing changes unless somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from elastream.core.application import Observed
from elastream.core.goal import Goal, Question, Wanted


@dataclass(frozen=True, slots=True)
class ByHand(Goal):
    """Wants nothing; ``scale_to`` and ``move`` are carried out as under any goal."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        return "by hand"

    def wanted(self, memory: None, observed: Observed) -> tuple[None, Wanted, tuple[Question, ...]]:
        """Want nothing."""
        busy = self.utilisation(observed)
        alive = len(observed.executors)
        return memory, Wanted("hold", alive, "only what is asked for by hand", busy), ()
