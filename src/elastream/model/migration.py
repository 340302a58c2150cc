"""Problems: tasks with load and state, where they are, and how many nodes there shall be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from elastream.model.assignment import MOST_NODES, Assignment
from elastream.model.checks import (
    Number,
    Numbers,
    abbreviate,
    count,
    non_negative,
    non_negatives,
    positive,
)
from elastream.model.errors import ProblemError

LOAD_TOLERANCE = 1e-9
"""Relative slack on the load limit, so that sums which only differ by rounding count as equal."""

Copies = frozenset[tuple[int, int]]
"""Pairs of a task and a node that has a copy of its state."""

Within = Literal["batch", "stage"]
"""What the threshold holds for: the stages of a query together, or each of them."""
_WITHIN: Final = get_args(Within)


def exact_sum(numbers: Iterable[Number]) -> Number:
    """Return the sum: whole where all numbers are whole, else rounded once at the end."""
    terms = tuple(numbers)
    total = sum(terms)
    return total if type(total) is int else math.fsum(terms)


@dataclass(frozen=True, slots=True)
class Target:
    """What one migration must reach."""

    nodes: int
    """How many nodes may hold tasks afterwards (n'), at least 1."""
    tau: Number
    """Load-balancing threshold: a node may hold ``(1 + tau)`` times the mean load."""

    @classmethod
    def of(cls, nodes: object, tau: object, field: str = "") -> Target:
        """Return the checked target; ``field`` is what stands before the names of its fields."""
        return cls(
            count(f"{field}nodes", nodes, least=1, most=MOST_NODES),
            non_negative(f"{field}tau", tau),
        )

    def limit(self, total_work: Number) -> float:
        """Return the most work a node may hold (definition 3.1 of paper 000)."""
        return float((1 + self.tau) * total_work / self.nodes)


@dataclass(frozen=True, slots=True)
class StepProblem:
    """One migration (definition 3.2 of paper 000): where tasks are, and what must hold after."""

    work: tuple[Number, ...]
    """Load of each task (w_j), in any one unit; executor seconds a second on Spark."""
    state: tuple[Number, ...]
    """State size of each task (\\|s_j\\|), in bytes."""
    current: Assignment
    """Where the tasks are now."""
    target: Target
    copies: Copies = frozenset()
    """Where copies of state are: a task that goes to one loads nothing. None is on its task's own
    node, and all nodes are in ``range(nodes_after)``."""
    stages: tuple[int, ...] = ()
    """The stage of each task, numbered from 0 without gaps; empty: one stage. Tasks of one stage
    run at the same time, stages of one query one after another."""
    queries: tuple[int, ...] = ()
    """The query of each stage, numbered from 0 without gaps; empty: one query."""
    slots: tuple[Number, ...] = ()
    """How many tasks each of ``nodes_after`` nodes runs at a time; empty: one. A node with none
    must be left empty."""
    memory: tuple[Number, ...] = ()
    """The most state each of ``nodes_after`` nodes may hold; empty: no limit."""
    within: Within = "batch"
    most_batch: tuple[Number, ...] = ()
    """The longest that a batch of each query may take, in place of ``tau``'s limit."""
    most_busy: Number | None = None
    """The most work of all stages together on a slot of any node."""
    lasting: frozenset[int] = frozenset()
    """Stages whose tasks never end, in Real-time Mode: each keeps a slot of its node."""
    seats: tuple[int, ...] = ()
    """How many tasks of lasting stages each of ``nodes_after`` nodes has slots for; empty: no
    limit."""

    @classmethod
    def of(
        cls,
        work: Numbers,
        state: Numbers,
        current: Assignment | Sequence[Sequence[int]] | Sequence[int],
        nodes: int,
        tau: Number,
        copies: Iterable[tuple[int, int]] = (),
    ) -> StepProblem:
        """Return the checked problem; ``current`` may be intervals or the node of each task.

        A copy of a task's state on the task's own node is left out.
        """
        loads, sizes = _tasks(work, state)
        assignment = _current(current, len(loads))
        target = Target.of(nodes, tau)
        known = _copies(copies, assignment, max(assignment.nodes, target.nodes))
        return cls(loads, sizes, assignment, target, known)

    @classmethod
    def of_stages(
        cls,
        work: Numbers,
        state: Numbers,
        current: Sequence[int],
        nodes: int,
        tau: Number,
        *,
        stages: Sequence[int] = (),
        slots: Numbers = (),
        memory: Numbers = (),
        within: object = "batch",
    ) -> StepProblem:
        """Return the checked problem of one query with several stages.

        ``slots`` and ``memory`` are of the nodes that remain, the first ``nodes``.
        """
        plain = cls.of(work, state, current, nodes, tau)
        remaining, after = plain.target.nodes, plain.nodes_after
        leaving = (0,) * (after - remaining)
        if within not in _WITHIN:
            raise ProblemError("within", f"{abbreviate(within)} is not one of {', '.join(_WITHIN)}")
        each: tuple[Number, ...] = (1,) * remaining
        if len(slots):
            each = tuple(
                positive(f"slots[{i}]", number)
                for i, number in enumerate(non_negatives("slots", slots, length=remaining))
            )
        most = non_negatives("memory", memory, length=remaining) if len(memory) else ()
        uneven = len(slots) or most
        return replace(
            plain,
            stages=_stages(stages, len(plain.work)),
            slots=(*each, *leaving) if uneven else (),
            memory=(*most, *leaving) if most else (),
            within="stage" if within == "stage" else "batch",
        )

    @property
    def limit(self) -> float:
        """The most work a node may hold."""
        return self.target.limit(exact_sum(self.work))

    @property
    def plain(self) -> bool:
        """Whether one limit on the work of a node is all there is: the papers' problem."""
        single = not self.stages or max(self.stages) == 0
        limits = self.memory or self.seats or self.most_batch or self.most_busy is not None
        return single and not limits and all(slots == 1 for slots in self.slots)

    @property
    def consecutive(self) -> bool:
        """Whether every node holds consecutive tasks of each stage."""
        if not self.stages:
            return self.current.intervals is not None
        last: dict[int, int] = {}
        seen: set[tuple[int, int]] = set()
        for stage, node in zip(self.stages, self.current.nodes_of_tasks, strict=True):
            if last.get(stage) != node:
                if (stage, node) in seen:
                    return False
                seen.add((stage, node))
                last[stage] = node
        return True

    @property
    def nodes_after(self) -> int:
        """How many nodes a plan numbers: added nodes come after the current ones."""
        return max(self.current.nodes, self.target.nodes)

    @property
    def seated(self) -> tuple[int, ...]:
        """How many slots each task keeps: one, or none."""
        stages = self.stages or (0,) * len(self.work)
        return tuple(int(stage in self.lasting) for stage in stages)

    def loaded(self, task: int, node: int) -> Number:
        """Return the state that the task has to load on the node, in bytes."""
        there = node == self.current.nodes_of_tasks[task] or (task, node) in self.copies
        return 0 if there else self.state[task]


def _tasks(work: Numbers, state: Numbers) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
    checked = non_negatives("work", work)
    if not checked:
        raise ProblemError("work", "is empty; give at least one task")
    return checked, non_negatives("state", state, length=len(checked))


def _current(
    current: Assignment | Sequence[Sequence[int]] | Sequence[int], tasks: int
) -> Assignment:
    if isinstance(current, Assignment):
        assignment = current
    elif not isinstance(current, Sequence) or isinstance(current, str | bytes):
        raise ProblemError("current", f"{abbreviate(current)} is not a list")
    elif current and all(isinstance(entry, int) for entry in current):
        assignment = Assignment.from_nodes([entry for entry in current if isinstance(entry, int)])
    else:
        assignment = Assignment.from_intervals(current, tasks=tasks)  # type: ignore[arg-type]
    if len(assignment.nodes_of_tasks) != tasks:
        held = len(assignment.nodes_of_tasks)
        raise ProblemError("current", f"places {held} tasks where there are {tasks}")
    return assignment


def _stages(stages: Sequence[int], tasks: int) -> tuple[int, ...]:
    if not len(stages):
        return ()
    if len(stages) != tasks:
        raise ProblemError("stages", f"has {len(stages)} entries where {tasks} are needed")
    checked = tuple(count(f"stages[{j}]", stage, most=tasks - 1) for j, stage in enumerate(stages))
    missing = set(range(max(checked) + 1)) - set(checked)
    if missing:
        raise ProblemError("stages", f"has no task of stage {min(missing)}: number them from 0")
    return checked


def _copies(copies: object, current: Assignment, nodes: int) -> Copies:
    if not isinstance(copies, Iterable) or isinstance(copies, str | bytes):
        raise ProblemError("copies", f"{abbreviate(copies)} is not a list")
    tasks = len(current.nodes_of_tasks)
    checked = [_copy(f"copies[{i}]", pair, tasks, nodes) for i, pair in enumerate(copies)]
    return frozenset(pair for pair in checked if current.nodes_of_tasks[pair[0]] != pair[1])


def _copy(field: str, pair: object, tasks: int, nodes: int) -> tuple[int, int]:
    if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
        raise ProblemError(field, f"{abbreviate(pair)} is not a pair of task and node")
    task = count(f"{field}[0]", pair[0], most=tasks - 1)
    return task, count(f"{field}[1]", pair[1], most=nodes - 1)
