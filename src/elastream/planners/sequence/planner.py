"""OMS: the least state moved over several migrations that are all known beforehand.

Papers 000 (section 4.1) and 001 (section 5.1): after migration ``i`` at most ``n_i`` nodes hold
consecutive tasks of work at most ``(1 + tau_i) W / n_i`` each, and the state moved in all
migrations together is least. The papers try every cut of the tasks for every migration but the
last: exact, and out of reach beyond toy sizes. Here:

1. Only cuts matter, not which node holds which interval (lemma 4.1), and what lies between two
   cuts is a metric (:mod:`~elastream.planners.partition_cost`). So staying put is best wherever
   the next migration allows it, and a migration that allows all that its neighbour allows can be
   left out: it stays with, or already goes to, the neighbour's cut.
2. Chaining :func:`~elastream.planners.single_step.single_step` gives a first sequence; the least
   cost of getting from the current cut to migration ``i`` directly bounds the total from below.
3. What is left is swept task by task for all migrations at once
   (:mod:`~elastream.planners.sequence.sweep`), guided by bounds from pairs of migrations
   (:mod:`~elastream.planners.sequence.prices`). See :mod:`~elastream.planners.sequence.search`.

State is counted in whole ticks, at least 2**40 in all, rounded down where sizes need more: an
optimum is proven up to that rounding, and a lower bound is never above the true one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from elastream.model.assignment import Assignment
from elastream.model.checks import Number, amount
from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE, SequenceProblem, StepProblem, exact_sum
from elastream.model.plan import Infeasible, SequencePlan, StepPlan, step_plan
from elastream.planners.partition_cost import cheapest_matching
from elastream.planners.sequence.intervals import IntervalGraph, fixed_cut, graph_within
from elastream.planners.sequence.prices import Chain
from elastream.planners.sequence.search import search
from elastream.planners.single_step import single_step
from elastream.planners.state_ticks import Ticks

__all__ = ["sequence"]

Cut = tuple[int, ...]


def sequence(problem: SequenceProblem, *, seconds: float = 60.0) -> SequencePlan | Infeasible:
    """Return the plan that moves the least state in all migrations together.

    ``seconds`` bounds the effort, not the time: it is turned into a number of steps at a fixed
    rate (``CELLS_PER_SECOND`` of :mod:`~elastream.planners.sequence.search`), so that equal
    problems have equal plans on any machine. Where the effort does not suffice the plan is
    ``feasible`` and its lower bound is proven.
    """
    seconds = amount("seconds", seconds)
    direct: list[StepPlan] = []
    for number, target in enumerate(problem.targets):
        step = single_step(StepProblem(problem.work, problem.state, problem.current, target))
        if isinstance(step, Infeasible):
            return Infeasible(f"targets[{number}]: {step.reason}")
        direct.append(step)
    least = max(step.cost for step in direct)
    current, _ = _cut(problem.current)
    graphs = _graphs(problem)
    needed = _needed_steps(graphs, current)
    plan = _plan(problem, _stretched(graphs, current, needed, _greedy(problem, needed)), least)
    if plan.status == "optimal":
        return plan
    chain, ticks = _chain(problem, current, [graphs[step] for step in needed])
    found = search(chain, [_cut(plan.steps[step].assignment)[0] for step in needed], seconds)
    most_kept = found.bound // chain.unit * chain.unit
    least_ticks = int(chain.state[-1]) * len(needed) - most_kept
    cuts = _stretched(graphs, current, needed, found.cuts)
    proven = most_kept <= found.kept
    return _plan(problem, cuts, None if proven else max(least, ticks.bytes_of(least_ticks)))


def _cut(assignment: Assignment) -> tuple[Cut, list[int]]:
    """Return the bounds of the intervals in the order of the tasks, and the node of each."""
    intervals = assignment.intervals
    if intervals is None:
        raise ProblemError("current", "a node holds tasks that are not consecutive")
    held = sorted((lb, ub, node) for node, (lb, ub) in enumerate(intervals) if lb < ub)
    return (0, *(ub for _, ub, _ in held)), [node for _, _, node in held]


def _graphs(problem: SequenceProblem) -> list[IntervalGraph]:
    """Return what each migration allows."""
    work = np.zeros(len(problem.work) + 1)
    work[1:] = np.cumsum(np.array(problem.work, dtype=np.float64), dtype=np.longdouble)
    total = exact_sum(problem.work)
    return [
        graph_within(work, target.limit(total) * (1 + LOAD_TOLERANCE), target.nodes)
        for target in problem.targets
    ]


def _needed_steps(graphs: Sequence[IntervalGraph], current: Cut) -> list[int]:
    """Return the migrations that matter: the others can stay put, or do as their neighbour does."""
    needed: list[int] = []
    for step, graph in enumerate(graphs):
        if graph.includes(graphs[needed[-1]]) if needed else graph.allows(current):
            continue
        while needed and graphs[needed[-1]].includes(graph):
            needed.pop()
        needed.append(step)
    return needed


def _greedy(problem: SequenceProblem, steps: Sequence[int]) -> list[Cut]:
    """Return the cuts after these migrations if each moves the least for itself."""
    cuts, current = [], problem.current
    for step in steps:
        plan = single_step(StepProblem(problem.work, problem.state, current, problem.targets[step]))
        assert isinstance(plan, StepPlan)  # noqa: S101 - what fits does not depend on ``current``
        current = plan.assignment
        cuts.append(_cut(current)[0])
    return cuts


def _stretched(
    graphs: Sequence[IntervalGraph], current: Cut, needed: Sequence[int], cuts: Sequence[Cut]
) -> list[Cut]:
    """Return a cut for every migration: stay put where that is allowed, else go to the next one.

    By the triangle inequality this moves no more in all than ``cuts`` alone.
    """
    stretched: list[Cut] = []
    upcoming = iter(zip(needed, cuts, strict=True))
    goal_step, goal = -1, current
    for step, graph in enumerate(graphs):
        while goal_step < step and (after := next(upcoming, None)) is not None:
            goal_step, goal = after
        current = current if graph.allows(current) else goal
        stretched.append(current)
    return stretched


def _chain(
    problem: SequenceProblem, current: Cut, graphs: Sequence[IntervalGraph]
) -> tuple[Chain, Ticks]:
    """Return the problem in ticks, few enough that no sum of values and prices overflows."""
    tasks, steps = len(problem.state).bit_length(), len(graphs).bit_length()
    ticks = Ticks.of(problem.state, bits=min(50, 57 - tasks, 60 - tasks - steps))
    state = np.array([0, *accumulate(ticks.sizes)], dtype=np.int64)
    return Chain(state, current, (fixed_cut(current), *graphs), math.gcd(*ticks.sizes) or 1), ticks


def _plan(
    problem: SequenceProblem, cuts: Sequence[Cut], lower_bound: Number | None
) -> SequencePlan:
    """Give every interval a node, so that in each step the least state moves.

    Without a ``lower_bound`` the cuts are proven best.
    """
    steps: list[StepPlan] = []
    current = problem.current
    for target, cut in zip(problem.targets, cuts, strict=True):
        step = StepProblem(problem.work, problem.state, current, target)
        steps.append(step_plan(step, _placed(step, cut)))
        current = steps[-1].assignment
    cost = exact_sum(move.state for step in steps for move in step.moves)
    bound = cost if lower_bound is None else min(lower_bound, cost)
    return SequencePlan("optimal" if bound == cost else "feasible", cost, tuple(steps), bound)


def _placed(step: StepProblem, cut: Cut) -> tuple[int, ...]:
    """Return the node of each task: that which its interval continues, or a spare one."""
    current, nodes = _cut(step.current)
    matching = cheapest_matching(step.state, current, cut)
    staying = {nodes[old] for old in matching.continues if old is not None}
    spare = (node for node in range(step.nodes_after) if node not in staying)
    return tuple(
        node
        for (lb, ub), old in zip(pairwise(cut), matching.continues, strict=True)
        for node in [next(spare) if old is None else nodes[old]] * (ub - lb)
    )
