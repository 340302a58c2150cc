"""Exhaustive search for single-step: every cut of the tasks, every choice of nodes."""

from __future__ import annotations

from itertools import combinations, permutations

from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem, exact_sum


def cheapest_then_flattest(problem: StepProblem) -> tuple[Number, Number] | None:
    """Return the least cost and the lowest maximum load at that cost; None if nothing fits."""
    tasks = len(problem.work)
    limit = problem.limit * (1 + LOAD_TOLERANCE)
    found = []
    for count in range(1, min(problem.target.nodes, tasks) + 1):
        for inner in combinations(range(1, tasks), count - 1):
            pieces = [range(lb, ub) for lb, ub in zip((0, *inner), (*inner, tasks), strict=True)]
            load = max(exact_sum(problem.work[j] for j in piece) for piece in pieces)
            if load > limit:
                continue
            for nodes in permutations(range(problem.nodes_after), count):
                moved = exact_sum(
                    problem.state[j]
                    for piece, node in zip(pieces, nodes, strict=True)
                    for j in piece
                    if problem.current.nodes_of_tasks[j] != node
                )
                found.append((moved, load))
    return min(found, default=None)
