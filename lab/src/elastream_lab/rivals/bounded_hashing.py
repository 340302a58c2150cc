"""Consistent hashing that keeps a load limit: no node of the ring takes more than it may hold.

After Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (SODA 2018). Not
among the baselines of papers 000 and 001, whose ring knows no limit; here because a planner that
keeps one is compared fairly only with a rival that keeps it too.

The ring is that of :mod:`~elastream_lab.rivals.consistent_hashing`. The tasks are placed in
their order; each goes round the ring from its own place to the first node that has room for its
work within the limit. Where none has, which the paper's unit loads exclude and indivisible tasks
of unequal work do not, it goes to the node with the least load, and the plan may be over the limit.
O(m n') next to the ring.
"""

from __future__ import annotations

from collections.abc import Sequence

from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.model.plan import StepPlan, step_plan
from elastream_lab.rivals.consistent_hashing import DEFAULT_POINTS, ring_order


def bounded_hashing(
    problem: StepProblem, *, seed: int = 0, points: int = DEFAULT_POINTS
) -> StepPlan:
    """Return the plan that puts every task where the bounded ring has it."""
    order = ring_order(len(problem.work), problem.target.nodes, seed, points=points)
    return step_plan(problem, bounded_assignment(problem.work, order, problem.limit))


def bounded_assignment(
    work: Sequence[Number], order: Sequence[Sequence[int]], limit: float
) -> tuple[int, ...]:
    """Return the node of each task: the first in its ``order`` that has room within ``limit``."""
    loads: dict[int, Number] = dict.fromkeys(order[0], 0) if order else {}
    allowed = limit * (1 + LOAD_TOLERANCE)
    placed = []
    for amount, met in zip(work, order, strict=True):
        node = next((node for node in met if loads[node] + amount <= allowed), None)
        if node is None:
            node = min(met, key=loads.__getitem__)
        loads[node] += amount
        placed.append(node)
    return tuple(placed)
