"""MTM-aware planning (papers 000, section 4.2, and 001, section 5.2): cost now, and expected cost.

Model. Of all partitions P' that serve the new size, the plan takes the one of least ``c(current,
P') + gamma C(P')``: what moves now, plus what later migrations are expected to move, by values
computed beforehand (:mod:`~elastream.foresight.mtm.values`). If the current partition serves the
size, staying is optimal. Otherwise the members of the valued pool are compared and, unless that is
complete, the *targets* of the current partition, each valued by one step to the most visited
members. The optimum of single-step is among them.

Work and state may have drifted since: what fits and what moves comes from the current ones; only
the future uses the values, scaled by the growth of the total state. Copies are a tie rule: the
intervals of the chosen partition go to the nodes where they load least.
"""

from __future__ import annotations

import numpy as np

from elastream.foresight.mtm.ground import Ground
from elastream.foresight.mtm.growth import Finished, GrowthSettings
from elastream.foresight.mtm.neighbourhood import targets
from elastream.foresight.mtm.partitions import Partitions
from elastream.foresight.mtm.pricing import Pool, pair_costs, values_of
from elastream.foresight.mtm.problem import (
    Direction,
    ProjectionProblem,
    TransitionPlan,
    TransitionProblem,
    direction_of,
)
from elastream.foresight.mtm.values import (
    PartitionValues,
    partition_values,
)
from elastream.foresight.ssm.cuts import Cut, cut_of, nodes_of_cut
from elastream.foresight.ssm.interval_gain import Floats, Ints
from elastream.foresight.ssm.single_step import single_step
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.model.words import pluralize
from elastream.placement.by_stage import by_stage
from elastream.placement.state_ticks import sums_as_floats

_CORE = 256
"""Unseen partitions are valued by one step to this many of the most visited members."""
_MOST_TARGETS = 32
"""Number of cheapest targets that are valued."""
_TIE = 1e-12
"""Objectives closer than this share of all state count as equal; the lower maximum load wins."""


def transition(
    problem: TransitionProblem,
    *,
    settings: GrowthSettings | None = None,
    finished: Finished = lambda _number, _partitions: None,
) -> TransitionPlan | Infeasible:
    """Return the plan of least cost, now and expected; values are computed for it alone.

    ``finished`` is called after each round of growth, if there are too many partitions to list.
    """
    step, chain = problem.step, problem.chain
    greedy = single_step(step)
    if isinstance(greedy, Infeasible):
        return greedy
    states = chain.reachable(problem.state)
    projection = ProjectionProblem(step.work, step.state, step.target.tau, chain.restricted(states))
    start = (cut_of(step.current), states.index(problem.state))
    values = partition_values(projection, start=start, settings=settings, finished=finished)
    if isinstance(values, Infeasible):
        return values if chain.gamma else TransitionPlan("feasible", greedy, None, partitions=1)
    return TransitionPlanner(values).plan_to(step, start[1])


