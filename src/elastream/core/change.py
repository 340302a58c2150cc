"""A change: what was decided, how far it has come, and where it leads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from elastream.core.application import Query
from elastream.core.goal import Purpose
from elastream.model.observation import TaskId

ChangeKind = Literal["scale-out", "scale-in", "rebalance", "move"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a migration has come."""

    tasks_moved: int = 0
    bytes_moved: int = 0
    tasks_ahead: int = 0
    """How many of them had been copied ahead, and loaded nothing."""
    bytes_ahead: int = 0
    copied_from_storage: int = 0
    """Bytes that were loaded from the checkpoint for copies, also for some that were not used."""
    copied_from_executors: int = 0
    """Bytes that came for copies from the executors that own the state."""
    batches: int = 0
    """Batches of the queries that move, from the first move on."""
    worst_ms: Mapping[str, float] = field(default_factory=dict)
    """The longest of them, by query."""
    before_ms: Mapping[str, float] = field(default_factory=dict)
    """Median of a query's last batches before its first move."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a change is expected to bring, or has brought."""

    batch_ms: Mapping[str, float] = field(default_factory=dict)
    """How long a batch of each query takes that the change concerns."""
    busiest: float | None = None
    """The share of its slots' time for which the busiest executor works."""


@dataclass(frozen=True, slots=True)
class CalmCosts:
    """What a batch of a query costs while no executor starts: the median of recent ones."""

    overhead_ms: float
    """Time outside its stages."""
    waited_ms: float
    """Time for which its stages wait for slots that others hold."""
    row_ms: float
    """Slot time of a row in all stages."""
    rows: float
    """Rows that it reads."""
    outside_ms: float = 0.0
    """Slot time of its tasks without state."""
    outside_length_ms: float = 0.0
    """How long they take where they run, spread evenly: a part of ``overhead_ms``."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was decided."""

    kind: ChangeKind
    before: int
    """Executors alive then."""
    executors: int
    """Executors that there should be."""
    reason: str
    asked_ms: int | None = None
    tau: float | None = None
    """How uneven the load may be afterwards; ``None``: as the policy has it."""
    placement: Mapping[TaskId, str] | None = None
    """Where tasks shall be; ``None``: as a plan will say."""
    purpose: Purpose | None = None
    """What it must reach; ``None``: what ``tau`` asks for."""
    prediction: Prediction | None = None
    """What a plan says that it will bring."""
    replans: int = 0
    """How often it had to be planned again."""
    usual_ms: Mapping[str, float] = field(default_factory=dict)
    """Median of each query's last batches before it was decided."""
    calm: Mapping[str, CalmCosts] = field(default_factory=dict)
    """What each query cost before it was decided."""
    progress: Progress = Progress()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change that has ended, until it is logged."""

    change: Change
    reason: str
    figures: Mapping[str, Any]
    """As they were when it ended."""
    since_ms: int | None
    after_ms: Mapping[str, tuple[float, ...]]
    """Durations of the batches since then, of each query it concerned."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A kind of change that did not help, and what the application was like after it."""

    tries: int
    executors: int
    tasks: int
    work: float


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a change leads."""

    goal: Mapping[TaskId, str]
    """Where every task shall be."""
    order: Mapping[str, tuple[TaskId, ...]]
    """Of each query the tasks that move, in the order of their mini-migrations."""
    leaving: tuple[str, ...] = ()
    """Executors to be released once they hold nothing."""
    nodes: frozenset[str] = frozenset()
    """The executors that the goal needs."""
    ahead: frozenset[TaskId] = frozenset()
    """Tasks whose state is on their executor already: they load nothing."""
    later: Destination | None = None
    """Where the change leads in the end, where this is but a round of it."""
    _missing: dict[str, tuple[Query, tuple[TaskId, ...]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """What was missing of each query as it was when it was last asked about."""

    @classmethod
    def of(
        cls, goal: Mapping[TaskId, str], moving: Iterable[TaskId], leaving: tuple[str, ...] = ()
    ) -> Destination:
        """Return the target of a plan that moves these tasks, in this order."""
        order: dict[str, list[TaskId]] = {}
        for task in moving:
            order.setdefault(task.query, []).append(task)
        tuples = {query: tuple(tasks) for query, tasks in order.items()}
        return cls(goal, tuples, leaving, frozenset(goal.values()))

    def missing(self, query: Query) -> tuple[TaskId, ...]:
        """Return the tasks of a query that are not where they should be, those to move first.

        O(tasks), once for each batch of it: between those a query is the same value.
        """
        seen, missing = self._missing.get(query.name, (None, ()))
        if seen is query:
            return missing
        goal, known = self.goal, query.load.tasks
        away = {task: None for task in known if task in goal and query.where(task) != goal[task]}
        if away:
            first = {task: None for task in self.order.get(query.name, ()) if task in away}
            away = first | away
        self._missing[query.name] = query, tuple(away)
        return tuple(away)

    def without(self, query: str) -> Destination:
        """Return the target of the other queries."""
        goal = {task: node for task, node in self.goal.items() if task.query != query}
        order = {name: tasks for name, tasks in self.order.items() if name != query}
        later = None if self.later is None else self.later.without(query)
        nodes = frozenset(goal.values()) | (frozenset() if later is None else later.nodes)
        return replace(self, goal=goal, order=order, nodes=nodes, later=later)
