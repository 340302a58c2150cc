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
    replicas: tuple[str, ...]
    """The executors that hold a share of it, in the order of the executors."""

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
        holding = {observed.where(task) for task in tasks}
        replicas = tuple(executor for executor in alive if executor in holding)
        loads.append(OperatorLoad(query, operator, tasks, replicas))
    return tuple(loads) or None