class TransitionPlanner:
    """Plans single migrations from values computed beforehand; a planner like any other."""

    name = "transition"
    contiguous = True

    def __init__(self, values: PartitionValues) -> None:
        problem = values.problem
        self._values = values
        self._ground = Ground.of(problem.work, problem.state, problem.tau, problem.chain)
        in_ticks = values.values / self._ground.tick_bytes
        self._pool = Pool.of(self._ground, values.members, in_ticks)
        self._core = self._pool.part(_core(self._pool))
        self._total_state = exact_sum(problem.state)

    def __call__(self, step: StepProblem) -> StepPlan | Infeasible:
        """Return the migration; single-step's where the values say nothing about it."""
        if not step.plain:
            return by_stage(step, self, contiguous=True)
        state = self._state(step, None)
        if state is None or self.why_single_step(step) is not None:
            return single_step(step)
        outcome = self.plan_to(step, state)
        return outcome if isinstance(outcome, Infeasible) else outcome.step

    def why_single_step(self, step: StepProblem) -> str | None:
        """Return why this migration is planned as a single step; ``None`` if it is not."""
        tasks, valued = len(step.work), len(self._values.problem.work)
        if tasks != valued:
            return f"has values for {pluralize(valued, 'task')}, not for {tasks}"
        if self._state(step, None) is None:
            return f"has no values for {pluralize(step.target.nodes, 'node')}"
        return None

    def plan(
        self, step: StepProblem, direction: Direction | None = None
    ) -> TransitionPlan | Infeasible:
        """Return the migration and what is expected to follow."""
        state = self._state(step, direction)
        if state is None:
            raise ProblemError("nodes", f"{step.target.nodes} is not among chain.sizes")
        return self.plan_to(step, state)

    def plan_to(self, step: StepProblem, state: int) -> TransitionPlan | Infeasible:
        """Return the migration to a given state of the chain."""
        problem = self._values.problem
        if len(step.work) != len(problem.work):
            why = f"has {len(step.work)} tasks where the values are for {len(problem.work)}"
            raise ProblemError("work", why)
        same = (step.work, step.state, step.target.tau) == (
            problem.work,
            problem.state,
            problem.tau,
        )
        complete = same and self._values.complete and not step.copies
        proven = complete and sums_as_floats(step.state)
        current = cut_of(step.current)
        chosen = self._chosen(step, state, current, members_only=complete)
        if chosen is None:
            return self._greedy(step)
        cut, value = chosen
        return TransitionPlan(
            status="optimal" if proven else "feasible",
            step=step_plan(step, nodes_of_cut(step, cut)),
            projected=value * self._growth(step),
            partitions=len(self._values.members),
        )

    def _greedy(self, step: StepProblem) -> TransitionPlan | Infeasible:
        """Return single-step's plan, or why there is none."""
        outcome = single_step(step)
        if isinstance(outcome, Infeasible):
            return outcome
        return TransitionPlan("feasible", outcome, None, len(self._values.members))

    def _state(self, step: StepProblem, direction: Direction | None) -> int | None:
        way = direction or direction_of(step)
        return self._values.problem.chain.state(step.target.nodes, way)

    def _growth(self, step: StepProblem) -> float:
        """Return the total state relative to that of the values."""
        return float(exact_sum(step.state) / self._total_state) if self._total_state else 1.0

    def _chosen(
        self, step: StepProblem, state: int, current: Cut, *, members_only: bool
    ) -> tuple[Cut, float] | None:
        """Return the best partition for the new size and its value in bytes."""
        chain = self._values.problem.chain
        now = Ground.of(step.work, step.state, step.target.tau, chain)
        size = int(now.size_of_state[state])
        here = Partitions.of_cuts([current], now)
        if here.serves(now)[size, 0]:
            return current, float(self._valued(here)[state, 0])
        members = self._values.members
        found = np.flatnonzero(members.serves(now)[size])
        candidates = members.taken(found)
        values = self._values.values[state, found]
        if not members_only:
            near = self._near(now, here, size)
            candidates = candidates.followed_by(near)
            values = np.concatenate([values, self._valued(near, self._core)[state]])
        if len(candidates) == 0:
            return None
        costs = _costs_from(now, here, candidates) * now.tick_bytes
        totals = costs + chain.gamma * self._growth(step) * values
        least = totals.min() + _TIE * now.total_state * now.tick_bytes
        ties = np.flatnonzero(totals <= least)
        best = ties[np.argmin(candidates.taken(ties).max_loads(now))]
        return candidates.cut(int(best)), float(values[best])

    def _near(self, now: Ground, here: Partitions, size: int) -> Partitions:
        """Return the cheapest of the targets."""
        cut = here.bounds[0, : here.counts[0] + 1]
        near = Partitions.of_rows(targets(now, cut, size=size), now.tasks)
        order = np.argsort(_costs_from(now, here, near), kind="stable")
        return near.taken(order[:_MOST_TARGETS])

    def _valued(self, partitions: Partitions, pool: Pool | None = None) -> Floats:
        """Return values in bytes: those known, else by one step to the pool."""
        known = self._values.members.places(partitions) if len(partitions) == 1 else None
        if known is not None and known[0] >= 0:
            return self._values.values[:, known]
        return values_of(self._ground, partitions, pool or self._pool) * self._ground.tick_bytes


def _core(pool: Pool) -> Ints:
    """Return the places of the most visited members, and of one at least that serves each state."""
    serving = np.argmax(np.isfinite(pool.later), axis=1)
    return np.union1d(np.arange(min(_CORE, len(pool.members))), serving)


def _costs_from(ground: Ground, here: Partitions, others: Partitions) -> Floats:
    """Return the cost of going to each, in ticks."""
    costs = np.empty((1, len(others)))
    sums = others.state_sums(ground)
    run = pair_costs.for_operations(5.0 * sums.size)
    run(here.state_sums(ground), here.counts, sums, others.counts, costs)
    return costs.ravel()
