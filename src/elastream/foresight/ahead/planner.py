"""Free placement with look-ahead: the least state moved now and later, on any nodes.

MTM-aware planning (papers 000, section 4.2, and 001, section 5.2) without consecutive tasks: the
placement of least ``c(current, P) + gamma C(P)``, c the state moved and C what later migrations are
expected to move. Staying is optimal whenever it serves the new size, because c is a metric. Few
placements are all valued (:mod:`~elastream.foresight.ahead.listing`): ``optimal``.

Otherwise candidates (:mod:`~elastream.foresight.ahead.candidates`) and the free step's plan are
simulated by lazy steps through futures, drawn from the chain or given. The best has the largest
gain over the free step's plan, minus a standard error of that gain if futures are drawn. In these
futures it is never worse than free-step, and now it moves at most ``most_extra`` of all state more:
the stated bound. Futures use the work of past migrations, if given, so that plans tolerate drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elastream.foresight.ahead.candidates import Candidate, Candidates
from elastream.foresight.ahead.futures import Ahead, LookAhead, ahead_of, possible_targets
from elastream.foresight.ahead.listing import listed, nodes_of_groups
from elastream.foresight.ahead.problem import FreeAheadPlan, FreeAheadProblem, PastWork
from elastream.foresight.mtm.problem import MigrationChain, direction_of
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.by_stage import by_stage
from elastream.placement.free_step.planner import free_step
from elastream.placement.state_ticks import sums_as_floats

_EFFORT = 0.0
"""The free step is one of many candidates: it need not be proven."""
_BEST = 6
"""Number of best placements near which others are tried."""
_SURE = 1.0
"""Number of standard errors subtracted from a gain over drawn futures. Without this, a month with
little to gain moved more than by free steps."""
_ROUNDING = 1e-12


def free_ahead(
    problem: FreeAheadProblem, *, look: LookAhead | None = None
) -> FreeAheadPlan | Infeasible:
    """Return the plan of least cost, now and expected, or why there is none."""
    look = look or LookAhead()
    step = problem.step
    free = free_step(step, effort=_EFFORT)
    if isinstance(free, Infeasible):
        return free
    most = float(free.cost) + look.most_extra * float(exact_sum(step.state))
    every = listed(problem)
    if every is not None:
        nodes = nodes_of_groups(step, every.groups[every.best])
        plan = step_plan(step, nodes, lower_bound=free.lower_bound)
        later = float(every.later[every.best]) / problem.gamma if problem.gamma else 0.0
        return FreeAheadPlan(
            "optimal" if sums_as_floats(step.state) else "feasible",
            plan,
            later,
            0.0,
            free.cost,
            float(plan.cost),
            len(every.now),
        )
    look = look.within_reach(len(step.work), len(problem.futures))
    ahead = ahead_of(problem, look)
    stay = _stay(step)
    if stay is not None:
        return _plan_of(problem, ahead, stay, free, most, 1)
    trials = _Trials(problem, ahead, most)
    if free.status != "unbalanced":
        trials.add_free(np.array(free.assignment.nodes_of_tasks))
    made = Candidates(step, possible_targets(problem), look.seed)
    trials.add_all(made.first(look.candidates))
    for _ in range(look.rounds):
        trials.add_all(made.near(trials.best_candidates(), look.near))
    if not trials.count:
        return _plan_of(problem, ahead, free, free, most, 1)
    place = tuple(trials.best.tolist())
    best = step_plan(step, place, lower_bound=free.lower_bound)
    return _plan_of(problem, ahead, best, free, most, trials.count)


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """A placement that was simulated through the futures."""

    place: Ints
    value: float
    """Its cost now and later, plus the uncertainty of its gain."""
    found: Candidate | None = None


class _Trials:
    """Placements simulated through the futures, with their costs now and later."""

    def __init__(self, problem: FreeAheadProblem, ahead: Ahead, most: float) -> None:
        step = problem.step
        self._ahead, self._gamma, self._most = ahead, problem.gamma, most * (1 + _ROUNDING)
        self._here = np.array(step.current.nodes_of_tasks)
        self._state = np.array(step.state, dtype=np.float64)
        self._copies = np.array(sorted(step.copies), dtype=np.int64).reshape(-1, 2)
        self._free: Floats | None = None
        self._tried: list[_Tried] = []

    def add_free(self, place: Ints) -> None:
        """Value the free step's placement, the baseline of the others."""
        self._free = self._costs(place, self._now(place))
        self._tried.append(_Tried(place, float(self._ahead.odds @ self._free)))

    def add_all(self, candidates: Sequence[Candidate]) -> None:
        """Value the placements of candidates, except those that move too much now."""
        for candidate in candidates:
            now = self._now(candidate.place)
            if now <= self._most:
                costs = self._costs(candidate.place, now)
                value = float(self._ahead.odds @ costs) + self._unsure(costs)
                self._tried.append(_Tried(candidate.place, value, candidate))

    @property
    def count(self) -> int:
        """Number of valued placements."""
        return len(self._tried)

    @property
    def best(self) -> Ints:
        """The placement of least value; of equal ones the first."""
        return min(self._tried, key=lambda each: each.value).place

    def best_candidates(self) -> list[Candidate]:
        """Return the best placements that are candidates."""
        rising = sorted(self._tried, key=lambda each: each.value)
        return [each.found for each in rising if each.found is not None][:_BEST]

    def _now(self, place: Ints) -> float:
        """Return the state that a placement moves."""
        tasks, nodes = self._copies.T
        at_hand = float(self._state[tasks[place[tasks] == nodes]].sum())
        return float(self._state[place != self._here].sum()) - at_hand

    def _costs(self, place: Ints, now: float) -> Floats:
        """Return what a placement moves now and later, by each future."""
        return now + self._gamma * self._ahead.costs(self._state, place, self._gamma)

    def _unsure(self, costs: Floats) -> float:
        """Return the uncertainty of a gain over the free step's placement."""
        if self._free is None or not self._ahead.drawn or len(costs) < 2:
            return 0.0
        gains = self._free - costs
        return _SURE * float(gains.std(ddof=1)) / math.sqrt(len(costs))


