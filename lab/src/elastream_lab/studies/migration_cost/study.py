"""What the study of migration costs compares: two months of one load, and every planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from elastream.foresight.ssm.single_step import single_step
from elastream.model.errors import ProblemError
from elastream.model.plan import StepPlanner
from elastream.placement.free_step.planner import free_step
from elastream_lab.rivals.even_split import even_split
from elastream_lab.rivals.redist import redist
from elastream_lab.studies.migration_cost.load import Load
from elastream_lab.studies.migration_cost.run import (
    Run,
    by_fewest_nodes,
    by_most_nodes,
    run_through,
)

TAU: Final = 0.4
"""Where the papers vary something else they take 1.2; but above n_max / n_min - 1 one partition
serves every size, and nothing is left to compare."""
GAMMA: Final = 0.8
"""The papers' default."""

AWARE: Final = "MTM-aware"
DIRECTED: Final = "MTM-aware, directed"
EVEN: Final = "even split"
FREE: Final = "free-step"
FREE_AHEAD: Final = "free-ahead"
HASHED: Final = "consistent hashing"
BOUNDED: Final = "consistent hashing, bounded"
FLATTEST: Final = "single-step, flattest"
SINGLE_STEPS: Final[Mapping[str, StepPlanner]] = {
    FLATTEST: single_step,
    "single-step, fewest nodes": by_fewest_nodes,
    "single-step, most nodes": by_most_nodes,
}
"""Single-step by how it breaks ties."""
OTHERS: Final[Mapping[str, StepPlanner]] = {
    FREE: partial(free_step, effort=0),
    "redist": redist,
    EVEN: even_split,
}


@dataclass(frozen=True, slots=True, eq=False)
class CostStudy:
    """What is learnt from, what is judged, and how much of it."""

    train: Load
    judged: Load
    migrations: int = 100
    seeds: int = 100
    """Rings of consistent hashing."""
    tasks: int = 64

    def check(self) -> None:
        """Refuse months that do not fit together."""
        for load in (self.train, self.judged):
            load.folded(self.tasks)
        if self.train.sizes != self.judged.sizes:
            raise ProblemError("train", "has another range of nodes than `trace`")
        if self.train.name != self.judged.name:
            why = f"holds the {self.train.name} where `trace` holds the {self.judged.name}"
            raise ProblemError("train", why)
        if len(self.judged.migrations(2)) < 2:
            raise ProblemError("trace", "has fewer than two migrations")

    @property
    def data(self) -> str:
        """What is computed on what."""
        made = len(self.judged.migrations(self.migrations))
        sizes = self.judged.sizes
        learnt = "" if self.train is self.judged else f" after {self.train.source}"
        return (
            f"{self.judged.name} of {self.judged.source}{learnt}, {made} migrations, {sizes[0]} to "
            f"{sizes[-1]} nodes"
        )

    def run(self, planner: StepPlanner, tau: float, *, tasks: int) -> Run:
        """Return what a planner moves in the judged month."""
        load = self.judged.folded(tasks)
        return run_through(load.migrations(self.migrations), load.nodes[0], planner, tau)
