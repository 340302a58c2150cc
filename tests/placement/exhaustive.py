"""Exhaustive search: every cut of the tasks and every choice of nodes, or any nodes at all."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

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
                    if problem.current.nodes_of_tasks[j] != node and (j, node) not in problem.copies
                )
                found.append((moved, load))
    return min(found, default=None)


def cheapest_placement(problem: StepProblem) -> Number | None:
    """Return the least cost of any node for any task; None if nothing fits."""
    tasks, nodes = len(problem.work), problem.nodes_after
    placed = _placements(tasks, nodes)
    costs = np.array([[state] * nodes for state in problem.state])
    costs[np.arange(tasks), problem.current.nodes_of_tasks] = 0
    for task, node in problem.copies:
        costs[task, node] = 0
    held = placed[None] == np.arange(nodes)[:, None, None]
    fits = (held @ np.array(problem.work)).max(axis=0) <= problem.limit * (1 + LOAD_TOLERANCE)
    few = held.any(axis=2).sum(axis=0) <= problem.target.nodes
    found = costs[np.arange(tasks), placed].sum(axis=1)[fits & few]
    return found.min().item() if len(found) else None


@cache
def _placements(tasks: int, nodes: int) -> NDArray[np.int64]:
    return np.array(list(product(range(nodes), repeat=tasks)))


def cheapest_within(problem: StepProblem) -> Number | None:
    """Return the least cost of any placement that keeps all limits; None if none does."""
    tasks, nodes = len(problem.work), problem.nodes_after
    placed = _placements(tasks, nodes)
    costs = np.array([[state] * nodes for state in problem.state])
    costs[np.arange(tasks), problem.current.nodes_of_tasks] = 0
    for task, node in problem.copies:
        costs[task, node] = 0
    more = 1 + LOAD_TOLERANCE
    held = placed[None] == np.arange(nodes)[:, None, None]
    slots = np.array(problem.slots or (1,) * nodes, dtype=float)
    fits = held.any(axis=2).sum(axis=0) <= problem.target.nodes
    fits &= ~(held.any(axis=2) & (slots == 0)[:, None]).any(axis=0)
    each = np.where(slots > 0, slots, 1)[:, None]
    stages = np.array(problem.stages or (0,) * tasks)
    queries = problem.queries or (0,) * (stages.max() + 1)
    work = np.array(problem.work, dtype=float)
    whole = np.sort(slots)[-problem.target.nodes :].sum() if problem.slots else problem.target.nodes
    batches = np.zeros((max(queries) + 1, len(placed)))
    limits = np.zeros(max(queries) + 1)
    for stage, query in enumerate(queries):
        longest = (held[:, :, stages == stage] @ work[stages == stage] / each).max(axis=0)
        limit = (1 + problem.target.tau) * work[stages == stage].sum() / whole
        batches[query] += longest
        limits[query] += limit
        if problem.within == "stage":
            fits &= longest <= limit * more
    limits = np.array(problem.most_batch or limits)
    fits &= (batches <= limits[:, None] * more).all(axis=0)
    if problem.most_busy is not None:
        fits &= (held @ work / each <= problem.most_busy * more).all(axis=0)
    if problem.memory:
        fits &= (held @ np.array(problem.state) <= np.array(problem.memory)[:, None]).all(axis=0)
    if problem.seats:
        lasting = np.isin(stages, list(problem.lasting))
        fits &= (held[:, :, lasting].sum(axis=2) <= np.array(problem.seats)[:, None]).all(axis=0)
    found = costs[np.arange(tasks), placed].sum(axis=1)[fits]
    return found.min().item() if len(found) else None
