"""How long a batch takes: the one model that goals, planners, forecasts and the log share.

A query's batch runs its stages one after another; a stage ends when the last executor has done its
part of it; and besides there is a fixed cost (planning, reading offsets, commit):

    batch = fixed + sum over stages of max over executors of stage(work there, slots there)

The tasks of an executor take its slots in their order, each the first that is free. Planners limit
the work on a slot (:class:`Spread`): less than that by at most the longest task. Batches of
different queries overlap, so an executor's slots are shared by what all queries do on it.

In Real-time Mode all stages run at once, and those of several queries too: they are one stage here,
and what counts is the sum on each executor. Their tasks never end, so each also keeps a slot
(``StepProblem.seats``).

Executors and nodes are the same here; work is in any one unit of time of a slot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TypeVar

from elastream.model.checks import Number
from elastream.model.migration import StepProblem, exact_sum

Node = TypeVar("Node", bound=Hashable)


def stage_length(
    tasks: Iterable[tuple[Node, Number]], slots: Mapping[Node, Number] | Sequence[Number]
) -> float:
    """Return how long a stage takes whose tasks are given by node and work, in their order.

    A node without slots cannot work, which takes for ever. O(tasks log slots).
    """
    works: dict[Node, list[Number]] = {}
    for node, amount in tasks:
        works.setdefault(node, []).append(amount)
    each = slots if isinstance(slots, Mapping) else dict(enumerate(slots))
    return max((_part(works[node], each.get(node, 0)) for node in works), default=0.0)  # type: ignore[call-overload]


def _part(works: list[Number], slots: Number) -> float:
    """Return how long a node takes; slots of other than whole numbers share the work."""
    if not slots:
        return float("inf") if any(works) else 0.0
    if len(works) <= slots:
        return float(max(works))
    whole = int(slots)
    if whole == 1:
        return float(sum(works))
    if whole != slots:
        return float(max(sum(works) / slots, max(works)))
    free_at = works[:whole]
    heapify(free_at)
    for work in works[whole:]:
        heapreplace(free_at, free_at[0] + work)
    return float(max(free_at))


@dataclass(frozen=True, slots=True)
class Spread:
    """How a placement spreads the work of a problem, in the terms of its limits."""

    batches: tuple[Number, ...]
    """Of each query: the sum over its stages of the most work on a slot."""
    stages: tuple[Number, ...]
    """Of each stage the most work on a slot."""
    busiest: Number
    """The most work of all stages together on a slot."""

    @classmethod
    def of(cls, problem: StepProblem, nodes_of_tasks: Sequence[int]) -> Spread:
        """Return the spread of a placement. O(tasks)."""
        stage_of = problem.stages or (0,) * len(nodes_of_tasks)
        loads: dict[tuple[int, int], Number] = {}
        totals: dict[int, Number] = {}
        for stage, node, work in zip(stage_of, nodes_of_tasks, problem.work, strict=True):
            loads[stage, node] = loads.get((stage, node), 0) + work
            totals[node] = totals.get(node, 0) + work
        slots = problem.slots or (1,) * problem.nodes_after
        queries = problem.queries or (0,) * (max(stage_of) + 1)
        fullest: list[Number] = [0] * len(queries)
        for (stage, node), load in loads.items():
            fullest[stage] = max(fullest[stage], _a_slot(load, slots[node]))
        batches: list[Number] = [0] * (max(queries) + 1)
        for query, length in zip(queries, fullest, strict=True):
            batches[query] += length
        busiest = max(_a_slot(load, slots[node]) for node, load in totals.items())
        return cls(tuple(batches), tuple(fullest), busiest)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a placement of a problem must keep."""

    batches: tuple[float, ...]
    """Of each query; see :class:`Spread`."""
    stages: tuple[float, ...]
    """Of each stage; infinite where the threshold holds for batches."""
    busiest: float

    @classmethod
    def of(cls, problem: StepProblem) -> Limits:
        """Return the limits. O(tasks)."""
        stage_of = problem.stages or (0,) * len(problem.work)
        queries = problem.queries or (0,) * (max(stage_of) + 1)
        of_stage: list[list[Number]] = [[] for _ in queries]
        for stage, work in zip(stage_of, problem.work, strict=True):
            of_stage[stage].append(work)
        shares = (1 + problem.target.tau) / total_slots(problem)
        stages = [shares * exact_sum(works) for works in of_stage]
        batches = [0.0] * (max(queries) + 1)
        for query, limit in zip(queries, stages, strict=True):
            batches[query] += limit
        if problem.most_batch:
            batches = [float(most) for most in problem.most_batch]
        if problem.within == "batch":
            stages = [float("inf")] * len(stages)
        most_busy = float("inf") if problem.most_busy is None else float(problem.most_busy)
        return cls(tuple(batches), tuple(stages), most_busy)


def total_slots(problem: StepProblem) -> Number:
    """Return the slots of the nodes that may hold tasks: of those with most, if some must not."""
    if not problem.slots:
        return problem.target.nodes
    return exact_sum(sorted(problem.slots)[-problem.target.nodes :])


def _a_slot(work: Number, slots: Number) -> Number:
    if not slots:
        return float("inf")
    return work if slots == 1 else work / slots
