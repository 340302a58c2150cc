"""Resilient: tasks placed so that bursts need no move at all (ROD, paper 003).

A stream's rate changes faster than state can follow. ROD places operators, here (query, operator,
partition) pairs, so that no executor is overloaded at as many combinations of input rates as
possible. It plans at the start, after an executor was lost or has come, and after a restart of a
query; a good placement needs no other occasion.

*Costs* come from the running queries, as a trial run would tell them (section 7.1): the cores that
a task keeps busy over the rows a second that its query reads. *Capacity* is an executor's cores
less what it does outside stateful tasks. Queries that read the same stream share a variable; say so
in ``inputs``.

*Heavy stays, light moves* (section 1: operators with large state are for the resilient placement,
lighter ones "can be moved more frequently"): the tasks with the largest states, ``heavy_share`` of
all state together, stay where ROD put them. The others may move where an executor is busier than
``busiest``, which needs patience as any change does.
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
from elastream.model.checks import amount, count, positive, shown
from elastream.model.errors import ProblemError
from elastream.model.migration import StepProblem
from elastream.model.observation import BatchObservation, TaskId
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.model.words import counted
from elastream.placement.live_planners import FREE_STEP
from elastream.resilience.model.problem import ResilientProblem

__all__ = ["LightPlanner", "Resilient", "ResilientPlanner", "heavy_tasks"]

_LEAST_CAPACITY: Final = 0.1
"""However much an executor does besides, so much of its cores counts as free."""
_AS_GOOD: Final = 0.98
"""A placement with other names for the nodes may bear so much of what the planned one bears."""
_NOTHING: Final = 1e-9

Method = Literal["refined", "rod"]


@dataclass(frozen=True, slots=True)
class ResilientMemory:
    """For what the last placement was made, and what has been measured since."""

    executors: frozenset[str] = frozenset()
    runs: frozenset[tuple[str, str]] = frozenset()
    """Queries with their runs."""
    heavy: Mapping[TaskId, str] = field(default_factory=dict)
    """Where the placement has the heavy tasks."""
    batches: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Batches of each run that were heard of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilient(Goal):
    """The widest set of rates that the executors bear without a move."""

    method: Method = "refined"
    """``rod``: the paper's. ``refined``: that, improved on, which takes longer."""
    heavy_share: float = 0.8
    """Tasks with the largest states, this share of all state together, stay where they were put."""
    busiest: float = 0.9
    """Utilisation above which an executor gives light tasks away."""
    batches: int = 5
    """So many batches of every query are measured before its first placement."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The stream that a query reads, by query; those not named each read one of their own."""

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            known = " or ".join(get_args(Method))
            raise ProblemError("goal.method", f"{shown(self.method)} is not one; use {known}")
        if amount("goal.heavy_share", self.heavy_share) > 1:
            raise ProblemError("goal.heavy_share", f"{self.heavy_share:g} is above 1")
        if positive("goal.busiest", self.busiest) > 1:
            raise ProblemError("goal.busiest", f"{self.busiest:g} is above 1")
        count("goal.batches", self.batches, least=1)

    @property
    def name(self) -> str:
        """What the log calls it."""
        return f"resilient, by {self.method}"

    def check(self, bounds: GoalBounds) -> None:
        """Contradict nothing."""

    def memory(self) -> ResilientMemory:
        """Remember no placement yet."""
        return ResilientMemory()

    def heard(
        self,
        memory: ResilientMemory,
        observed: Observed,
        batch: BatchObservation,
        *,
        disturbed: bool,  # noqa: ARG002
    ) -> ResilientMemory:
        """Count the batches of every run."""
        runs = _runs(observed)
        key = (batch.query, batch.run)
        batches = {run: number for run, number in memory.batches.items() if run in runs}
        return replace(memory, batches={**batches, key: batches.get(key, 0) + 1})

    def wanted(
        self, memory: ResilientMemory, observed: Observed
    ) -> tuple[ResilientMemory, Wanted, tuple[Question, ...]]:
        """Want a placement where executors or queries are others than it was made for."""
        bounded = within_bounds(observed)
        if bounded is not None:
            return memory, bounded, ()
        return memory, self._wanted(memory, observed), ()

    def planner(
        self, memory: ResilientMemory, observed: Observed, executors: int
    ) -> MadePlanner | None:
        """Return who places all tasks, or light ones alone where the placement still holds."""
        if not any(query.load.measured for query in observed.queries.values()):
            return None
        placed = memory.executors == observed.alive and memory.runs == _runs(observed)
        if placed and executors == len(observed.executors):
            tasks = [task for task, _ in observed.tasks()]
            fixed = frozenset(j for j, task in enumerate(tasks) if task in memory.heavy)
            return LightPlanner(fixed)
        return ResilientPlanner(self._problem(observed), self.method)

    def reached(
        self, memory: ResilientMemory, observed: Observed, *, done: bool
    ) -> ResilientMemory:
        """Remember what the placement was made for."""
        if not done:
            return memory
        heavy = {task: observed.where(task) for task in heavy_tasks(observed, self.heavy_share)}
        return replace(memory, executors=observed.alive, runs=_runs(observed), heavy=heavy)

    def _wanted(self, memory: ResilientMemory, observed: Observed) -> Wanted:
        alive, busy = len(observed.executors), self.utilisation(observed)
        runs = _runs(observed)
        few = [run[0] for run in sorted(runs) if memory.batches.get(run, 0) < self.batches]
        idle = {query.name for query in observed.queries.values() if query.idle}
        if not runs or set(few) - idle:
            measured = f"{counted(len(few), 'query is', 'queries are')} being measured"
            what = measured if runs else "no query takes part"
            return Wanted("hold", alive, what, busy)
        if memory.executors != observed.alive or memory.runs != runs:
            why = "at the start" if not memory.runs else _difference(memory, observed)
            queries = counted(len(runs), "query", "queries")
            reason = f"a placement for {counted(alive, 'executor')} and {queries}, {why}"
            return Wanted("rebalance", alive, reason, busy, {"wanted": alive}, firm=True)
        held = _held(observed)
        fullest = max(held, key=lambda executor: held[executor])
        if held[fullest] > self.busiest and self._helps(memory, observed, fullest):
            reason = f"executor {fullest} is {held[fullest]:.2f} busy, light tasks may leave it"
            return Wanted("rebalance", alive, reason, busy, {"wanted": alive})
        reason = f"placed for the rates to come, busiest executor {held[fullest]:.2f}"
        return Wanted("hold", alive, reason, busy)

    def _helps(self, memory: ResilientMemory, observed: Observed, fullest: str) -> bool:
        """Whether the fullest executor holds a light task that would not make another as full."""
        held = _held(observed)
        least = min(held.values())
        return any(
            task not in memory.heavy
            and observed.where(task) == fullest
            and _NOTHING < load.work < held[fullest] - least - _NOTHING
            for task, load in observed.tasks()
        )

    def _problem(self, observed: Observed) -> ResilientProblem:
        """Return the costs of all tasks in the order of tasks, and what each executor has free."""
        streams = sorted({self.inputs.get(name, name) for name in observed.queries})
        place = {stream: k for k, stream in enumerate(streams)}
        load = []
        for task, each in observed.tasks():
            row = [0.0] * len(streams)
            rate = observed.queries[task.query].load.rows_per_s or 1.0
            stream = self.inputs.get(task.query, task.query)
            row[place[stream]] = max(each.work / max(rate, _NOTHING), 0.0)
            load.append(row)
        capacity = [
            max(_LEAST_CAPACITY * executor.cores, executor.cores - observed.outside(executor.id))
            for executor in observed.executors
        ]
        return ResilientProblem.of(_not_nothing(load), capacity)


