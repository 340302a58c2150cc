"""The certificate: check that a plan is valid, and recompute its cost and loads.

It shares no code with the planners or the constructors of plans: it reads the fields of problem and
plan and recomputes everything in exact rational arithmetic. Tests and benchmarks check every plan
with it. A plan without faults is valid, and its figures are true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from elastream.model.checks import Number
from elastream.model.migration import StepProblem
from elastream.model.plan import StepPlan

ROUNDING = Fraction(3, 10**9)
"""Relative tolerance for figures that planners compute in floating point."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Result of an independent check of a plan."""

    faults: tuple[str, ...]
    """One sentence for each claim of the plan that does not hold; empty for a good plan."""
    cost: Fraction
    """State that really has to be loaded, in bytes."""
    max_load: Fraction
    """Work of the fullest node, the highest over all steps of a sequence."""


def certify_step(
    problem: StepProblem, plan: StepPlan, *, contiguous: bool = False, balanced: bool = True
) -> Certificate:
    """Check ``plan`` against ``problem``.

    ``contiguous`` requires that every node holds consecutive tasks; ``balanced`` that no node is
    over the load limit and that no more nodes are used than allowed.
    """
    before, after = problem.current.nodes_of_tasks, plan.assignment.nodes_of_tasks
    numbered = max(problem.current.nodes, problem.target.nodes)
    if len(after) != len(before) or plan.assignment.nodes != numbered:
        shape = f"{len(after)} tasks on {plan.assignment.nodes} nodes"
        return Certificate((f"the plan places {shape}",), Fraction(0), Fraction(0))
    faults = [f"task {j} is on node {i}" for j, i in enumerate(after) if not 0 <= i < numbered]
    if faults:
        return Certificate(tuple(faults), Fraction(0), Fraction(0))

    loads = [Fraction(0)] * numbered
    cost = Fraction(0)
    moved = []
    for task, (source, target) in enumerate(zip(before, after, strict=True)):
        loads[target] += Fraction(problem.work[task])
        if source != target:
            loaded = 0 if (task, target) in problem.copies else problem.state[task]
            cost += Fraction(loaded)
            moved.append((task, source, target, loaded))
    max_load = max(loads)
    total = sum(loads, Fraction(0))
    limit = (1 + Fraction(problem.target.tau)) * total / problem.target.nodes

    faults += differing("cost", plan.cost, cost)
    faults += differing("max_load", plan.max_load, max_load)
    faults += differing("limit", plan.limit, limit)
    if [tuple(move) for move in plan.moves] != moved:
        faults.append("moves are not the tasks whose node changes")
    if contiguous and len({i for i, _ in _runs(after)}) != sum(1 for _ in _runs(after)):
        faults.append("a node holds tasks that are not consecutive")
    if balanced:
        faults += _overloads(loads, limit, len(set(after)), problem.target.nodes)
    if Fraction(plan.lower_bound) > cost * (1 + ROUNDING):
        faults.append(f"lower bound {plan.lower_bound} is above the cost {float(cost)}")
    if plan.status == "optimal" and plan.lower_bound != plan.cost:
        faults.append("called optimal with a lower bound below the cost")
    return Certificate(tuple(faults), cost, max_load)


def differing(name: str, claimed: Number, actual: Fraction) -> Iterator[str]:
    """Yield a fault where a figure of the plan is not the one recomputed."""
    if abs(Fraction(claimed) - actual) > ROUNDING * max(abs(actual), Fraction(1, 10**12)):
        yield f"{name} is said to be {claimed} and is {float(actual)}"


def _overloads(
    loads: Sequence[Fraction], limit: Fraction, used: int, allowed: int
) -> Iterator[str]:
    for node, load in enumerate(loads):
        if load > limit * (1 + ROUNDING):
            yield f"node {node} holds {float(load)}, over the limit of {float(limit)}"
    if used > allowed:
        yield f"{used} nodes hold tasks where {allowed} may"


def _runs(nodes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (node, first task) of each run of consecutive tasks on one node."""
    for task, node in enumerate(nodes):
        if task == 0 or nodes[task - 1] != node:
            yield node, task
