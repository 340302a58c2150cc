"""Which partitions each replica gets: a planned deployment as a placement of tasks.

EDRP says on which executors an operator has replicas; the planners of papers 000 and 001 say which
partitions each of them gets, moving the least state. They choose the nodes themselves, so here the
nodes are the replicas alone. A task on an executor that is no replica has to move anyway: it is
entered as one without state that is on the first replica, and what it costs is the same wherever
it goes. So the plan moves the least among all that use exactly these replicas.

A replica without a partition would be none: where the load limit leaves one idle, it gets the
smallest state of the one with the most tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from elastream.control.balance import even_max_load
from elastream.control.observation import TaskId
from elastream.control.planning import PlanOrder, route
from elastream.control.policy import PlannerName
from elastream.control.smoothing import TaskLoad
from elastream.model.assignment import Assignment
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible

__all__ = ["shared"]


def shared(
    tasks: Mapping[TaskId, TaskLoad], replicas: tuple[str, ...], *, planner: PlannerName, tau: float
) -> dict[TaskId, str]:
    """Return the executor of each task of one operator, each of ``replicas`` with some of them."""
    number = {executor: node for node, executor in enumerate(replicas)}
    loads = tuple(tasks.values())
    stays = [load.executor in number for load in loads]
    work = tuple(round(load.work, 9) for load in loads)
    if sum(work) <= 0:
        work = (1.0,) * len(loads)
    fullest = even_max_load(work, len(replicas), contiguous=planner == "single-step")
    problem = StepProblem(
        work=work,
        state=tuple(
            round(load.state_bytes) if there else 0
            for load, there in zip(loads, stays, strict=True)
        ),
        current=Assignment(tuple(number.get(load.executor, 0) for load in loads), len(replicas)),
        target=Target(len(replicas), max(tau, fullest * len(replicas) / sum(work) - 1)),
    )
    outcome = route(PlanOrder(problem, planner, None, None)).outcome
    if isinstance(outcome, Infeasible):  # the limit was made such that they fit
        raise RuntimeError(outcome.reason)
    nodes = list(outcome.assignment.nodes_of_tasks)
    _leave_none_idle(nodes, problem)
    return {task: replicas[node] for task, node in zip(tasks, nodes, strict=True)}


def _leave_none_idle(nodes: list[int], problem: StepProblem) -> None:
    for idle in set(range(problem.target.nodes)) - set(nodes):
        most, held = Counter(nodes).most_common(1)[0]
        if held > 1:
            given = [task for task, node in enumerate(nodes) if node == most]
            nodes[min(given, key=lambda task: (problem.state[task], task))] = idle
