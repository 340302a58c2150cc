"""The least state moved in one migration when a node may hold any tasks.

Papers 000 (section 3) and 001 (section 4) give every node consecutive tasks; Spark does not ask
for that, and without it less state moves. The load limit is the papers' (definition 3.1), and a
task that moves costs its state wherever it goes. The problem is NP-hard (it contains bin
packing), so the planner climbs a ladder and stops on the first rung that proves a plan optimal:

1. *Keep*: for each node the most state it can keep under the limit, a knapsack. At most ``n'``
   nodes keep anything, so all state less the ``n'`` largest of these is a lower bound.
2. *Pack* the tasks that nobody keeps into the room that is left. If they fit the bound is met.
   If not, push others out at least cost; the single-step plan is taken where it is cheaper.
3. *Price*: prices on tasks prove a stronger bound (column generation).
4. *Choose* the cheapest among all contents of nodes that the prices leave in question.
5. *Assign*: the mixed-integer program over task and node, for the loose problems that have too
   many contents.

The last three are for problems up to some thousand pairs of task and node; larger ones end after
the second with a feasible plan and the bound. Loads and costs are whole numbers throughout
(:mod:`~elastream.planners.free_step.whole_step`), so the bounds of the first three are exact; what
HiGHS proves on the last two holds to one part in 10⁹ of the cost, and so does "optimal" here.

Whether the tasks fit at all can be as hard as the rest. Should neither a plan nor a proof be found
the plan comes back ``unbalanced``: nearly balanced, and not called feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.planners.free_step.annealing import anneal
from elastream.planners.free_step.assignment_milp import assignment_milp
from elastream.planners.free_step.content_choice import content_choice
from elastream.planners.free_step.content_prices import Prices, content_prices
from elastream.planners.free_step.knapsack import knapsack
from elastream.planners.free_step.misfit import heavy_task, misfit, no_packing
from elastream.planners.free_step.packing import crowd, level, return_home, settle
from elastream.planners.free_step.whole_step import Answer, Ints, WholeStep, whole_step
from elastream.planners.single_step import single_step

__all__ = ["free_step"]

_PROVEN = 10**9
"""A plan is optimal if no plan costs less by more than one part in so many."""
_KNAPSACK_ROOM = 1 << 20
_ANNEALINGS, _ANNEALING_TRIALS, _ANNEALED_TASKS = 4, 2_500_000, 2000
_SMALL = 2500
"""Most pairs of task and node for which all rungs are climbed."""
_MOST_PRICED, _HEAVY_SHARE = 300, 8
"""In larger ones so many tasks at most get a price, each over this part of the capacity."""
_PRICINGS, _FEW_PRICINGS = 300, 40


def free_step(problem: StepProblem, *, seconds: float = 30.0) -> StepPlan | Infeasible:
    """Return a plan that moves the least state, or little and a proven bound, or why none exists.

    ``seconds`` limits each integer program that a hard problem needs; most problems need none.
    """
    reason = heavy_task(problem)
    if reason is not None:
        return Infeasible(reason)
    step = whole_step(problem)
    reason = misfit(step, problem)
    if reason is not None:
        return Infeasible(reason)
    found = _climb(problem, step, seconds)
    if found.place is None and found.gap(step) == 0:
        return Infeasible(no_packing(problem))
    plan = _plan(problem, step, found)
    while plan.status == "feasible" and step.state_error * _PROVEN > Fraction(plan.cost):
        step = whole_step(problem, ceiling=plan.cost)
        closer = _plan(problem, step, _climb(problem, step, seconds))
        if closer.cost >= plan.cost:
            return _bounded(problem, plan.assignment.nodes_of_tasks, closer.lower_bound)
        plan = closer
    return plan


def _climb(problem: StepProblem, step: WholeStep, seconds: float) -> Answer:
    """Return the first proven answer, or the best after all rungs that the size allows."""
    kept = _keep(step)
    known = _pack(step, kept)
    if known.gap(step):
        known = known.joined(_consecutive(problem, step), step)
    small = len(step.work) * len(step.nodes) <= _SMALL
    if known.gap(step):
        known, prices = _price(step, kept, known, everything=small)
        elsewhere = _keep(step, prices)
        if known.gap(step) and (elsewhere.open_nodes != kept.open_nodes).any():
            known = known.joined(_pack(step, elsewhere), step)
        if known.gap(step) and small:
            chosen = content_choice(step, prices, known.place, seconds=seconds / 3)
            known = known.joined(chosen, step)
    if known.gap(step) and small:
        known = known.joined(assignment_milp(step, seconds=seconds), step)
    return known


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """The tasks that stay where they are, each node by itself."""

    place: Ints
    """Their nodes; -1 for all other tasks."""
    open_nodes: NDArray[np.bool_]
    """The nodes that may hold tasks afterwards."""
    lower_bound: int
    """No placement moves less state."""


def _keep(step: WholeStep, prices: Prices | None = None) -> _Kept:
    """Return the most state that each node can keep; the nodes that keep most stay open.

    With prices, those nodes stay open whose contents are worth most: a task that finds no room
    elsewhere is worth more than its state.
    """
    solve = knapsack.for_operations(64.0 * len(step.work))
    place = np.full(len(step.work), -1)
    most = np.zeros(len(step.nodes), dtype=np.int64)
    ends = np.cumsum(np.bincount(step.home))
    for node, tasks in enumerate(np.split(np.argsort(step.home, kind="stable"), ends[:-1])):
        stays, _, most[node] = solve(
            step.work[tasks], step.state[tasks], step.capacity, _KNAPSACK_ROOM
        )
        place[tasks[stays]] = node
    worth = most if prices is None else prices.worths(step)
    open_nodes = np.zeros(len(step.nodes), dtype=np.bool_)
    open_nodes[np.argsort(-worth, kind="stable")[: step.allowed]] = True
    place[~open_nodes[step.home]] = -1
    lower_bound = step.state.sum() - np.sort(most)[::-1][: step.allowed].sum()
    return _Kept(place, open_nodes, int(lower_bound))


def _price(
    step: WholeStep, kept: _Kept, known: Answer, *, everything: bool
) -> tuple[Answer, Prices]:
    """Return what prices add to the bound, first on the heaviest tasks, then on more and more.

    Few prices mostly suffice, and are found much sooner than many.
    """
    heavy = int((_HEAVY_SHARE * step.work > step.capacity).sum())
    most = len(step.work) if everything else max(1, min(heavy, _MOST_PRICED))
    start = kept.place if known.place is None else known.place
    prices = None
    heaviest = min(step.allowed, most)
    while True:
        prices = content_prices(
            step,
            start,
            known.lower_bound + known.gap(step),
            heaviest=heaviest,
            iterations=_PRICINGS if everything and heaviest == most else _FEW_PRICINGS,
            known=prices,
        )
        known = known.joined(Answer(None, prices.lower_bound), step)
        if known.gap(step) == 0 or heaviest == most:
            return known, prices
        heaviest = most if 6 * heaviest > most else 4 * heaviest


def _pack(step: WholeStep, kept: _Kept) -> Answer:
    """Return the kept tasks with all others packed around them, and improved on."""
    place, open_nodes = settle(step, kept.place, kept.open_nodes), kept.open_nodes
    packed = Answer(None, kept.lower_bound)
    if place.min() >= 0:
        packed = Answer(return_home(step, place, open_nodes), kept.lower_bound)
    if len(place) <= _ANNEALED_TASKS:
        start = crowd(step, place, open_nodes)
        trials = min(_ANNEALING_TRIALS, 600 * len(place) ** 2)
        for seed in range(_ANNEALINGS):
            if packed.gap(step) == 0:
                break
            cooled = anneal(step, start, open_nodes, trials=trials, seed=seed)
            packed = packed.joined(Answer(cooled, 0), step)
    return packed


def _consecutive(problem: StepProblem, step: WholeStep) -> Answer:
    """Return the single-step plan as a placement, where there is one."""
    nothing = Answer(None, 0)
    if problem.current.intervals is None:
        return nothing
    plan = single_step(problem)
    if isinstance(plan, Infeasible):
        return nothing
    numbers = {int(node): index for index, node in enumerate(step.nodes)}
    place = np.array([numbers.get(node, -1) for node in plan.assignment.nodes_of_tasks])
    return Answer(place, 0) if step.fits(place) else nothing


def _plan(problem: StepProblem, step: WholeStep, found: Answer) -> StepPlan:
    """Return the plan in the problem's own numbers, levelled."""
    if found.place is None:
        kept = _keep(step)
        place = crowd(step, settle(step, kept.place, kept.open_nodes), kept.open_nodes)
    else:
        place = level(step, found.place, _open_nodes(step, found.place))
    amount = found.lower_bound * step.state_unit
    whole = amount.denominator == 1
    lower_bound = int(amount) if whole else math.nextafter(float(amount), 0)
    return _bounded(problem, tuple(step.nodes[place].tolist()), lower_bound)


def _bounded(
    problem: StepProblem, nodes_of_tasks: tuple[int, ...], lower_bound: Number
) -> StepPlan:
    """Return the plan, called optimal where the bound comes close enough to its cost."""
    plan = step_plan(problem, nodes_of_tasks, lower_bound=lower_bound)
    cost = Fraction(plan.cost)
    if plan.status == "feasible" and (cost - Fraction(lower_bound)) * _PROVEN <= cost:
        return step_plan(problem, nodes_of_tasks, optimal=True)
    return plan


def _open_nodes(step: WholeStep, place: Ints) -> NDArray[np.bool_]:
    """Return the nodes that a placement uses, and others while more are allowed."""
    used = np.isin(np.arange(len(step.nodes)), place)
    spare = np.flatnonzero(~used)[: step.allowed - int(used.sum())]
    used[spare] = True
    return used
