"""SSM: the least state moved in one migration, every node holding consecutive tasks.

Papers 000 (section 3) and 001 (section 4), definition 3.2: at most ``n'`` intervals of work at most
``(1 + tau) W / n'`` and their nodes, so that the state of the tasks that change node is least.
Exact, by :mod:`~elastream.foresight.ssm.interval_gain`; of equal plans the one with the lowest
maximum load. Departures: idle nodes are allowed at every step of the recurrence (lemma 3.4 allows
them, table 1 does not), and loads are compared with
:data:`~elastream.model.migration.LOAD_TOLERANCE`.

Copies are a tie rule: with them, matched pairs can no longer be taken in the order of the tasks.
Intervals are chosen without copies, and as if copied tasks had no state; each go to the nodes where
they load the least, and the cheaper plan is taken. The second choice gives a lower bound.

Of a problem with several stages each is planned by itself
(:mod:`~elastream.placement.by_stage`): the papers' limit per operator.

State is counted in ticks (:mod:`~elastream.placement.state_ticks`): exact below 2⁵⁷ bytes in all.
If sizes had to be rounded, those above the cost of a plan are cut to it, which leaves more digits
for the smaller ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate

import numpy as np

from elastream.foresight.ssm.cuts import intervals_of, nearest_copies, prefix_sums
from elastream.foresight.ssm.interval_gain import Held, least_moved
from elastream.model.assignment import Interval
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.by_stage import by_stage
from elastream.placement.state_ticks import Ticks, plan_with_bound

_TICK_BITS = 58
"""Sums of ticks stay below two to this power: far from the program's value for impossible."""
_REFINEMENTS = 4


def single_step(problem: StepProblem) -> StepPlan | Infeasible:
    """Return the plan that moves the least state, and of those one with the lowest maximum load.

    Copies of state are a tie rule here (see the module).
    """
    if not problem.plain:
        return by_stage(problem, single_step, contiguous=True)
    old = intervals_of(problem.current)
    limit = problem.limit
    cuts = _solve(problem, old, limit)
    if cuts is None:
        return _infeasible(problem, limit)
    nodes_of_tasks = _placed(problem, cuts)
    if problem.copies:
        return _with_copies(problem, nodes_of_tasks)
    if cuts.exact:
        return step_plan(problem, nodes_of_tasks, optimal=True)
    return _refined(problem, old, plan_with_bound(problem, nodes_of_tasks, cuts.moved))


def _refined(problem: StepProblem, old: Sequence[Interval], plan: StepPlan) -> StepPlan:
    """Plan again with more digits while rounding alone prevents a proof."""
    for _ in range(_REFINEMENTS):
        if plan.status == "optimal":
            break
        state = tuple(min(size, plan.cost) for size in problem.state)
        cuts = _solve(replace(problem, state=state), old, problem.limit)
        if cuts is None:  # what fits does not depend on state
            raise RuntimeError("tasks that fit no longer do")
        closer = plan_with_bound(problem, _placed(problem, cuts), cuts.moved)
        if closer.cost >= plan.cost:
            return plan_with_bound(problem, plan.assignment.nodes_of_tasks, cuts.moved)
        plan = closer
    return plan


def _with_copies(problem: StepProblem, nodes_of_tasks: tuple[int, ...]) -> StepPlan:
    """Return the plan that loads less: with these intervals, or ignoring copied tasks."""
    copied = {task for task, _ in problem.copies}
    state = tuple(0 if task in copied else size for task, size in enumerate(problem.state))
    others = replace(problem, state=state, copies=frozenset())
    cuts = _solve(others, intervals_of(problem.current), problem.limit)
    if cuts is None:  # what fits does not depend on state
        raise RuntimeError("tasks that fit no longer do")
    ignoring = _placed(others, cuts)
    plans = [
        plan_with_bound(problem, nearest_copies(problem, nodes), cuts.moved)
        for nodes in (nodes_of_tasks, ignoring)
    ]
    return min(plans, key=lambda plan: plan.cost)


