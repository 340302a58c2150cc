"""Carry out a planned deployment: place each operator's partitions on its replicas.

Executors that did not exist when the plan was made get names of their own. They take the places of
the plan's newcomers in the order in which they started. If an executor that the plan needs is
missing, the plan no longer fits and is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from elastream.core.application import Observed
from elastream.core.goal import MadePlanner
from elastream.model.migration import StepProblem
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.replication.goal.operators import operator_name
from elastream.replication.goal.problem import SOURCE, is_newcomer
from elastream.replication.goal.sharing import share_out
from elastream.replication.model.problem import Deployment


@dataclass(frozen=True, slots=True)
class ReplicaPlanner:
    """Distributes each operator's tasks over the nodes of its replicas."""

    operators: tuple[str, ...]
    """The operator of each task."""
    replicas: Mapping[str, tuple[int, ...]]
    """The nodes of each operator's replicas."""
    tau: float
    name: str = "replication"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the plan that moves the least state onto these replicas."""
        nodes = list(problem.current.nodes_of_tasks)
        for operator, replicas in self.replicas.items():
            tasks = [task for task, of in enumerate(self.operators) if of == operator]
            placed = share_out(
                [problem.work[task] for task in tasks],
                [problem.state[task] for task in tasks],
                [nodes[task] for task in tasks],
                replicas,
                tau=self.tau,
            )
            for task, node in zip(tasks, placed, strict=True):
                nodes[task] = node
        return step_plan(problem, tuple(nodes))


def replica_planner(
    deployment: Deployment, known: Set[str], observed: Observed, executors: int, *, tau: float
) -> MadePlanner | None:
    """Return the planner for the deployment, or ``None`` if the deployment no longer fits.

    ``known`` are the executors that were alive when it was made; ``executors`` is the target
    number.
    """
    alive = [executor.id for executor in observed.executors]
    number = {executor: place for place, executor in enumerate(alive)}
    started = [executor for executor in alive if executor not in known]
    used = sorted({node for nodes in deployment.values() for node in nodes} - {SOURCE})
    beyond = len(alive)
    for newcomer in filter(is_newcomer, used):
        if started:
            number[newcomer] = number[started.pop(0)]
        else:  # advise mode: the plan also uses executors that do not exist yet
            number[newcomer] = beyond
            beyond += 1
    operators = tuple(operator_name(task.query, task.operator) for task, _ in observed.tasks())
    if not set(operators) <= deployment.keys() or any(node not in number for node in used):
        return None
    if beyond > max(len(alive), executors):
        return None
    replicas = {name: tuple(number[node] for node in deployment[name]) for name in set(operators)}
    return ReplicaPlanner(operators, dict(sorted(replicas.items())), tau)
