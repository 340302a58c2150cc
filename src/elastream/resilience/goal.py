"""Resilient goal: place tasks so that bursts need no move at all (ROD, paper 003).

It places (query, operator, partition) triples so that no executor is overloaded for as many
combinations of input rates as possible: at the start, after an executor was lost or added, and when
a query was started, restarted, or has woken up. What tasks cost comes from the running queries
(:mod:`~elastream.resilience.live_problem`). *Capacity* is an executor's slots minus its work
outside stateful tasks.

*Heavy stays, light moves* (section 1). The tasks with the largest states, ``heavy_share`` of all
state together, stay where ROD placed them. The others may move away from an executor busier than
``busiest``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from elastream.core.application import GoalBounds, Observed
from elastream.core.goal import (
    Goal,
    MadePlanner,
    Question,
    Wanted,
    within_bounds,
)
from elastream.core.routes import RouteOrder, route
from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.model.words import pluralize
from elastream.placement.live_planners import FREE_STEP
from elastream.resilience.live_problem import Inputs, Record, live_problem
from elastream.resilience.model.problem import ResilientProblem

_AS_GOOD: Final = 0.98
"""A placement that keeps more state in place is used if it tolerates this share of the planned
one."""
_NOTHING: Final = 1e-9

Method = Literal["refined", "rod"]


@dataclass(frozen=True, slots=True)
class ResilientMemory:
    """What the last placement was made for, and the batches measured since."""

    executors: frozenset[str] = frozenset()
    runs: frozenset[tuple[str, str]] = frozenset()
    """Queries with their runs, of those that were measured by then."""
    heavy: Mapping[TaskId, str] = field(default_factory=dict)
    """The executor of each heavy task in that placement."""
    records: Mapping[tuple[str, str], Record] = field(default_factory=dict)
    """What the batches of each run have shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilient(Goal):
    """Tolerate the widest set of rates that is possible without a move."""

    method: Method = "refined"
    """``rod``: the paper's. ``refined``: the same with an improvement step, which takes longer."""
    heavy_share: float = 0.8
    """Tasks with the largest states, this share of all state together, stay where they were
    placed."""
    busiest: float = 0.9
    """Utilisation above which an executor hands over light tasks."""
    batches: int = 5
    """Number of batches of every query to measure before the first placement."""
    inputs: Inputs = field(default_factory=dict)
    """The stream that a query reads, or its streams in the order of its sources, by query; each
    query not listed reads streams of its own."""
    lowest_rates: bool = True
    """Whether rates are taken not to fall below the lowest that batches have had (section 6.1)."""

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            known = " or ".join(get_args(Method))
            raise ProblemError("goal.method", f"{abbreviate(self.method)} is not one; use {known}")
        if non_negative("goal.heavy_share", self.heavy_share) > 1:
            raise ProblemError("goal.heavy_share", f"{self.heavy_share:g} is above 1")
        if positive("goal.busiest", self.busiest) > 1:
            raise ProblemError("goal.busiest", f"{self.busiest:g} is above 1")
        count("goal.batches", self.batches, least=1)

    @property
    def name(self) -> str:
        """Name in the log."""
        return f"resilient, by {self.method}"

    def check(self, bounds: GoalBounds) -> None:
        """Accept any bounds."""

    def memory(self) -> ResilientMemory:
        """Return an empty memory."""
        return ResilientMemory()

    def after_batch(
        self,
        memory: ResilientMemory,
        observed: Observed,
        batch: BatchObservation,
        *,
        disturbed: bool,
    ) -> ResilientMemory:
        """Record the batch."""
        runs = _runs(observed)
        key = (batch.query, batch.run)
        records = {run: record for run, record in memory.records.items() if run in runs}
        record = records.get(key, Record()).with_batch(batch, disturbed=disturbed)
        return replace(memory, records={**records, key: record})

    def wanted(
        self, memory: ResilientMemory, observed: Observed
    ) -> tuple[ResilientMemory, Wanted, tuple[Question, ...]]:
        """Request a placement if the executors or queries differ from those of the last one."""
        bounded = within_bounds(observed)
        if bounded is not None:
            return memory, bounded, ()
        return memory, self._wanted(memory, observed), ()

    def planner(
        self, memory: ResilientMemory, observed: Observed, executors: int
    ) -> MadePlanner | None:
        """Return the planner for all tasks, or for light tasks if the placement still holds."""
        if not any(query.load.measured for query in observed.queries.values()):
            return None
        measured = self._measured(memory, observed)
        placed = memory.executors == observed.alive and memory.runs == measured
        if placed and executors == len(observed.executors):
            tasks = [task for task, _ in observed.tasks()]
            fixed = frozenset(j for j, task in enumerate(tasks) if task in memory.heavy)
            return LightPlanner(fixed)
        problem = live_problem(
            observed, memory.records, self.inputs, lowest_rates=self.lowest_rates
        )
        return ResilientPlanner(problem, self.method)

    def after_change(
        self, memory: ResilientMemory, observed: Observed, *, done: bool
    ) -> ResilientMemory:
        """Record what the placement was made for."""
        if not done:
            return memory
        heavy = {task: observed.where(task) for task in heavy_tasks(observed, self.heavy_share)}
        measured = self._measured(memory, observed)
        return replace(memory, executors=observed.alive, runs=measured, heavy=heavy)

    def _measured(self, memory: ResilientMemory, observed: Observed) -> frozenset[tuple[str, str]]:
        """Return the runs with enough batches; one idle from the start has none."""
        records = memory.records
        return frozenset(
            run for run in _runs(observed) if records.get(run, Record()).number >= self.batches
        )

    def _wanted(self, memory: ResilientMemory, observed: Observed) -> Wanted:
        alive, busy = len(observed.executors), self.utilisation(observed)
        runs, measured = _runs(observed), self._measured(memory, observed)
        idle = {query.name for query in observed.queries.values() if query.idle}
        few = [name for name, _ in runs - measured if name not in idle]
        if few or not measured:
            what = f"{pluralize(len(few), 'query is', 'queries are')} being measured"
            if not few:
                what = "every query is idle" if runs else "no query takes part"
            return Wanted("hold", alive, what, busy)
        if memory.executors != observed.alive or memory.runs != measured:
            why = "at the start" if not memory.runs else _difference(memory, observed)
            queries = pluralize(len(measured), "query", "queries")
            reason = f"a placement for {pluralize(alive, 'executor')} and {queries}, {why}"
            return Wanted("rebalance", alive, reason, busy, {"wanted": alive}, firm=True)
        utilisation = _utilisations(observed)
        fullest = max(utilisation, key=lambda executor: utilisation[executor])
        if utilisation[fullest] > self.busiest and self._helps(memory, observed, fullest):
            reason = (
                f"executor {fullest} is {utilisation[fullest]:.2f} busy, its light tasks may move"
            )
            return Wanted("rebalance", alive, reason, busy, {"wanted": alive})
        reason = f"placed for the rates to come, busiest executor {utilisation[fullest]:.2f}"
        return Wanted("hold", alive, reason, busy)

    def _helps(self, memory: ResilientMemory, observed: Observed, fullest: str) -> bool:
        """Return whether moving a light task off the fullest executor would lower the maximum."""
        utilisation = _utilisations(observed)
        least = min(utilisation.values())
        return any(
            task not in memory.heavy
            and observed.where(task) == fullest
            and _NOTHING < load.work < utilisation[fullest] - least - _NOTHING
            for task, load in observed.tasks()
        )


