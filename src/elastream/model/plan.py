"""Plans: what a planner answers. A plan is data, to be printed, stored, compared and replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from elastream.model.assignment import Assignment
from elastream.model.batch import Limits, Spread
from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum

Status = Literal["optimal", "feasible", "unbalanced"]
"""``optimal``: proven. ``feasible``: within the limit. ``unbalanced``: over it (baselines only)."""


class Move(NamedTuple):
    """One task that changes its node."""

    task: int
    source: int
    """The node that held the task."""
    target: int
    """The node that will hold it."""
    state: Number
    """Size of the state that is loaded there, in bytes; none where a copy of it is."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """The outcome of one migration."""

    status: Status
    cost: Number
    """State to be loaded: the sum over ``moves``, in bytes."""
    assignment: Assignment
    """Where the tasks are afterwards."""
    moves: tuple[Move, ...]
    """Every task whose node changes, in task order."""
    limit: float
    """The most work a node may hold."""
    max_load: Number
    """The most work a node holds afterwards."""
    lower_bound: Number
    """No plan for the same problem moves less; equal to ``cost`` where that is proven optimal."""
    batch: Number = 0
    """How long the stages of a batch take after it, in the unit of work: of the query that is
    nearest to its limit."""
    batch_limit: float = 0.0
    """The longest they may take."""


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No plan exists; the reason names what cannot fit."""

    reason: str
    status: Literal["infeasible"] = "infeasible"


def step_plan(
    problem: StepProblem,
    nodes_of_tasks: tuple[int, ...],
    *,
    optimal: bool = False,
    lower_bound: Number = 0,
) -> StepPlan:
    """Return the plan that puts task j on ``nodes_of_tasks[j]``, with what it moves and weighs.

    ``optimal`` says that the planner has proven that no plan costs less; otherwise
    ``lower_bound`` is a proven bound on the cost of any plan.
    """
    assignment = Assignment(nodes_of_tasks, problem.nodes_after)
    moves = tuple(
        Move(task, source, node, problem.loaded(task, node))
        for task, (source, node) in enumerate(
            zip(problem.current.nodes_of_tasks, nodes_of_tasks, strict=True)
        )
        if node != source
    )
    cost = exact_sum(move.state for move in moves)
    limit = problem.limit
    max_load = max(assignment.loads(problem.work))
    bound = cost if optimal else min(lower_bound, cost)
    if problem.plain:
        batch, batch_limit = max_load, limit
        within = max_load <= limit * (1 + 2 * LOAD_TOLERANCE)
    else:
        batch, batch_limit, within = _staged(problem, assignment)
    status: Status = "unbalanced"
    if within:
        status = "optimal" if bound == cost else "feasible"
    return StepPlan(status, cost, assignment, moves, limit, max_load, bound, batch, batch_limit)


def _staged(problem: StepProblem, assignment: Assignment) -> tuple[Number, float, bool]:
    """Return the batch nearest to its limit, that limit, and whether all limits are kept."""
    spread = Spread.of(problem, assignment.nodes_of_tasks)
    limits = Limits.of(problem)
    more = 1 + 2 * LOAD_TOLERANCE
    pairs = list(zip(spread.batches, limits.batches, strict=True))
    batch, limit = max(pairs, key=lambda pair: pair[0] / pair[1] if pair[1] else 0.0)
    within = (
        all(length <= most * more for length, most in pairs)
        and all(
            length <= most * more for length, most in zip(spread.stages, limits.stages, strict=True)
        )
        and spread.busiest <= limits.busiest * more
        and len(set(assignment.nodes_of_tasks)) <= problem.target.nodes
    )
    for amounts, room in ((problem.state, problem.memory), (problem.seated, problem.seats)):
        if room:
            held = assignment.loads(amounts)
            within = within and all(size <= most for size, most in zip(held, room, strict=True))
    return batch, limit, within


StepPlanner = Callable[[StepProblem], StepPlan | Infeasible]
"""A plan for one migration, or why there is none; settings have defaults."""