class FreeAheadPlanner:
    """Plans single migrations by a chain of sizes, on any nodes; a planner like any other."""

    name = "free-ahead"
    contiguous = False

    def __init__(
        self,
        chain: MigrationChain,
        past: Sequence[PastWork] = (),
        look: LookAhead | None = None,
    ) -> None:
        self._chain = chain
        self._past = tuple(past)
        self._look = look or LookAhead()

    def __call__(self, step: StepProblem) -> StepPlan | Infeasible:
        """Return the migration; to a size unknown to the chain it is a free step."""
        if not step.plain:
            return by_stage(step, self, contiguous=False)
        if self._chain.state(step.target.nodes, direction_of(step)) is None:
            return free_step(step, effort=_EFFORT)
        stay = _stay(step)
        if stay is not None:
            return stay
        past = [each for each in self._past if len(each.work) == len(step.work)]
        outcome = free_ahead(
            FreeAheadProblem.of_chain(step, self._chain, past=past), look=self._look
        )
        return outcome if isinstance(outcome, Infeasible) else outcome.step


def _stay(step: StepProblem) -> StepPlan | None:
    """Return the plan that moves nothing, if that serves the target."""
    current = step.current
    used = len(set(current.nodes_of_tasks))
    heaviest = max(current.loads(step.work))
    if used > step.target.nodes or heaviest > step.limit * (1 + LOAD_TOLERANCE):
        return None
    return step_plan(step, current.nodes_of_tasks, optimal=True)


def _costs(problem: FreeAheadProblem, ahead: Ahead, plan: StepPlan) -> Floats:
    state = np.array(problem.step.state, dtype=np.float64)
    return ahead.costs(state, np.array(plan.assignment.nodes_of_tasks), problem.gamma)


def _plan_of(
    problem: FreeAheadProblem, ahead: Ahead, plan: StepPlan, free: StepPlan, most: float, tried: int
) -> FreeAheadPlan:
    costs = _costs(problem, ahead, plan)
    error = 0.0
    if ahead.drawn and len(costs) > 1:
        error = float(costs.std(ddof=1)) / len(costs) ** 0.5
    return FreeAheadPlan("feasible", plan, float(ahead.odds @ costs), error, free.cost, most, tried)
