"""Mini-migrations: carry a plan out in small steps that avoid overloading nodes.

Papers 000 (section 5.2) and 001 (section 3, "Optimizations"): a large migration makes new input
wait for state, so it is split into mini-migrations that each move a bounded number of tasks into a
node. Here a step moves at most ``max_tasks`` tasks and at most ``max_bytes`` of state into each
node (``per="node"``, as in the papers), or in total (``per="batch"``, the limit for one micro-batch
of a live query). A task larger than ``max_bytes`` cannot be split and has its node's step, or the
batch's, to itself.

The papers do not define the order in which tasks move. Between two steps a node can hold tasks that
it will give up together with tasks it has just received, and be over the load limit although
current assignment and plan are not. We choose the order by, first to last: the least work by which
steps raise nodes above the limit (or above their load if they were already over it), the least work
above the limit after a step, summed over nodes and steps, and the fewest steps. So if any order
within the caps never leaves a node over the limit, the chosen one does not either, and a node that
is over before the first step gets no worse if that can be avoided. If it cannot, the step reports
it.

Up to ``exact_moves`` moves the order is searched exactly
(:mod:`~elastream.placement.transfer.move_order_exact`, O(3^moves)); more are ordered by
:mod:`~elastream.placement.transfer.move_order_greedy`, O(moves log moves), and the last of them
exactly if that may still improve the order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from elastream.model.checks import Number, count, non_negative
from elastream.model.errors import ProblemError
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.model.plan import Move, StepPlan
from elastream.placement.transfer.move_order import (
    Batch,
    Caps,
    MoveOrder,
    Scope,
    Strain,
    changes,
    fewest_steps,
    least_strain,
    strain_of,
)
from elastream.placement.transfer.move_order_exact import exact_order
from elastream.placement.transfer.move_order_greedy import GreedyOrder
from elastream.placement.whole_units import in_units, of_units

EXACT_MOVES = 12
"""Up to this many moves are ordered exactly, within a second."""
_MOST_EXACT_MOVES = 16
"""Each further move takes three times as long."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A node that a step leaves over the load limit."""

    node: int
    excess: Number
    """Its work above the limit after the step."""
    raised: Number
    """The part of it added by this step; 0 if the node was as far over before."""


@dataclass(frozen=True, slots=True)
class MiniStep:
    """Moves that are made together."""

    moves: tuple[Move, ...]
    """In task order; at least one."""
    overloaded: tuple[Overload, ...]
    """Every node over the limit after the step, in node order."""


@dataclass(frozen=True, slots=True)
class MiniMigrations:
    """A plan in steps; together they make every move of the plan once."""

    steps: tuple[MiniStep, ...]
    """Empty if nothing moves."""
    oversized: tuple[int, ...]
    """Tasks larger than ``max_bytes``, each with a step of its node, or batch, to itself."""
    proven: bool
    """Whether no order within the caps overloads nodes less; otherwise a better one may exist."""


def mini_migrations(
    problem: StepProblem,
    plan: StepPlan,
    *,
    max_tasks: int | None = None,
    max_bytes: Number | None = None,
    per: Scope = "node",
    exact_moves: int = EXACT_MOVES,
) -> MiniMigrations:
    """Return ``plan`` in steps within the caps, of which at least one must be given."""
    _expect_plan_of(problem, plan)
    count("exact_moves", exact_moves, most=_MOST_EXACT_MOVES)
    order, units_in_one = _move_order(problem, plan, max_tasks, max_bytes, per)
    batches, exact = _ordered(order, exact_moves)
    strain, least = strain_of(order, batches), least_strain(order)
    overloads = _overloads(order, batches, problem.limit, units_in_one)
    steps = (
        MiniStep(tuple(plan.moves[move] for move in batch), overloaded)
        for batch, overloaded in zip(batches, overloads, strict=True)
    )
    oversized = (m.task for m in plan.moves if max_bytes is not None and m.state > max_bytes)
    return MiniMigrations(tuple(steps), tuple(oversized), exact or strain[:2] == least[:2])


