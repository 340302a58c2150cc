"""The least state moved in one migration when a node may hold any tasks.

Papers 000 (section 3) and 001 (section 4) give every node consecutive tasks; Spark does not ask
for that, and without it less state moves. The load limit is the papers' (definition 3.1), and a
task that moves costs its state wherever it goes, but nothing where a copy of its state is: a cost
for each pair of task and node. The problem is NP-hard (it contains bin packing). The planner stops
at the first of three rungs that proves a plan optimal:

1. *Keep*: for each node the most state it can keep under the limit, a knapsack. At most ``n'``
   nodes keep anything, so all state less the ``n'`` largest of these is a lower bound.
2. *Pack* the tasks that no node keeps into the room that is left. If they fit the bound is met.
   If not, push others out at least cost; the single-step plan is taken where it is cheaper.
3. *Assign*: a mixed-integer program in which first the heavy tasks that find no room may go
   anywhere, then more and more (:mod:`~elastream.placement.free_step.assignment_program`).

The first two take O(m log m) and a bounded number of inner steps, at most a second or two; the
third is for up to some thousand pairs of task and node, and limited by ``effort``. What is left
open comes back as a feasible plan with the bound. Loads and costs are whole numbers throughout
(:mod:`~elastream.placement.free_step.whole_step`), so the bounds of the first rung are exact; from
what HiGHS proves its tolerance is taken off. Where sizes had to be rounded for that the bound is a
little lower, and :mod:`~elastream.placement.state_ticks` says what it proves.

*Copies.* Every rung takes a task to be at home where it is and where copies of its state are. What
the rungs leave open is compared with the plan that they find without copies, so that copies never
make a plan dearer. No task goes to a copy whose own node stays in use and has room for it below
the load of the fullest.

Whether the tasks fit at all can be as hard as the rest. Should neither a plan nor a proof be found
the plan comes back ``unbalanced``: nearly balanced, and not called feasible.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import non_negative
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan
from elastream.placement.free_step.assignment_program import assign
from elastream.placement.free_step.keeping import Keeping, keep
from elastream.placement.free_step.misfit import heavy_task, misfit, no_packing
from elastream.placement.free_step.packing import crowd, level, return_home, settle
from elastream.placement.free_step.whole_step import Answer, Ints, WholeStep, whole_step
from elastream.placement.state_ticks import PROVEN, plan_with_bound
from elastream.registry import PLANNERS, installed

EFFORT = 3_000_000
"""Default effort of the integer programs: their variables times their branches."""
QUICK_EFFORT = 100_000
"""For what should not wait long for a proof: some seconds at most, mostly well below one."""

_REFINEMENTS = 4
_FEW_STEPS = 10_000_000
"""Inner steps of a search that need not succeed."""


def free_step(problem: StepProblem, *, effort: float = EFFORT) -> StepPlan | Infeasible:
    """Return a plan that moves the least state, or little and a proven bound, or why none exists.

    ``effort`` limits the integer programs that a hard problem needs; most problems need none. It is
    counted (:mod:`~elastream.placement.branches`): equal problems have equal plans.
    """
    effort = non_negative("effort", effort)
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
    """Return the first proven answer, or the best after all rungs."""
    kept = keep(step)
    known = _pack(step, kept)
    if known.gap(step):
        known = known.joined(_consecutive(problem, step), step)
    if known.gap(step):
        known = assign(step, kept, known, effort=effort)
    if known.gap(step) and step.copied.any():
        at_home = replace(step, copies=step.copies[:, :0])
        known = known.joined(Answer(_climb(problem, at_home, effort).place, 0), step)
    return known


def _pack(step: WholeStep, kept: Keeping) -> Answer:
    """Return the kept tasks with all others packed around them, or all tasks packed anew."""
    nowhere = np.full(len(step.work), -1)
    for place in (kept.place, nowhere):
        packed = settle(step, place, kept.open_nodes)
        if packed.min() >= 0:
            return Answer(return_home(step, packed, kept.open_nodes), kept.lower_bound)
    return Answer(None, kept.lower_bound)


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
