"""Assign partitions to replicas: turn a planned deployment into a placement of tasks.

EDRP decides on which executors an operator has replicas. The planners of papers 000 and 001 decide
which partitions each of them gets, moving the least state. Those planners choose nodes themselves,
so here the nodes are the replicas only. A task on an executor that is not a replica has to move
anyway: it is entered as a task without state on the first replica, because its move costs the same
wherever it goes. So the plan moves the least state among all that use exactly these replicas.

A replica without a partition would not be a replica. If the load limit leaves one idle, it gets the
task with the smallest state from the replica with the most tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from elastream.core.routes import RouteOrder, route
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible
from elastream.placement.even_spread import attainable_tau
from elastream.placement.live_planners import FREE_STEP


def share_out(
    work: Sequence[float],
    state: Sequence[float],
    current: Sequence[int],
    replicas: Sequence[int],
    *,
    tau: float,
) -> list[int]:
    """Return the node of each task of one operator; each of ``replicas`` gets at least one task.

    ``current`` is the current node of each task.
    """
    number = {node: place for place, node in enumerate(replicas)}
    weights = tuple(round(amount, 12) for amount in work)
    if sum(weights) <= 0:
        weights = (1.0,) * len(weights)
    attainable = attainable_tau(weights, len(replicas), tau, contiguous=False)
    problem = StepProblem(
        work=weights,
        state=tuple(
            round(size) if node in number else 0 for size, node in zip(state, current, strict=True)
        ),
        current=Assignment(tuple(number.get(node, 0) for node in current), len(replicas)),
        target=Target(len(replicas), attainable),
    )
    outcome = route(RouteOrder(problem, FREE_STEP, None, None)).outcome
    if isinstance(outcome, Infeasible):  # the limit was chosen so that they fit
        raise RuntimeError(outcome.reason)
    nodes = list(outcome.assignment.nodes_of_tasks)
    _leave_none_idle(nodes, problem)
    return [replicas[node] for node in nodes]


def _leave_none_idle(nodes: list[int], problem: StepProblem) -> None:
    for idle in set(range(problem.target.nodes)) - set(nodes):
        most, held = Counter(nodes).most_common(1)[0]
        if held > 1:
            candidates = [task for task, node in enumerate(nodes) if node == most]
            nodes[min(candidates, key=lambda task: (problem.state[task], task))] = idle
