"""The planners of the study by name, each for a migration of which the ones to come may be known.

All are given the same threshold, widened alike where consecutive tasks cannot be spread so evenly.
Each goes on from where its own last plan ended, and begins where it would have put the tasks: the
ring of consistent hashing, the even split, for the others the most even intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from elastream.core.routes import interval_placement
from elastream.foresight.mtm.growth import GrowthSettings
from elastream.foresight.mtm.planner import TransitionPlanner
from elastream.foresight.mtm.problem import MigrationChain, ProjectionProblem
from elastream.foresight.mtm.values import partition_values
from elastream.foresight.oms.planner import sequence
from elastream.foresight.oms.problem import SequenceProblem
from elastream.model.assignment import Assignment
from elastream.model.errors import ElastreamError
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, StepPlanner
from elastream.placement.even_spread import attainable_tau
from elastream_lab.rivals.catalog import STEP_PLANNERS
from elastream_lab.rivals.consistent_hashing import consistent_hashing

HASHED: Final = "consistent-hashing"
EVEN: Final = "even-split"
_TRANSITION: Final = "transition"
_SEQUENCE: Final = "sequence"
PLANNERS: Final = (
    "single-step",
    _TRANSITION,
    "free-step",
    _SEQUENCE,
    HASHED,
    EVEN,
    "redist",
)
"""Ours first, then the papers' rivals."""
_AHEAD: Final = 3
"""This many migrations to come are planned with the one that is due, where they are known."""
_SEQUENCE_EFFORT: Final = 30_000_000
_POOL: Final = GrowthSettings(pool=800, parents=60, rounds=5)
"""A smaller pool than the planner's own: a study makes several."""
_FREE_EFFORT: Final = 500_000
"""As much as the loop takes for a proof."""


@dataclass(frozen=True, slots=True)
class Planning:
    """One planner through consecutive migrations."""

    name: str
    tau: float
    seed: int = 0
    """Of the ring."""
    aware: TransitionPlanner | None = None
    """Who has the values, where the planner needs them."""

    def start(self, problem: StepProblem) -> StepPlan:
        """Return where this planner has the tasks before the first migration."""
        if self.name == HASHED:
            return consistent_hashing(problem, seed=self.seed)
        if self.name == EVEN:
            return _found(STEP_PLANNERS[EVEN](problem))
        return interval_placement(problem)

    def plan(self, problem: StepProblem, ahead: Sequence[int]) -> StepPlan:
        """Return the migration; ``ahead`` are the sizes that follow."""
        return _found(self._planner(ahead)(problem))

    def _planner(self, ahead: Sequence[int]) -> StepPlanner:
        if self.name == _SEQUENCE:
            return partial(_first_of_sequence, ahead=tuple(ahead)[:_AHEAD], tau=self.tau)
        if self.name == _TRANSITION:
            if self.aware is None:
                raise ElastreamError("transition has no values")
            return self.aware
        if self.name == HASHED:
            return partial(consistent_hashing, seed=self.seed)
        if self.name == "free-step":
            from elastream.placement.free_step.planner import free_step

            return partial(free_step, effort=_FREE_EFFORT)
        return STEP_PLANNERS[self.name]


def step_problem(
    work: Sequence[float], state: Sequence[int], nodes_of: Sequence[int], most: int, to: Target
) -> StepProblem:
    """Return the migration of tasks that are on some of ``most`` nodes."""
    weighed = tuple(round(amount, 12) for amount in work)
    if sum(weighed) <= 0:
        weighed = (1.0,) * len(weighed)
    tau = attainable_tau(weighed, to.nodes, float(to.tau), contiguous=True)
    current = Assignment(tuple(nodes_of), most)
    return StepProblem(weighed, tuple(state), current, Target(to.nodes, tau))


def aware_planner(
    work: Sequence[float], state: Sequence[int], tau: float, chain: MigrationChain
) -> TransitionPlanner:
    """Return the MTM-aware planner of these tasks: values are computed here."""
    weighed = tuple(round(amount, 12) for amount in work)
    within_reach = max(
        attainable_tau(weighed, size, tau, contiguous=True) * (1 + 1e-9) for size in chain.sizes
    )
    problem = ProjectionProblem.of(weighed, list(state), within_reach, chain)
    values = partition_values(problem, settings=_POOL)
    if isinstance(values, Infeasible):
        raise ElastreamError(f"no values: {values.reason}")
    return TransitionPlanner(values)


def _first_of_sequence(
    problem: StepProblem, *, ahead: tuple[int, ...], tau: float
) -> StepPlan | Infeasible:
    weighed = tuple(float(amount) for amount in problem.work)
    later = tuple(
        Target(nodes, attainable_tau(weighed, nodes, tau, contiguous=True)) for nodes in ahead
    )
    whole = SequenceProblem(
        problem.work, problem.state, problem.current, (problem.target, *later), gamma=1.0
    )
    plan = sequence(whole, effort=_SEQUENCE_EFFORT)
    return plan if isinstance(plan, Infeasible) else plan.steps[0]


def _found(plan: StepPlan | Infeasible) -> StepPlan:
    if isinstance(plan, Infeasible):
        raise ElastreamError(f"no plan: {plan.reason}")
    return plan
