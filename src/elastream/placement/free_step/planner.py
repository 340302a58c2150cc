"""The least state moved in one migration when a node may hold any tasks.

Papers 000 (section 3) and 001 (section 4) give every node consecutive tasks; Spark does not ask
for that, and without it less state moves. The load limit is the papers' (definition 3.1), and a
task that moves costs its state wherever it goes, but nothing where a copy of its state is: a cost
for each pair of task and node. The problem is NP-hard (it contains bin packing), so the planner
climbs a ladder and stops on the first rung that proves a plan optimal:

1. *Keep*: for each node the most state it can keep under the limit, a knapsack. At most ``n'``
   nodes keep anything, so all state less the ``n'`` largest of these is a lower bound.
2. *Pack* the tasks that no node keeps into the room that is left. If they fit the bound is met.
   If not, push others out at least cost; the single-step plan is taken where it is cheaper.
3. *Ration*: prices on the heavy tasks that find no room prove a stronger bound and lead to a
   cheaper placement (:mod:`~elastream.placement.free_step.scarce_room`). Mostly the two meet.
4. *Anneal* the placement, up to some thousand tasks.
5. *Price* all tasks, *choose* the cheapest among all contents of nodes that the prices leave in
   question, and *assign*: the mixed-integer program over task and node, for the loose problems
   that have too many contents. These are for some thousand pairs of task and node.

The first four take a bounded number of steps, whatever the size and the machine: O(m log m) and
some hundred million inner steps, a few seconds; what they leave open comes back as a feasible plan
with the bound. Loads and costs are whole numbers throughout
(:mod:`~elastream.placement.free_step.whole_step`), so their bounds are exact; from what HiGHS
proves on the last its tolerance is taken off. Where sizes had to be rounded for that the bound is a
little lower, and :mod:`~elastream.placement.state_ticks` says what it proves.

*Copies.* Every rung takes a task to be at home where it is and where copies of its state are; those
that prove are exact about it (:mod:`~elastream.placement.free_step.contents` has the bound). What
the rungs leave open is compared with the plan that they find without copies, so that copies never
make a plan dearer. No task goes to a copy whose own node stays in use and has room for it below
the load of the fullest.

*Other limits.* One stage on nodes with equal slots is the same problem with another limit. All else
is planned by :mod:`~elastream.placement.staged.planner`.

Whether the tasks fit at all can be as hard as the rest. Should neither a plan nor a proof be found
the plan comes back ``unbalanced``: nearly balanced, and not called feasible.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import non_negative
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.by_stage import stagewise
from elastream.placement.free_step.annealing import anneal
from elastream.placement.free_step.assignment_milp import assignment_milp
from elastream.placement.free_step.content_choice import content_choice
from elastream.placement.free_step.content_prices import ContentPrices, content_prices
from elastream.placement.free_step.keeping import Keeping, keep
from elastream.placement.free_step.misfit import heavy_task, misfit, no_packing
from elastream.placement.free_step.packing import crowd, level, return_home, settle
from elastream.placement.free_step.scarce_room import scarce_room
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep, whole_step
from elastream.placement.staged.planner import misfit as staged_misfit
from elastream.placement.staged.planner import single_limit, staged_step
from elastream.placement.state_ticks import PROVEN, plan_with_bound
from elastream.registry import PLANNERS, installed

EFFORT = 3_000_000
"""Default effort of an integer program: its variables times its branches."""

_STAGED = 4
"""Part of the effort that goes into each stage of a problem with several."""
_REFINEMENTS = 4
_FEW_STEPS = 10_000_000
"""Inner steps of a search that need not succeed."""
_ANNEALINGS, _ANNEALING_TRIALS, _ANNEALED_TASKS = 4, 2_500_000, 2000
_SMALL = 2500
"""Most pairs of task and node for which all rungs are climbed."""
_PRICINGS, _FEW_PRICINGS = 300, 40


def free_step(problem: StepProblem, *, effort: float = EFFORT) -> StepPlan | Infeasible:
    """Return a plan that moves the least state, or little and a proven bound, or why none exists.

    ``effort`` limits each integer program that a hard problem needs; most problems need none. It is
    counted (:mod:`~elastream.placement.branches`): equal problems have equal plans.
    """
    effort = non_negative("effort", effort)
    if not problem.plain:
        return _not_plain(problem, effort)
    reason = heavy_task(problem)
    if reason is not None:
        return Infeasible(reason)
    step = whole_step(problem)
    reason = misfit(step, problem)
    if reason is not None:
        return Infeasible(reason)
    found = _climb(problem, step, effort)
    if found.place is None and found.gap(step) == 0:
        return Infeasible(no_packing(problem))
    return _refined(problem, step, _plan(problem, step, found), effort)


def _not_plain(problem: StepProblem, effort: float) -> StepPlan | Infeasible:
    """Plan with several limits, or with one that is not the papers'."""
    plain = single_limit(problem)
    if plain is None:
        planner = partial(free_step, effort=effort / _STAGED)
        by_stage = partial(stagewise, planner=planner, contiguous=False)
        return staged_step(problem, by_stage, effort=effort)
    reason = staged_misfit(problem)
    outcome = Infeasible(reason) if reason else free_step(plain, effort=effort)
    if isinstance(outcome, Infeasible):
        return outcome
    place, optimal = outcome.assignment.nodes_of_tasks, outcome.status == "optimal"
    return step_plan(problem, place, optimal=optimal, lower_bound=outcome.lower_bound)