def _ordered(order: MoveOrder, exact_moves: int) -> tuple[list[Batch], bool]:
    """Return the batches, and whether their order is proven to be the best."""
    greedy = GreedyOrder(order)
    batches: list[Batch] = []
    while len(greedy.left) > exact_moves:
        batches.append(greedy.next_batch())
    return batches + _best_order(order, greedy), not batches


def _best_order(order: MoveOrder, greedy: GreedyOrder) -> list[Batch]:
    """Return the best order of the few remaining moves: the greedy one if none can be better."""
    rest, moves = replace(order, loads=tuple(greedy.loads)), sorted(greedy.left)
    batches: list[Batch] = []
    while greedy.left:
        batches.append(greedy.next_batch())
    if strain_of(rest, batches) > Strain(0, 0, fewest_steps(rest, moves)):
        batches = exact_order(order, rest.loads, moves)
    return batches


def _move_order(
    problem: StepProblem,
    plan: StepPlan,
    max_tasks: int | None,
    max_bytes: Number | None,
    per: Scope,
) -> tuple[MoveOrder, int]:
    """Return the moves in whole units, and the number of units in one unit of work."""
    if max_tasks is None and max_bytes is None:
        raise ProblemError("max_tasks", "is missing; give max_tasks, max_bytes or both")
    if max_tasks is not None:
        max_tasks = count("max_tasks", max_tasks, least=1)
    if max_bytes is not None:
        max_bytes = non_negative("max_bytes", max_bytes)
    if per not in ("node", "batch"):
        raise ProblemError("per", f"{per!r} is neither 'node' nor 'batch'")
    work, units_in_one = in_units(problem.work)
    loads = [0] * problem.nodes_after
    for node, load in zip(problem.current.nodes_of_tasks, work, strict=True):
        loads[node] += load
    (*sizes, most), _ = in_units([*(move.state for move in plan.moves), max_bytes or 0])
    limit = Fraction(problem.limit) * (1 + 2 * Fraction(LOAD_TOLERANCE)) * units_in_one
    order = MoveOrder(
        source=tuple(move.source for move in plan.moves),
        target=tuple(move.target for move in plan.moves),
        work=tuple(work[move.task] for move in plan.moves),
        size=tuple(sizes),
        loads=tuple(loads),
        limit=min(math.floor(limit), sum(work)),
        caps=Caps(max_tasks, None if max_bytes is None else min(most, sum(sizes)), per),
    )
    return order, units_in_one


def _overloads(
    order: MoveOrder, batches: Sequence[Batch], limit: float, units_in_one: int
) -> Iterator[tuple[Overload, ...]]:
    """Yield for each step the nodes over the limit after it; unchanged entries are shared."""
    over = {
        node: Overload(node, of_units(load, units_in_one) - limit, 0)
        for node, load in enumerate(order.loads)
        if load > order.limit
    }
    raised: dict[int, Overload] = {}
    overloads: tuple[Overload, ...] = tuple(over.values())
    for changed in changes(order, batches):
        concerned = [c for c in changed if max(c.before, c.after) > order.limit]
        fresh = bool(concerned or raised)
        raised = {}
        for node, before, after in concerned:
            over.pop(node, None)
            if after > order.limit:
                excess = of_units(after, units_in_one) - limit
                more = of_units(max(0, after - before), units_in_one)
                over[node] = Overload(node, excess, 0)
                raised[node] = Overload(node, excess, more if before > order.limit else excess)
        if fresh:
            overloads = tuple(raised.get(node, over[node]) for node in sorted(over))
        yield overloads


def _expect_plan_of(problem: StepProblem, plan: StepPlan) -> None:
    """Reject a plan whose moves do not lead from the problem's assignment to the plan's."""
    before, after = problem.current.nodes_of_tasks, plan.assignment.nodes_of_tasks
    moved = [
        (task, source, target, problem.loaded(task, target))
        for task, (source, target) in enumerate(zip(before, after, strict=False))
        if source != target
    ]
    if len(before) != len(after) or plan.assignment.nodes != problem.nodes_after:
        raise ProblemError("plan", "places other tasks or nodes than the problem has")
    if [tuple(move) for move in plan.moves] != moved:
        raise ProblemError("plan", "does not begin where the problem's tasks are")
