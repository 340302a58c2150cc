"""The stateful operators of a query and what the batches tell of each.

An operator is a group of stateful operators without a shuffle between them, named by the lowest id,
as everywhere in the loop. Its replicas are the executors that hold a share of its partitions: paper
004's replica of an operator, with the executor for the node. Stateless stages are no operators
here: they run wherever a core is free and follow their data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastream.control.observation import Executor, TaskId
from elastream.control.smoothing import SmoothedLoad, TaskLoad

__all__ = ["OperatorGraph", "OperatorLoad", "operator_loads", "operator_name"]


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """Which stateful operator's rows go where."""

    feeds: Mapping[int, int | None]
    """The operator that each operator's rows go to; ``None``: out of the query."""

    def sources_of(self, operator: int) -> tuple[int, ...]:
        """Return the operators whose rows go to ``operator``."""
        return tuple(sorted(one for one, other in self.feeds.items() if other == operator))


@dataclass(frozen=True, slots=True)
class OperatorLoad:
    """What one operator does, all its tasks together."""

    operator: int
    tasks: Mapping[TaskId, TaskLoad]
    replicas: tuple[str, ...]
    """The executors that hold a share of it, in the order of the executors."""

    @property
    def rows_per_s(self) -> float:
        """Rows it reads a second."""
        return sum(task.rows_per_s for task in self.tasks.values())

    @property
    def work(self) -> float:
        """Cores it keeps busy."""
        return sum(task.work for task in self.tasks.values())

    @property
    def state_bytes(self) -> float:
        """State of all its tasks."""
        return sum(task.state_bytes for task in self.tasks.values())


def operator_name(operator: int) -> str:
    """Return what plans and logs call an operator."""
    return f"operator {operator}"


def operator_loads(
    load: SmoothedLoad, executors: tuple[Executor, ...]
) -> tuple[OperatorLoad, ...] | None:
    """Return the load of every operator, by id.

    ``None`` while a task has not been measured, or is on no executor that is alive.
    """
    alive = [executor.id for executor in executors]
    tasks_of: dict[int, dict[TaskId, TaskLoad]] = {}
    for task, told in load.tasks.items():
        if not told.measured or told.executor not in alive:
            return None
        tasks_of.setdefault(task.operator, {})[task] = told
    found = []
    for operator, tasks in sorted(tasks_of.items()):
        holding = {told.executor for told in tasks.values()}
        replicas = tuple(executor for executor in alive if executor in holding)
        found.append(OperatorLoad(operator, tasks, replicas))
    return tuple(found) or None