@dataclass(frozen=True, slots=True)
class ResilientPlanner:
    """Places all tasks by ROD; equal nodes are named so that the most state stays in place."""

    problem: ResilientProblem
    """Costs by task, capacity by node."""
    method: Method
    contiguous: bool = False

    @property
    def name(self) -> str:
        """Name in the log."""
        return self.method

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the placement on the target number of nodes."""
        import numpy as np

        from elastream.resilience.planner.normalised import normalise
        from elastream.resilience.planner.planner import describe, resilient

        nodes = self._nodes(problem)
        capacity = [self._capacity(node) for node in nodes]
        requested = replace(self.problem, capacity=tuple(capacity))
        plan = resilient(requested, self.method)
        if isinstance(plan, Infeasible) or plan.status == "unbalanced":
            # even the lowest rates are too much: place for the origin
            none = (0,) * len(requested.lower_bound)
            requested = replace(requested, lower_bound=none, fixed=())
            plan = resilient(requested, self.method)
        if isinstance(plan, Infeasible):
            return plan
        space = normalise(requested)
        chosen = plan.allocation
        if not isinstance(space, Infeasible) and len(space.nodes) == len(nodes):

            def tolerated(place: Sequence[int]) -> float:
                return describe(requested, space, np.array(place)).borne.ratio

            numbers = {node: number for number, node in enumerate(nodes)}
            current = [numbers.get(node, -1) for node in problem.current.nodes_of_tasks]
            if min(current) >= 0 and tolerated(current) >= _AS_GOOD * plan.borne.ratio:
                return step_plan(problem, problem.current.nodes_of_tasks)
            renamed = _renamed(problem, current, chosen, len(nodes))
            if tolerated(renamed) >= _AS_GOOD * tolerated(chosen):
                chosen = renamed
        return step_plan(problem, tuple(nodes[node] for node in chosen))

    def explain(self, plan: StepPlan) -> str:
        """Return the explanation for the log."""
        return f"{self.method} on {len(set(plan.assignment.nodes_of_tasks))} executors"

    def _nodes(self, problem: StepProblem) -> list[int]:
        """Return the nodes that will hold tasks: those with the most state if some are removed."""
        target, nodes = problem.target.nodes, len(self.problem.capacity)
        if target >= nodes:
            return list(range(target))
        state_of_node = [0.0] * nodes
        for task, node in enumerate(problem.current.nodes_of_tasks):
            state_of_node[node] += problem.state[task]
        most = sorted(range(nodes), key=lambda node: (-state_of_node[node], node))[:target]
        return sorted(most)

    def _capacity(self, node: int) -> float:
        known = self.problem.capacity
        return float(known[node]) if node < len(known) else sum(known) / len(known)


@dataclass(frozen=True, slots=True)
class LightPlanner:
    """Moves light tasks for balance; the heavy ones stay."""

    heavy: frozenset[int]
    """Numbers of the tasks that stay."""
    name: str = "light tasks"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the plan that moves the least; the load of heavy tasks is fixed."""
        beyond = sum(problem.state) + 1
        state = tuple(
            size + beyond if task in self.heavy else size for task, size in enumerate(problem.state)
        )
        holds = [0] * problem.nodes_after
        for task in self.heavy:
            holds[problem.current.nodes_of_tasks[task]] += 1
        memory = tuple(most + beyond * n for most, n in zip(problem.memory, holds, strict=False))
        heavier = replace(problem, state=state, memory=memory)
        outcome = route(RouteOrder(heavier, FREE_STEP, None, None)).outcome
        if isinstance(outcome, Infeasible):
            return outcome
        before_nodes = problem.current.nodes_of_tasks
        after_nodes = tuple(
            before_nodes[task] if task in self.heavy else node
            for task, node in enumerate(outcome.assignment.nodes_of_tasks)
        )
        return step_plan(problem, after_nodes)


