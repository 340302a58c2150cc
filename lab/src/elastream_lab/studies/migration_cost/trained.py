"""What a month teaches: the chain of its migrations, and planners that know it by heart.

Papers 000 (sections 4.2 and 6) and 001 (5.2 and 6): the transition matrix comes from the month
before the one that is measured. So do the work and the state that partitions are valued for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from elastream.foresight.ahead.planner import FreeAheadPlanner
from elastream.foresight.ahead.problem import PastWork
from elastream.foresight.chain import ChainSettings, migration_chain
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import ProjectionProblem
from elastream.foresight.mtm.values import partition_values
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible
from elastream.placement.even_spread import even_max_load
from elastream_lab.studies.migration_cost.load import Load

FREE_GAMMA: Final = 0.95
"""What is counted is a mean over a month, so what comes late counts nearly as much; values of
partitions keep the papers' discount, which serves them as well."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Aware:
    """An MTM-aware planner and what its values took."""

    planner: TransitionPlanner
    precompute_s: float
    partitions: int
    """How many are valued."""


class Trained:
    """MTM-aware planners from one month, each made once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._made: dict[tuple[float, float, bool, int], Aware] = {}

    def aware(self, tau: float, gamma: float, *, directed: bool, tasks: int) -> Aware:
        """Return the planner for a threshold, a discount and a number of tasks."""
        wanted = (tau, gamma, directed, tasks)
        if wanted not in self._made:
            self._made[wanted] = self._aware(*wanted)
        return self._made[wanted]

    def free_ahead(self, *, tasks: int) -> FreeAheadPlanner:
        """Return the planner of free placements that knows the month's chain and its work."""
        load = self._load.folded(tasks)
        settings = ChainSettings(gamma=FREE_GAMMA, directed=True)
        chain = migration_chain(load.nodes, settings, sizes=load.sizes)
        past = [PastWork(each.nodes, each.work) for each in load.migrations(len(load.nodes))]
        return FreeAheadPlanner(chain, past)

    def _aware(self, tau: float, gamma: float, directed: bool, tasks: int) -> Aware:
        load = self._load.folded(tasks)
        settings = ChainSettings(gamma=gamma, directed=directed)
        chain = migration_chain(load.nodes, settings, sizes=load.sizes)
        work = load.work.sum(axis=0).tolist()
        within_reach = max(tau, _least_tau(work, load.sizes))
        problem = ProjectionProblem.of(work, load.usual_state.tolist(), within_reach, chain)
        start = time.perf_counter()
        values = partition_values(problem)
        if isinstance(values, Infeasible):
            raise ProblemError("train", f"tau {tau:g}: {values.reason}")
        seconds = time.perf_counter() - start
        return Aware(TransitionPlanner(values), seconds, len(values.members))


def _least_tau(work: list[int], sizes: range) -> float:
    """Return the threshold below which some size cannot be served at all."""
    heaviest = (n * even_max_load(work, n, contiguous=True) for n in sizes)
    return (max(heaviest) / sum(work) - 1) * (1 + _ROUNDING) + _ROUNDING
