"""Consistent hashing: a ring decides where tasks go, blind to their work and state.

The baseline CH of papers 000 (sections 2 and 6) and 001 (sections 2 and 6, appendix A), after
Karger et al. (STOC 1997). Each node owns several points of a ring, a task belongs to the node of
the first point at or after its own place, going round. A node that joins takes tasks only to
itself, and one that leaves gives up only its own: that is all the migration a ring can promise.
It knows nothing of load, so its plans may be over the limit (status ``unbalanced``).

Here the ring stands on the nodes ``0 .. n'-1``: nodes that join take the next numbers, nodes that
leave are those with the highest. Places are 64 bits of BLAKE2b over seed and number, the same on
every machine. O((m + n' points) log(n' points)).

The papers leave open how many points a node owns and where a run begins. We take
:data:`DEFAULT_POINTS`, and :func:`average_cost` begins each run on its own ring, since a ring
that inherits another planner's assignment would move nearly everything, once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

from elastream.model.assignment import Assignment
from elastream.model.checks import Number, count
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import StepPlan, step_plan

DEFAULT_POINTS = 100
"""Points of a node on the ring; a node's share of it then varies by about a tenth."""
_RUNS = 100


def consistent_hashing(
    problem: StepProblem, *, seed: int = 0, points: int = DEFAULT_POINTS
) -> StepPlan:
    """Return the plan that puts every task where the ring of ``target.nodes`` nodes has it."""
    ring = ring_assignment(len(problem.work), problem.target.nodes, seed, points=points)
    return step_plan(problem, ring.nodes_of_tasks)


def ring_assignment(
    tasks: int, nodes: int, seed: int = 0, *, points: int = DEFAULT_POINTS
) -> Assignment:
    """Return where the ring of ``nodes`` nodes has the tasks: where a run of CH begins."""
    ring = _ring(nodes, seed, points)
    found = (ring[start][1] for start in _starts(ring, tasks, seed))
    return Assignment(tuple(found), nodes)


def ring_order(
    tasks: int, nodes: int, seed: int = 0, *, points: int = DEFAULT_POINTS
) -> tuple[tuple[int, ...], ...]:
    """Return for each task all nodes, in the order in which it meets them going round the ring."""
    ring = _ring(nodes, seed, points)
    owners = [node for _, node in ring]
    orders = (owners[start:] + owners[:start] for start in _starts(ring, tasks, seed))
    return tuple(tuple(dict.fromkeys(order)) for order in orders)


def average_cost(problem: StepProblem) -> Number:
    """Return the mean state moved from a ring of ``current.nodes`` nodes to the target's.

    The hundred runs of papers 000 and 001, each from its own ring; of ``problem.current`` only the
    number of nodes counts.
    """
    costs = []
    for seed in range(_RUNS):
        start = ring_assignment(len(problem.work), problem.current.nodes, seed)
        costs.append(consistent_hashing(replace(problem, current=start), seed=seed).cost)
    return exact_sum(costs) / _RUNS


def _ring(nodes: int, seed: int, points: int) -> list[tuple[int, int]]:
    """Return the places of all points and their nodes, going round."""
    count("nodes", nodes, least=1)
    count("points", points, least=1)
    return sorted(
        (_place(f"{seed}/node {node}/{point}"), node)
        for node in range(nodes)
        for point in range(points)
    )


def _starts(ring: list[tuple[int, int]], tasks: int, seed: int) -> Iterator[int]:
    """Yield for each task the number of the first point at or after its own place."""
    places = [place for place, _ in ring]
    for task in range(tasks):
        yield bisect_left(places, _place(f"{seed}/task {task}")) % len(ring)


def _place(label: str) -> int:
    return int.from_bytes(blake2b(label.encode(), digest_size=8).digest())
