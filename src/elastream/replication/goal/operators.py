"""The stateful operators of all queries and their measured load.

An operator is a group of stateful operators without a shuffle between them, as in the core. Its
replicas are the executors that hold a share of its partitions. Stateless stages are not operators
here: they run wherever a core is free and follow their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastream.core.application import Observed
from elastream.core.load import TaskLoad
from elastream.model.observation import TaskId

OperatorKey = tuple[str, int]
"""The query and the number of an operator."""


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """Load of one operator, summed over its tasks."""

    query: str
    operator: int
    tasks: Mapping[TaskId, TaskLoad]
    state_on: Mapping[str, float]
    """State on each executor that holds a share of it, in the order of the executors."""

    @property
    def replicas(self) -> tuple[str, ...]:
        """The executors that hold a share of it."""
        return tuple(self.state_on)

    @property
    def key(self) -> OperatorKey:
        """Its query and number."""
        return self.query, self.operator

    @property
    def name(self) -> str:
        """Its name in plans, settings and logs."""
        return operator_name(self.query, self.operator)

    @property
    def rows_per_s(self) -> float:
        """Rows read per second."""
        return sum(task.rows_per_s for task in self.tasks.values())

    @property
    def work(self) -> float:
        """Number of cores kept busy."""
        return sum(task.work for task in self.tasks.values())

    @property
    def state_bytes(self) -> float:
        """State of all its tasks."""
        return sum(task.state_bytes for task in self.tasks.values())


def operator_name(query: str, operator: int) -> str:
    """Return the name of an operator in plans, settings and logs."""
    return f"{query}/{operator}"


def operator_loads(observed: Observed) -> tuple[OperatorLoad, ...] | None:
    """Return the load of every operator, by query and id.

    ``None`` while a task has not been measured or is not on a live executor.
    """
    alive = [executor.id for executor in observed.executors]
    tasks_of: dict[OperatorKey, dict[TaskId, TaskLoad]] = {}
    for task, load in observed.tasks():
        if not load.measured or observed.where(task) not in alive:
            return None
        tasks_of.setdefault((task.query, task.operator), {})[task] = load
    loads = []
    for (query, operator), tasks in sorted(tasks_of.items()):
        state_on: dict[str, float] = {}
        for task, load in tasks.items():
            where = observed.where(task)
            state_on[where] = state_on.get(where, 0.0) + load.state_bytes
        in_order = {executor: state_on[executor] for executor in alive if executor in state_on}
        loads.append(OperatorLoad(query, operator, tasks, in_order))
    return tuple(loads) or None


def stateful_share(observed: Observed) -> float:
    """Return the share of stateful tasks in all work of the executors; 1 where none works."""
    stateful = sum(query.load.work for query in observed.queries.values())
    outside = sum(observed.outside(executor.id) for executor in observed.executors)
    return stateful / (stateful + outside) if stateful > 0 else 1.0
