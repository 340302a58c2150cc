"""A problem with several stages, slots and memory, as arrays.

Only nodes that may hold tasks are numbered here. Work is in floating point, with the tolerance of
the load limit in all limits; state costs are whole, so that they are compared exactly.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from elastream.model.batch import Limits
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.placement.free_step.whole_step import whole_state

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class StagedStep:
    """The problem that the searches solve."""

    work: Floats
    """Load of each task compared with the heaviest."""
    state: Ints
    """Cost of loading each task, in units of state."""
    size: Floats
    """State of each task, in bytes."""
    home: Ints
    """The node that holds the task now; -1: one that must be left empty."""
    copies: dict[int, list[int]]
    """The nodes that have a copy of a task's state."""
    stage: Ints
    query: Ints
    """The query of each stage."""
    slots: Floats
    memory: Floats
    seat: Floats
    """How many slots each task keeps all the time: one, or none."""
    seats: Floats
    nodes: Ints
    """The problem's own number of each node."""
    allowed: int
    """How many nodes may hold tasks."""
    most_batch: Floats
    least: Floats
    """Of each stage: every plan has this much work on a slot of some node."""
    most: Floats
    """Of each stage: no plan has more on a slot of any node."""
    most_busy: float
    state_unit: Fraction

    @classmethod
    def of(cls, problem: StepProblem) -> StagedStep:
        """Return the problem as arrays; some node must have a slot."""
        nodes = _useful(problem)
        number = {int(node): index for index, node in enumerate(nodes)}
        count = problem.nodes_after
        copies: dict[int, list[int]] = {}
        for task, node in sorted(problem.copies):
            if node in number:
                copies.setdefault(task, []).append(number[node])
        stage = np.array(problem.stages or (0,) * len(problem.work), dtype=np.int64)
        query = np.array(problem.queries or (0,) * (int(stage.max()) + 1), dtype=np.int64)
        state, unit, _ = whole_state(problem.state)
        unit_of_work = float(max(problem.work)) or 1.0
        work = np.array(problem.work, dtype=np.float64) / unit_of_work
        slots = np.array(problem.slots or (1,) * count, dtype=np.float64)[nodes]
        memory = np.array(problem.memory or (np.inf,) * count, dtype=np.float64)[nodes]
        seats = np.array(problem.seats or (np.inf,) * count, dtype=np.float64)[nodes]
        allowed = min(problem.target.nodes, len(nodes))
        limits, more = Limits.of(problem), 1 + LOAD_TOLERANCE
        batch, stages, (busy,) = (
            np.array([limit / unit_of_work * more for limit in each])
            for each in (limits.batches, limits.stages, (limits.busiest,))
        )
        least = np.array(
            [least_length(work[stage == s], slots, allowed)[0] for s in range(len(query))]
        )
        slack = batch - np.bincount(query, least, len(batch))
        most = np.minimum(stages, np.maximum(0, slack)[query] + least)
        return cls(
            work, state, np.array(problem.state, dtype=np.float64),
            np.array([number.get(node, -1) for node in problem.current.nodes_of_tasks]),
            copies, stage, query, slots, memory, np.array(problem.seated, dtype=np.float64),
            seats, nodes, allowed, batch, least, np.minimum(most, busy), float(busy), unit,
        )  # fmt: skip

    def costs(self, task: int) -> Ints:
        """Return what loading the task costs on each node."""
        cost = np.full(len(self.nodes), self.state[task])
        if self.home[task] >= 0:
            cost[self.home[task]] = 0
        cost[self.copies.get(task, [])] = 0
        return cost

    def away(self, place: Ints) -> Flags:
        """Return which tasks load their state when task j goes to ``place[j]``."""
        away = np.asarray(place != self.home)
        for task, nodes in self.copies.items():
            away[task] &= int(place[task]) not in nodes
        return away

    def cost(self, place: Ints) -> int:
        """Return the state that is loaded."""
        return int(self.state[self.away(place)].sum())


def least_length(work: Floats, slots: Floats, allowed: int) -> tuple[float, int]:
    """Return the least time of the tasks on ``allowed`` nodes, by counting.

    Work cannot be spread better than evenly; and of the ``q * allowed + 1`` longest tasks,
    ``q + 1`` share a node, whatever q. Returned is this number of tasks as well, or 0 where the
    work decides.
    """
    if not len(work):
        return 0.0, 0
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-work))])
    shared = np.arange((len(work) - 1) // allowed + 1)
    last = shared * allowed + 1
    crowded = (sums[last] - sums[last - shared - 1]) / slots.max()
    even = float(sums[-1] / np.sort(slots)[-allowed:].sum())
    most = int(crowded.argmax())
    if crowded[most] <= even * (1 + LOAD_TOLERANCE):
        return even, 0
    return float(crowded[most] * (1 - LOAD_TOLERANCE)), most + 1


def _useful(problem: StepProblem) -> Ints:
    """Return the nodes with slots; of idle ones that are alike as many as there are tasks."""
    count, tasks = problem.nodes_after, len(problem.work)
    slots = problem.slots or (1,) * count
    memory, seats = problem.memory or (0,) * count, problem.seats or (0,) * count
    held = set(problem.current.nodes_of_tasks) | {node for _, node in problem.copies}
    seen: Counter[object] = Counter()
    useful = []
    for node in range(count):
        kind = (slots[node], memory[node], seats[node])
        seen[kind] += node not in held
        if slots[node] and (node in held or seen[kind] <= tasks):
            useful.append(node)
    return np.array(useful, dtype=np.int64)
