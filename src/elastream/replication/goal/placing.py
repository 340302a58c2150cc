"""Carry out a planned deployment: place each operator's partitions on its replicas.

EDRP decides on which executors an operator has replicas. The planner of paper 000 decides which
partitions each gets, moving the least state. That planner chooses nodes itself, so here the nodes
are the replicas only. A task on an executor that is not a replica has to move anyway: it is entered
as a task without state on the first replica, because its move costs the same wherever it goes. So
the plan moves the least state among all that use exactly these replicas. A replica that the load
limit leaves idle gets the task with the smallest state from the replica with the most tasks.

Executors that started after the plan was made take the places of the plan's newcomers, in the order
in which they started. If an executor that the plan needs is missing, the plan no longer fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from elastream.core.application import Observed
from elastream.core.goal import MadePlanner
from elastream.core.routes import RouteOrder, route
from elastream.model.assignment import Assignment
from elastream.model.batch import Spread
from elastream.model.checks import Number
from elastream.model.migration import StepProblem, Target
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.even_spread import attainable
from elastream.placement.live_planners import FREE_STEP
from elastream.replication.goal.operators import operator_name, stateful_share
from elastream.replication.goal.problem import SOURCE, is_newcomer
from elastream.replication.goal.settings import ReplicationSettings
from elastream.replication.model.problem import Deployment


@dataclass(frozen=True, slots=True)
class ReplicaPlanner:
    """Distributes each operator's tasks over the nodes of its replicas."""

    operators: tuple[str, ...]
    """The operator of each task."""
    replicas: Mapping[str, tuple[int, ...]]
    """The nodes of each operator's replicas."""
    slots: tuple[Number, ...]
    """Slots of each node."""
    tau: float
    most_busy: float
    """Most work of all operators together on a slot of any node, if a spread attains it."""
    name: str = "replication"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the plan that moves the least state onto these replicas.

        If an executor would be too busy for it, each operator is spread evenly, over slots or else
        over executors, as the deployment was planned.
        """
        names = {name: stage for stage, name in enumerate(dict.fromkeys(self.operators))}
        stages = tuple(names[operator] for operator in self.operators)
        whole = replace(problem, stages=stages, queries=(), slots=self.slots)
        nodes: tuple[int, ...] = ()
        for tau, slots in (
            (self.tau, self.slots),
            (0.0, self.slots),
            (0.0, (1,) * len(self.slots)),
        ):
            nodes = self._placed(problem, tau, slots)
            if Spread.of(whole, nodes).busiest <= self.most_busy:
                break
        return step_plan(problem, nodes)

    def _placed(self, problem: StepProblem, tau: float, slots: Sequence[Number]) -> tuple[int, ...]:
        nodes = list(problem.current.nodes_of_tasks)
        for operator, replicas in self.replicas.items():
            tasks = [task for task, of in enumerate(self.operators) if of == operator]
            placed = share_out(
                [problem.work[task] for task in tasks],
                [problem.state[task] for task in tasks],
                [nodes[task] for task in tasks],
                {node: slots[node] for node in replicas},
                tau=tau,
            )
            for task, node in zip(tasks, placed, strict=True):
                nodes[task] = node
        return tuple(nodes)


def replica_planner(
    deployment: Deployment,
    known: Set[str],
    observed: Observed,
    executors: int,
    goal: ReplicationSettings,
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
    slots = [executor.slots for executor in observed.executors]
    slots += [max(slots, default=1)] * max(0, beyond - len(slots))
    return ReplicaPlanner(
        operators,
        dict(sorted(replicas.items())),
        tuple(slots),
        goal.tau,
        goal.busiest * stateful_share(observed),
    )


def share_out(
    work: Sequence[float],
    state: Sequence[float],
    current: Sequence[int],
    replicas: Mapping[int, Number],
    *,
    tau: float,
) -> list[int]:
    """Return the node of each task of one operator; each of ``replicas`` gets at least one task.

    ``current`` is the current node of each task; ``replicas`` has the slots of each node.
    """
    number = {node: place for place, node in enumerate(replicas)}
    problem = replace(
        _spread_problem(work, tuple(replicas.values()), tau),
        state=tuple(
            round(size) if node in number else 0 for size, node in zip(state, current, strict=True)
        ),
        current=Assignment(tuple(number.get(node, 0) for node in current), len(replicas)),
    )
    outcome = route(RouteOrder(problem, FREE_STEP, None, None)).outcome
    if isinstance(outcome, Infeasible):  # the limit was chosen so that they fit
        raise RuntimeError(outcome.reason)
    nodes, places = list(outcome.assignment.nodes_of_tasks), list(replicas)
    _leave_none_idle(nodes, problem)
    return [places[node] for node in nodes]


def fullest_share(work: Sequence[float], slots: Sequence[Number], tau: float) -> float:
    """Return the most work on a slot that a spread over these executors may leave: its limit."""
    limit = _spread_problem(work, tuple(slots), tau).target.tau
    return float((1 + limit) * sum(work) / sum(slots))


def _spread_problem(work: Sequence[float], slots: tuple[Number, ...], tau: float) -> StepProblem:
    """Return the problem of spreading tasks over executors, with a limit that can be kept."""
    weights = tuple(round(amount, 12) for amount in work)
    if sum(weights) <= 0:
        weights = (1.0,) * len(weights)
    nodes = len(slots)
    nowhere = Assignment((0,) * len(weights), nodes)
    each = slots if len(set(slots)) > 1 else ()
    return attainable(
        StepProblem(weights, (0,) * len(weights), nowhere, Target(nodes, tau), slots=each)
    )


def _leave_none_idle(nodes: list[int], problem: StepProblem) -> None:
    for idle in set(range(problem.target.nodes)) - set(nodes):
        most, held = Counter(nodes).most_common(1)[0]
        if held > 1:
            candidates = [task for task, node in enumerate(nodes) if node == most]
            nodes[min(candidates, key=lambda task: (problem.state[task], task))] = idle
