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
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from elastream.model.assignment import Assignment
from elastream.model.checks import Number, count
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem, exact_sum
from elastream.model.plan import StepPlan, step_plan

__all__ = ["DEFAULT_POINTS", "average_cost", "consistent_hashing", "ring_assignment"]

DEFAULT_POINTS = 100
"""Points of a node on the ring; a node's share of it then varies by about a tenth."""


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
    count("nodes", nodes, least=1)
    count("points", points, least=1)
    ring = sorted(
        (_place(f"{seed}/node {node}/{point}"), node)
        for node in range(nodes)
        for point in range(points)
    )
    places = [place for place, _ in ring]
    found = (bisect_left(places, _place(f"{seed}/task {task}")) for task in range(tasks))
    return Assignment(tuple(ring[index % len(ring)][1] for index in found), nodes)


def average_cost(
    problem: StepProblem, *, seeds: Iterable[int] = range(100), points: int = DEFAULT_POINTS
) -> Number:
    """Return the mean state moved from a ring of ``current.nodes`` nodes to the target's.

    One run a seed, each from its own ring; of ``problem.current`` only the number of nodes
    counts. The default is the hundred runs of papers 000 and 001.
    """
    costs = []
    for seed in seeds:
        start = ring_assignment(len(problem.work), problem.current.nodes, seed, points=points)
        run = replace(problem, current=start)
        costs.append(consistent_hashing(run, seed=seed, points=points).cost)
    if not costs:
        raise ProblemError("seeds", "is empty; give at least one run")
    return exact_sum(costs) / len(costs)


def _place(label: str) -> int:
    return int.from_bytes(blake2b(label.encode(), digest_size=8).digest())