@dataclass(frozen=True, slots=True)
class ResilientPlanner:
    """Places all tasks by ROD; nodes that are alike take the names that keep the most state."""

    problem: ResilientProblem
    """Costs by task, capacity by node."""
    method: Method
    contiguous: bool = False

    @property
    def name(self) -> str:
        """What the log calls it."""
        return self.method

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the placement on as many nodes as are wanted."""
        from elastream.resilience.planner.planner import resilient

        nodes = self._nodes(problem)
        capacity = [self._capacity(node) for node in nodes]
        asked = ResilientProblem.of(self.problem.load, capacity)
        plan = resilient(asked, self.method)
        if isinstance(plan, Infeasible):
            return plan
        if self._bears(asked, problem, nodes) >= _AS_GOOD * plan.borne.ratio:
            return step_plan(problem, problem.current.nodes_of_tasks)
        chosen = self._renamed(asked, problem, nodes, plan.allocation)
        return step_plan(problem, tuple(nodes[node] for node in chosen))

    def explain(self, plan: StepPlan) -> str:
        """Return what the log should say about it."""
        return f"{self.method} on {len(set(plan.assignment.nodes_of_tasks))} executors"

    def _bears(self, asked: ResilientProblem, problem: StepProblem, nodes: Sequence[int]) -> float:
        """Return what the present placement bears; nothing where it is on other nodes."""
        import numpy as np

        from elastream.resilience.planner.normalised import normalise
        from elastream.resilience.planner.planner import describe

        place = {node: number for number, node in enumerate(nodes)}
        current = problem.current.nodes_of_tasks
        space = normalise(asked)
        if not set(current) <= place.keys() or isinstance(space, Infeasible):
            return 0.0
        if len(space.nodes) != len(nodes):
            return 0.0
        return describe(asked, space, np.array([place[node] for node in current])).borne.ratio

    def _nodes(self, problem: StepProblem) -> list[int]:
        """Return the nodes that shall hold tasks: those with the most state where some leave."""
        wanted, there = problem.target.nodes, len(self.problem.capacity)
        if wanted >= there:
            return list(range(wanted))
        held = [0.0] * there
        for task, node in enumerate(problem.current.nodes_of_tasks):
            held[node] += problem.state[task]
        most = sorted(range(there), key=lambda node: (-held[node], node))[:wanted]
        return sorted(most)

    def _capacity(self, node: int) -> float:
        known = self.problem.capacity
        return float(known[node]) if node < len(known) else sum(known) / len(known)

    def _renamed(
        self,
        asked: ResilientProblem,
        problem: StepProblem,
        nodes: Sequence[int],
        allocation: Sequence[int],
    ) -> Sequence[int]:
        """Return the allocation with the nodes' parts swapped so that the most state stays."""
        import numpy as np

        from elastream.placement.matchings import most_valuable
        from elastream.resilience.planner.normalised import normalise
        from elastream.resilience.planner.planner import describe

        place = {node: number for number, node in enumerate(nodes)}
        stays = np.zeros((len(nodes), len(nodes)))
        for task, part in enumerate(allocation):
            home = place.get(problem.current.nodes_of_tasks[task])
            if home is not None:
                stays[part, home] += problem.state[task]
        _, homes = most_valuable(stays)
        renamed = np.array([int(homes[part]) for part in allocation])
        space = normalise(asked)
        if isinstance(space, Infeasible) or len(space.nodes) != len(nodes):
            return allocation
        before = describe(asked, space, np.array(allocation)).borne.ratio
        after = describe(asked, space, renamed).borne.ratio
        return renamed.tolist() if after >= _AS_GOOD * before else allocation