def _renamed(
    problem: StepProblem, current: Sequence[int], allocation: Sequence[int], nodes: int
) -> tuple[int, ...]:
    """Return the allocation with nodes permuted so that the most state stays in place.

    ``current`` is the node of each task now, -1 if it will not be used.
    """
    import numpy as np

    from elastream.placement.matchings import most_valuable

    stays = np.zeros((nodes, nodes))
    for task, (part, home) in enumerate(zip(allocation, current, strict=True)):
        if home >= 0:
            stays[part, home] += problem.state[task]
    _, homes = most_valuable(stays)
    return tuple(int(homes[part]) for part in allocation)


def heavy_tasks(observed: Observed, share: float) -> list[TaskId]:
    """Return the tasks with the largest states that together have ``share`` of all state."""
    tasks = sorted(observed.tasks(), key=lambda entry: (-entry[1].state_bytes, entry[0]))
    target_bytes = share * sum(load.state_bytes for _, load in tasks)
    heavy: list[TaskId] = []
    passed = 0.0
    for task, load in tasks:
        if passed >= target_bytes or load.state_bytes == 0:
            break
        heavy.append(task)
        passed += load.state_bytes
    return heavy


def _runs(observed: Observed) -> frozenset[tuple[str, str]]:
    return frozenset((query.name, query.run) for query in observed.queries.values())


def _utilisations(observed: Observed) -> dict[str, float]:
    """Return the utilisation of each executor."""
    utilisation = {executor.id: observed.outside(executor.id) for executor in observed.executors}
    for task, load in observed.tasks():
        where = observed.where(task)
        if where in utilisation:
            utilisation[where] += load.work
    return {each.id: utilisation[each.id] / each.slots for each in observed.executors}


def _difference(memory: ResilientMemory, observed: Observed) -> str:
    lost, added = memory.executors - observed.alive, observed.alive - memory.executors
    if lost or added:
        return f"{pluralize(len(lost), 'executor')} removed and {len(added)} added"
    return "queries started, stopped, restarted or woke up"
