"""From a problem to a route: which tasks move, and in which order.

The planner is the goal's, where it has one, else the policy's. Some need consecutive tasks on every
node, as ``single-step`` does (SSM, paper 000 section 3). Stock Spark places tasks arbitrarily, so
at first there may be none. Then one *interval placement* is planned instead: the most even
intervals, given to the nodes so that the most state stays (the partitioning and the bipartite
matching into which paper 000, section 3.2, takes the problem apart). It moves more state than a
free step would, once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise

from elastream.core.goal import MadePlanner
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.even_spread import (
    attainable,
    even_bounds,
    even_max_load,
    even_placement,
)
from elastream.placement.live_planners import FREE_STEP

_COMPILED = 20_000
"""This many tasks are planned by compiled code throughout."""


@dataclass(frozen=True, slots=True)
class RouteOrder:
    """All that a route depends on."""

    problem: StepProblem
    planner: MadePlanner
    max_tasks: int | None
    """Most tasks a mini-migration moves; ``None`` for no bound."""
    max_bytes: int | None
    """Most state a mini-migration moves; ``None`` for no bound."""
    notes: tuple[str, ...] = ()
    """What the log should say about the choice of the planner."""
    widen: bool = False
    """Whether limits that an even spread does not keep are widened to what it keeps."""


@dataclass(frozen=True, slots=True)
class Route:
    """A plan and the way to it."""

    outcome: StepPlan | Infeasible
    steps: tuple[tuple[int, ...], ...]
    """The task numbers of each mini-migration, in order; none where nothing moves."""
    notes: tuple[str, ...] = ()
    """What the log should say about it."""
    problem: StepProblem | None = None
    """What was planned, where limits were widened."""


def route(order: RouteOrder) -> Route:
    """Return the plan and its mini-migrations. Pure, and seconds long for large problems."""
    if order.widen:
        problem = attainable(order.problem, contiguous=order.planner.contiguous)
        found = route(replace(order, problem=problem, widen=False))
        return found if problem is order.problem else replace(found, problem=problem)
    planner, instead = _planner(order)
    notes = order.notes + instead
    outcome = planner(order.problem)
    if not isinstance(outcome, Infeasible) and _too_full(order.problem, outcome):
        why = "would put more state on an executor than it may hold"
        outcome = Infeasible(f"{order.planner.name} {why}")
    explain = getattr(order.planner, "explain", None)
    if explain is not None and planner is order.planner and not isinstance(outcome, Infeasible):
        notes += (explain(outcome),)
    if isinstance(outcome, Infeasible) or not outcome.moves:
        return Route(outcome, (), notes)
    if order.max_tasks is None and order.max_bytes is None:
        return Route(outcome, (tuple(move.task for move in outcome.moves),), notes)
    from elastream.placement.transfer.mini_migrations import mini_migrations

    minis = mini_migrations(
        order.problem, outcome, max_tasks=order.max_tasks, max_bytes=order.max_bytes, per="batch"
    )
    if minis.oversized:
        notes += (f"{len(minis.oversized)} tasks are larger than a batch may move: each alone",)
    steps = tuple(tuple(move.task for move in mini.moves) for mini in minis.steps)
    return Route(outcome, steps, notes)


def _too_full(problem: StepProblem, plan: StepPlan) -> bool:
    """Return whether a node holds more state than it may; not every planner knows that limit."""
    held = plan.assignment.loads(problem.state)
    return any(size > most for size, most in zip(held, problem.memory, strict=False))


def rehearse(tasks: int, nodes: int) -> None:
    """Plan something of this size, for what that loads and compiles."""
    if find_spec("numba") is not None:
        tasks = max(tasks, _COMPILED)
    work = tuple(1.0 + task % 7 for task in range(tasks))
    current = Assignment(tuple(task % nodes for task in range(tasks)), nodes)
    problem = StepProblem(work, (1,) * tasks, current, Target(nodes + 1, 0.5))
    even_max_load(work, nodes, contiguous=False)
    few = Assignment(tuple(task % 3 for task in range(24)), 3)
    stages = tuple(task % 2 for task in range(24))
    weights = tuple(1.0 + task % 7 for task in range(24))
    FREE_STEP(StepProblem(weights, (1,) * 24, few, Target(4, 0.1), stages=stages))
    route(RouteOrder(problem, FREE_STEP, 4, None))


def interval_placement(problem: StepProblem) -> StepPlan:
    """Return the most even intervals, on the nodes where the most state is, copies counted.

    Intervals of each stage, where there are several. O(m) a probe for the intervals, O(n³) for the
    matching.
    """
    import numpy as np

    if not problem.plain:
        return _intervals_by_stage(problem)

    from elastream.placement.matchings import most_valuable

    bounds = even_bounds(problem.work, problem.target.nodes)
    stays = np.zeros((len(bounds) - 1, problem.nodes_after))
    for interval, (lb, ub) in enumerate(pairwise(bounds)):
        for task in range(lb, ub):
            stays[interval, problem.current.nodes_of_tasks[task]] += problem.state[task]
    for task, node in problem.copies:
        stays[bisect_right(bounds, task) - 1, node] += problem.state[task]
    _, nodes = most_valuable(stays)
    nodes_of_tasks = tuple(
        int(nodes[interval])
        for interval, (lb, ub) in enumerate(pairwise(bounds))
        for _ in range(lb, ub)
    )
    return step_plan(problem, nodes_of_tasks)


def _intervals_by_stage(problem: StepProblem) -> StepPlan:
    from elastream.placement.by_stage import by_stage

    plan = by_stage(problem, interval_placement, contiguous=True)
    if isinstance(plan, StepPlan):
        return plan
    return step_plan(problem, even_placement(problem, contiguous=True))


def _planner(
    order: RouteOrder,
) -> tuple[Callable[[StepProblem], StepPlan | Infeasible], tuple[str, ...]]:
    planner = order.planner
    if planner.contiguous and not order.problem.consecutive:
        note = "needs consecutive tasks, which are not found: interval placement first"
        return interval_placement, (f"{planner.name} {note}",)
    return planner, ()