def _refined(problem: StepProblem, step: WholeStep, plan: StepPlan, effort: float) -> StepPlan:
    """Plan again in finer units while their rounding alone keeps the plan from its proof."""
    whole = all(type(size) is int for size in problem.state)
    for _ in range(_REFINEMENTS):
        open_gap = Fraction(plan.cost) - Fraction(plan.lower_bound)
        error = step.state_error
        fine = error == 0 if whole else error * PROVEN <= plan.cost
        if plan.status != "feasible" or open_gap > error or fine:
            break
        step = whole_step(problem, ceiling=plan.cost)
        closer = _plan(problem, step, _climb(problem, step, effort))
        if closer.cost >= plan.cost:
            bound = Fraction(closer.lower_bound)
            return plan_with_bound(problem, plan.assignment.nodes_of_tasks, bound)
        plan = closer
    return plan


def _climb(problem: StepProblem, step: WholeStep, effort: float) -> Answer:
    """Return the first proven answer, or the best after all rungs that the size allows."""
    kept = keep(step)
    known = _pack(step, kept)
    if known.gap(step):
        known = known.joined(_consecutive(problem, step), step)
    if known.gap(step):
        known = scarce_room(step, kept, known, effort=effort / 5)
    if known.gap(step) and len(step.work) <= _ANNEALED_TASKS:
        known = _anneal(step, kept, known)
    if known.gap(step) and len(step.work) * len(step.nodes) <= _SMALL:
        known = _climb_on(step, kept, known, effort)
    if known.gap(step) and step.copied.any():
        at_home = replace(step, copies=step.copies[:, :0])
        known = known.joined(Answer(_climb(problem, at_home, effort).place, 0), step)
    return known


def _climb_on(step: WholeStep, kept: Keeping, known: Answer, effort: float) -> Answer:
    """Return what the rungs for small problems make of the answer."""
    known, prices = _price(step, kept, known)
    elsewhere = keep(step, prices.worths(step))
    if known.gap(step) and (elsewhere.open_nodes != kept.open_nodes).any():
        known = _anneal(step, elsewhere, known.joined(_pack(step, elsewhere), step))
    if known.gap(step):
        chosen = content_choice(step, prices, known.place, effort=effort / 3)
        known = known.joined(chosen, step)
    if known.gap(step):
        known = known.joined(assignment_milp(step, effort=effort), step)
    return known


def _price(step: WholeStep, kept: Keeping, known: Answer) -> tuple[Answer, ContentPrices]:
    """Return what prices add to the bound, first on the heaviest tasks, then on more and more.

    Few prices mostly suffice, and are found much sooner than many.
    """
    most = len(step.work)
    start = kept.place if known.place is None else known.place
    prices = None
    heaviest = min(step.allowed, most)
    while True:
        prices = content_prices(
            step,
            start,
            known.lower_bound + known.gap(step),
            heaviest=heaviest,
            iterations=_PRICINGS if heaviest == most else _FEW_PRICINGS,
            known=prices,
        )
        known = known.joined(Answer(None, prices.lower_bound), step)
        if known.gap(step) == 0 or heaviest == most:
            return known, prices
        heaviest = most if 6 * heaviest > most else 4 * heaviest


def _pack(step: WholeStep, kept: Keeping) -> Answer:
    """Return the kept tasks with all others packed around them, or all tasks packed again."""
    nowhere = np.full(len(step.work), -1)
    for place in (kept.place, nowhere):
        packed = settle(step, place, kept.open_nodes)
        if packed.min() >= 0:
            return Answer(return_home(step, packed, kept.open_nodes), kept.lower_bound)
    return Answer(None, kept.lower_bound)


def _anneal(step: WholeStep, kept: Keeping, known: Answer) -> Answer:
    """Return the answer with the best that annealing makes of it."""
    open_nodes = kept.open_nodes
    start = crowd(step, settle(step, kept.place, open_nodes, steps=_FEW_STEPS), open_nodes)
    trials = min(_ANNEALING_TRIALS, 600 * len(start) ** 2)
    for seed in range(_ANNEALINGS):
        if known.gap(step) == 0:
            break
        cooled = anneal(step, start, open_nodes, trials=trials, seed=seed)
        known = known.joined(Answer(cooled, 0), step)
    return known


def _consecutive(problem: StepProblem, step: WholeStep) -> Answer:
    """Return the single-step plan as a placement, where its planner is installed and finds one."""
    entry = installed(PLANNERS).get("single-step")
    if entry is None or problem.current.intervals is None:
        return Answer(None, 0)
    plan = entry.load()(problem)
    if isinstance(plan, Infeasible):
        return Answer(None, 0)
    numbers = {int(node): index for index, node in enumerate(step.nodes)}
    place = np.array([numbers.get(node, -1) for node in plan.assignment.nodes_of_tasks])
    return Answer(place if step.fits(place) else None, 0)


def _plan(problem: StepProblem, step: WholeStep, found: Answer) -> StepPlan:
    """Return the plan in the problem's own numbers, levelled."""
    if found.place is None:
        kept = keep(step)
        place = settle(step, kept.place, kept.open_nodes, steps=_FEW_STEPS)
        place = crowd(step, place, kept.open_nodes)
    else:
        place = level(step, found.place, _open_nodes(step, found.place))
    return plan_with_bound(
        problem, tuple(step.nodes[place].tolist()), found.lower_bound * step.state_unit
    )


def _open_nodes(step: WholeStep, place: Ints) -> NDArray[np.bool_]:
    """Return the nodes that a placement uses, and others while more are allowed."""
    used = np.isin(np.arange(len(step.nodes)), place)
    spare = np.flatnonzero(~used)[: step.allowed - int(used.sum())]
    used[spare] = True
    return used