@dataclass(frozen=True, slots=True)
class LightPlanner:
    """Moves light tasks for balance; the heavy ones stay."""

    heavy: frozenset[int]
    """Numbers of the tasks that stay."""
    name: str = "light tasks"
    contiguous: bool = False

    def __call__(self, problem: StepProblem) -> StepPlan | Infeasible:
        """Return the plan that moves the least, with what the heavy tasks weigh out of reach."""
        beyond = sum(problem.state) + 1
        state = tuple(
            size + beyond if task in self.heavy else size for task, size in enumerate(problem.state)
        )
        outcome = route(RouteOrder(replace(problem, state=state), FREE_STEP, None, None)).outcome
        if isinstance(outcome, Infeasible):
            return outcome
        before = problem.current.nodes_of_tasks
        after = tuple(
            before[task] if task in self.heavy else node
            for task, node in enumerate(outcome.assignment.nodes_of_tasks)
        )
        return step_plan(problem, after)


def heavy_tasks(observed: Observed, share: float) -> list[TaskId]:
    """Return the tasks with the largest states that together have ``share`` of all state."""
    tasks = sorted(observed.tasks(), key=lambda entry: (-entry[1].state_bytes, entry[0]))
    wanted = share * sum(load.state_bytes for _, load in tasks)
    found: list[TaskId] = []
    passed = 0.0
    for task, load in tasks:
        if passed >= wanted or load.state_bytes == 0:
            break
        found.append(task)
        passed += load.state_bytes
    return found


def _runs(observed: Observed) -> frozenset[tuple[str, str]]:
    return frozenset((query.name, query.run) for query in observed.queries.values())


def _held(observed: Observed) -> dict[str, float]:
    """Return how busy each executor is."""
    held = {executor.id: observed.outside(executor.id) for executor in observed.executors}
    for task, load in observed.tasks():
        where = observed.where(task)
        if where in held:
            held[where] += load.work
    return {each.id: held[each.id] / each.cores for each in observed.executors}


def _difference(memory: ResilientMemory, observed: Observed) -> str:
    lost, came = memory.executors - observed.alive, observed.alive - memory.executors
    if lost or came:
        return f"{counted(len(lost), 'executor')} gone and {len(came)} come"
    return "queries have come, gone or been started again"


def _not_nothing(load: list[list[float]]) -> list[list[float]]:
    """Return the costs; all alike where nothing has been measured."""
    if any(cost > 0 for row in load for cost in row):
        return load
    return [[1.0] * len(row) for row in load]
