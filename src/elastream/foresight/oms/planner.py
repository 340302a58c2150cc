"""OMS: the least state moved over several migrations that are all known beforehand.

Papers 000 (section 4.1) and 001 (section 5.1): after migration ``i`` at most ``n_i`` nodes hold
consecutive tasks of work at most ``(1 + tau_i) W / n_i`` each. Minimal is the sum of ``gamma ** i``
times the state moved (section 4.2). The papers try every cut for every migration but the last.

1. Only cuts matter (lemma 4.1), and the cost between two cuts is a metric, so some migrations can
   be left out (:mod:`~elastream.foresight.oms.reduction`).
2. Single steps, chained, give a first sequence; the least cost of getting to each migration
   directly gives a bound (:mod:`~elastream.foresight.oms.weights`).
3. The rest is swept for all migrations at once, guided by bounds from pairs of migrations
   (:mod:`~elastream.foresight.oms.search`).

Problems with several stages, unequal slots or memory: :mod:`~elastream.foresight.oms.staged`.

State is counted in whole ticks (:mod:`~elastream.foresight.oms.chain`). A migration with a weight
below 2**-40 of the first one needed is a single step: an optimum is proven up to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from elastream.foresight.oms.chain import chain_of
from elastream.foresight.oms.intervals import IntervalGraph, graph_within
from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.foresight.oms.reduction import needed_steps, stretch
from elastream.foresight.oms.search import search
from elastream.foresight.oms.staged import staged_sequence
from elastream.foresight.oms.weights import StepWeights
from elastream.foresight.ssm.cuts import Cut, cut_of, nodes_of_cut, prefix_sums
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.checks import non_negative
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.state_ticks import is_proven

EFFORT = 3_600_000_000
"""Default effort in cells: about a minute on an ordinary core."""


def sequence(problem: SequenceProblem, *, effort: float = EFFORT) -> SequencePlan | Infeasible:
    """Return the plan of least weighted cost: of all state moved, if gamma is 1.

    ``effort`` is counted in cells (:mod:`~elastream.foresight.oms.search`), so that equal problems
    have equal plans on any machine. If it does not suffice, the plan is ``feasible`` and its lower
    bound is proven.
    """
    effort = non_negative("effort", effort)
    if not problem.plain:
        return staged_sequence(problem)
    direct: list[StepPlan] = []
    for number, target in enumerate(problem.targets):
        step = single_step(StepProblem(problem.work, problem.state, problem.current, target))
        if isinstance(step, Infeasible):
            return Infeasible(f"targets[{number}]: {step.reason}")
        direct.append(step)
    weights = StepWeights.of(problem)
    least = weights.least(direct)
    current = cut_of(problem.current)
    graphs = _graphs(problem)
    needed = needed_steps(graphs, current, falling=weights.falling)
    greedy = _greedy(problem, problem.current, needed)
    plan = _plan(problem, weights, stretch(graphs, current, needed, greedy), least)
    if plan.status == "optimal":  # always so where the first needed migration counts nothing
        return plan
    searched = weights.searched(needed)
    chain = chain_of(
        problem.state,
        current,
        [graphs[step] for step in searched],
        [weights.of_steps[step] for step in searched],
    )
    found = search(chain, [cut_of(plan.steps[step].assignment) for step in searched], effort)
    most_kept = found.bound // chain.unit * chain.unit
    proven = chain.exact and most_kept <= found.kept
    bound = None if proven else max(least, chain.tick * (chain.total - most_kept))
    reached = stretch(graphs[: searched[-1] + 1], current, searched, found.cuts)[-1]
    rest = _greedy(problem, _assignment(reached), needed[len(searched) :])
    return _plan(problem, weights, stretch(graphs, current, needed, [*found.cuts, *rest]), bound)


def _assignment(cut: Cut) -> Assignment:
    """Return an assignment with this cut; which node holds which interval does not matter."""
    return Assignment.from_intervals(list(pairwise(cut)), tasks=cut[-1])


def _graphs(problem: SequenceProblem) -> list[IntervalGraph]:
    """Return what each migration allows."""
    work = prefix_sums(problem.work)
    total = exact_sum(problem.work)
    return [
        graph_within(work, target.limit(total) * (1 + LOAD_TOLERANCE), target.nodes)
        for target in problem.targets
    ]


def _greedy(problem: SequenceProblem, current: Assignment, steps: Sequence[int]) -> list[Cut]:
    """Return the cuts after these migrations if each moves the least for itself."""
    cuts = []
    for step in steps:
        plan = single_step(StepProblem(problem.work, problem.state, current, problem.targets[step]))
        assert isinstance(plan, StepPlan)  # noqa: S101 - what fits does not depend on ``current``
        current = plan.assignment
        cuts.append(cut_of(current))
    return cuts


def _plan(
    problem: SequenceProblem, weights: StepWeights, cuts: Sequence[Cut], least: Fraction | None
) -> SequencePlan:
    """Give every interval a node, so that in each step the least state moves.

    ``least`` is a bound on the weighted cost; without one the cuts are proven best.
    """
    steps: list[StepPlan] = []
    current = problem.current
    for target, cut in zip(problem.targets, cuts, strict=True):
        step = StepProblem(problem.work, problem.state, current, target)
        steps.append(step_plan(step, nodes_of_cut(step, cut)))
        current = steps[-1].assignment
    cost = exact_sum(move.state for step in steps for move in step.moves)
    exact = weights.cost(steps)
    weighted = weights.rounded(exact) if weights.falling else cost
    if least is None or is_proven(exact, least, whole=weights.whole):
        return SequencePlan("optimal", cost, tuple(steps), weighted, weighted)
    return SequencePlan("feasible", cost, tuple(steps), weights.rounded_down(least), weighted)