@dataclass(frozen=True, slots=True)
class _Cuts:
    """A solution: interval i is ``[bounds[i], bounds[i + 1])`` and stays on ``nodes[i]``."""

    bounds: list[int]
    nodes: list[int | None]
    """The node whose tasks stay in the interval; ``None`` if none do."""
    moved: Fraction
    """State that moves, in bytes, with sizes rounded down: no solution moves less."""
    exact: bool
    """Whether no size was rounded."""


def _solve(problem: StepProblem, old: Sequence[Interval], limit: float) -> _Cuts | None:
    """Run the dynamic program; ``None`` if the tasks do not fit."""
    m = len(problem.work)
    blocks = sorted((lb, ub, node) for node, (lb, ub) in enumerate(old) if lb < ub)
    starts = np.array([lb for lb, _, _ in blocks] + [m])
    levels = min(problem.target.nodes, m)
    grain = 0.5 if type(sum(problem.work)) is int else limit * LOAD_TOLERANCE
    ticks = Ticks.of(problem.state, bits=_TICK_BITS)
    state = np.array([0, *accumulate(ticks.sizes)], dtype=np.int64)
    cuts, match = np.empty((2, levels + 1), dtype=np.int64)
    effort = 100.0 * (m + levels) + 12.0 * m * levels
    count = least_moved.for_operations(effort)(
        prefix_sums(problem.work),
        Held(state, starts, np.repeat(np.arange(len(blocks)), starts[1:] - starts[:-1])),
        limit * (1 + LOAD_TOLERANCE),
        grain,
        cuts,
        match,
    )
    if count == 0:
        return None
    bounds, matched = cuts[count::-1].tolist(), match[:count][::-1].tolist()
    kept = sum(
        int(state[min(ub, blocks[b][1])] - state[max(lb, blocks[b][0])])
        for lb, ub, b in zip(bounds[:-1], bounds[1:], matched, strict=True)
        if b >= 0
    )
    return _Cuts(
        bounds,
        [blocks[b][2] if b >= 0 else None for b in matched],
        (int(state[-1]) - kept) / Fraction(2) ** ticks.exponent,
        ticks.exact,
    )


def _placed(problem: StepProblem, cuts: _Cuts) -> tuple[int, ...]:
    """Give every interval a node: its own if tasks stay, else a spare one.

    A spare node that holds some of the interval's tasks (without state, or they would count as
    gain) is preferred, then the lowest number.
    """
    current = problem.current.nodes_of_tasks
    staying = set(cuts.nodes)
    spare = dict.fromkeys(node for node in range(problem.nodes_after) if node not in staying)
    nodes_of_tasks: list[int] = []
    for lb, ub, node in zip(cuts.bounds[:-1], cuts.bounds[1:], cuts.nodes, strict=True):
        if node is None:
            held = [other for other in current[lb:ub] if other in spare]
            node = max(held, key=held.count) if held else next(iter(spare))
            del spare[node]
        nodes_of_tasks += [node] * (ub - lb)
    return tuple(nodes_of_tasks)


def _infeasible(problem: StepProblem, limit: float) -> Infeasible:
    nodes, tau = problem.target.nodes, problem.target.tau
    total = exact_sum(problem.work)
    held = f"a node may hold {limit:.6g} = (1 + {tau:g}) x {total:g} / {nodes}"
    limit *= 1 + LOAD_TOLERANCE
    for task, load in enumerate(problem.work):
        if load > limit:
            return Infeasible(f"task {task} has work {load:g} and {held}")
    needed, load = 1, 0.0
    for amount in problem.work:
        load += amount
        if load > limit:
            needed, load = needed + 1, amount
    return Infeasible(f"consecutive tasks need {needed} nodes, {nodes} are allowed; {held}")
