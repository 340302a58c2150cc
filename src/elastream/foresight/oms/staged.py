"""Several known migrations with several stages, queries, unequal slots or memory.

The papers plan one operator whose nodes have one limit. There only cuts matter (lemma 4.1). With
several stages, nodes that differ, or memory, it matters which node holds what, so that lemma, and
with it the sweep of :mod:`~elastream.foresight.oms.planner`, does not hold. What each migration
must keep is in :mod:`elastream.model.batch`; every node holds consecutive tasks of each stage.

- *Few placements*: all of them are listed, and the least way through those that each migration
  allows is found by dynamic programming: O(steps * placements² * tasks). It is optimal.
- *Many*: each migration is planned by itself, from where the last one led, and tasks stay where
  that is allowed. The bounds on the way to each migration alone give a bound
  (:mod:`~elastream.foresight.oms.weights`), with which the plan says its gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.foresight.oms.problem import SequencePlan, SequenceProblem
from elastream.foresight.oms.weights import StepWeights
from elastream.foresight.ssm.single_step import single_step
from elastream.model.assignment import Assignment
from elastream.model.plan import Infeasible, StepPlan, step_plan
from elastream.placement.state_ticks import is_proven

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEW: Final = 3000
"""Placements up to which all are listed."""

Nodes = tuple[int, ...]
"""The node of each task."""


def staged_sequence(problem: SequenceProblem) -> SequencePlan | Infeasible:
    """Return the plan of least weighted cost where placements are few, else one with a bound."""
    weights = StepWeights.of(problem)
    every = _placements(problem)
    if every is not None:
        ways = _least_way(problem, weights, every)
        return ways if isinstance(ways, Infeasible) else _plan(problem, weights, ways, None)
    direct: list[StepPlan] = []
    way: list[Nodes] = []
    current = problem.current
    for number in range(len(problem.targets)):
        alone = single_step(problem.step(number, problem.current))
        following = _following(problem, number, current)
        for outcome in (alone, following):
            if isinstance(outcome, Infeasible):
                return Infeasible(f"targets[{number}]: {outcome.reason}")
        assert isinstance(alone, StepPlan)  # noqa: S101 - as was just checked
        assert isinstance(following, StepPlan)  # noqa: S101
        direct.append(alone)
        way.append(following.assignment.nodes_of_tasks)
        current = following.assignment
    return _plan(problem, weights, way, weights.least(direct))


def _following(problem: SequenceProblem, number: int, current: Assignment) -> StepPlan | Infeasible:
    """Return the step of a migration planned by itself; nothing moves where that is allowed."""
    step = problem.step(number, current)
    stays = step_plan(step, current.nodes_of_tasks)
    return single_step(step) if stays.status == "unbalanced" else stays


def _plan(
    problem: SequenceProblem,
    weights: StepWeights,
    way: Sequence[Nodes],
    least: Fraction | None,
) -> SequencePlan:
    """Return the plan of these placements; without a bound it is proven best."""
    steps: list[StepPlan] = []
    current = problem.current
    for number, nodes in enumerate(way):
        steps.append(step_plan(problem.step(number, current), nodes))
        current = steps[-1].assignment
    cost = sum(step.cost for step in steps)
    exact = weights.cost(steps)
    weighted = weights.rounded(exact) if weights.falling else cost
    if any(step.status == "unbalanced" for step in steps):
        return SequencePlan("unbalanced", cost, tuple(steps), 0, weighted)
    if least is None or is_proven(exact, least, whole=weights.whole):
        return SequencePlan("optimal", cost, tuple(steps), weighted, weighted)
    return SequencePlan("feasible", cost, tuple(steps), weights.rounded_down(least), weighted)


def _least_way(
    problem: SequenceProblem, weights: StepWeights, every: NDArray[np.int64]
) -> list[Nodes] | Infeasible:
    """Return the placement after each migration."""
    state = np.array([float(size) for size in problem.state])
    here = np.array([problem.current.nodes_of_tasks])
    spent = np.zeros(1)
    choices: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for number, weight in enumerate(weights.of_steps):
        step = problem.step(number, problem.current)
        reachable = every[every.max(axis=1) < problem.nodes_after(number)]
        kept = [
            step_plan(step, tuple(nodes)).status != "unbalanced" for nodes in reachable.tolist()
        ]
        allowed = reachable[kept]
        if not len(allowed):
            return Infeasible(f"targets[{number}]: no placement keeps the limits")
        moved = np.zeros((len(here), len(allowed)))
        for task, size in enumerate(state):
            moved += size * (here[:, task, None] != allowed[None, :, task])
        total = spent[:, None] + float(weight) * moved
        came_from = total.argmin(axis=0)
        choices.append((allowed, came_from))
        here, spent = allowed, total[came_from, np.arange(len(allowed))]
    way: list[Nodes] = []
    last = int(spent.argmin())
    for allowed, came_from in reversed(choices):
        way.append(tuple(allowed[last].tolist()))
        last = int(came_from[last])
    return way[::-1]


def _placements(problem: SequenceProblem) -> NDArray[np.int64] | None:
    """Return every placement with consecutive tasks of each stage on a node, or ``None``: many."""
    nodes = problem.nodes_after(len(problem.targets) - 1)
    stage_of = problem.stages or (0,) * len(problem.work)
    sizes = [stage_of.count(stage) for stage in range(max(stage_of) + 1)]
    if math.prod(_ways(size, nodes) for size in sizes) > _FEW:
        return None
    order = sorted(range(len(stage_of)), key=stage_of.__getitem__)  # stable: tasks stay in order
    found = np.array(
        [
            [node for part in parts for node in part]
            for parts in product(*(list(_of_stage(size, nodes)) for size in sizes))
        ]
    )
    return found[:, np.argsort(order)]


def _ways(tasks: int, nodes: int) -> int:
    """Return how many placements a stage has."""
    return sum(
        math.comb(tasks - 1, used - 1) * math.perm(nodes, used)
        for used in range(1, min(tasks, nodes) + 1)
    )


def _of_stage(tasks: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """Yield the placements of a stage: the node of each task."""
    for used in range(1, min(tasks, nodes) + 1):
        for ends in _cuts(tasks, used):
            for chosen in permutations(range(nodes), used):
                yield tuple(
                    node for node, length in zip(chosen, ends, strict=True) for _ in range(length)
                )


def _cuts(tasks: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield the lengths of this number of intervals that hold the tasks."""
    if parts == 1:
        yield (tasks,)
        return
    for first in range(1, tasks - parts + 2):
        for rest in _cuts(tasks - first, parts - 1):
            yield (first, *rest)
