"""The loop between two events: what it knows, what is under way, and what it has learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from elastream.core.application import Observed, Query
from elastream.core.change import Change, Destination, Doubt, Outcome
from elastream.core.decisions import Decision, Kind
from elastream.core.events import Event, Instruction, Log, MoveRequested, ScaleRequested
from elastream.core.goal import Need, Question
from elastream.core.learning import Learning
from elastream.core.next import Next
from elastream.core.partitions import Repartitioning, ShortageWatch
from elastream.core.policy import Policy
from elastream.core.store_memory import StoreMemory, store_memory
from elastream.model.observation import BatchObservation, Executor, ExecutorMemory, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(ABC):
    """What is under way; says what happens in it on every event."""

    change: Change | None = None
    """The change that it is a part of."""
    target: Destination | None = None
    """Where that change leads, once it is known."""
    ticket: int | None = None
    """Of the instruction whose answer it waits for."""
    since_ms: int | None = None
    """Since when it waits."""

    resting: ClassVar[bool] = False
    """Whether nothing is under way."""
    detached: ClassVar[bool] = False
    """Whether the loop has left the application."""
    moves_state: ClassVar[bool] = False
    """Whether its batches do not count as usual, because state moves or has just moved."""

    @abstractmethod
    def on(self, state: LoopState, event: Event) -> Turn:
        """Return what follows from ``event``, whose facts are in ``state`` already."""

    @property
    def name(self) -> str:
        """What it is called: ``steady``, ``growing``, ``moving`` and so on."""
        return type(self).__name__.lower()

    def waited_s(self, state: LoopState) -> float:
        """Return for how many seconds it has waited."""
        return state.passed_s(self.since_ms)

    def is_overdue(self, state: LoopState) -> bool:
        """Whether it has waited for longer than any action may take."""
        return self.waited_s(state) > state.action_s

    @property
    def leaving(self) -> frozenset[str]:
        """Executors that are being released: their end is not a loss."""
        return frozenset()

    @property
    def paused(self) -> str | None:
        """The query that is stopped now, to be started again."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached(Phase):
    """The loop has left the application."""

    detached: ClassVar[bool] = True

    def on(self, state: LoopState, event: Event) -> Turn:  # noqa: ARG002
        """Do nothing more."""
        return state, (), None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is decided until somebody resumes."""

    since_ms: int | None
    by: str | None = None
    """Who asked; ``None`` for the program itself."""


_RELIEF: Final[frozenset[Need]] = frozenset({"rebalance", "scale-out"})


@dataclass(frozen=True, slots=True)
class Signal:
    """What the goal has called for, again and again.

    A round is over when every query that runs has reported, so that one which reports many times a
    second does not outvote the others. A rebalance and a scale-out both relieve the busiest
    executor: a need that turns from one to the other lasts.
    """

    need: Need = "hold"
    rounds: int = 0
    """For how many rounds in a row."""
    reported: frozenset[str] = frozenset()
    """Queries that have reported in the round that is not over yet."""

    def said(self, need: Need, query: str, running: frozenset[str]) -> Signal:
        """Return the signal after a batch of ``query``; a round needs one of each ``running``."""
        lasts = need == self.need or {need, self.need} <= _RELIEF
        before = self if lasts else Signal(need)
        reported = before.reported | {query}
        if reported >= running:
            return Signal(need, before.rounds + 1)
        return Signal(need, before.rounds, reported)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is being done about spares, next to everything else."""

    ticket: int
    what: Literal["growing", "warming", "releasing"]
    since_ms: int | None
    ids: tuple[str, ...] = ()
    """The executors that are warmed or given back."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Tasks of a lost executor that were placed where their copies are."""

    query: str
    run: str
    """Its run then: what comes of it says nothing about the next one."""
    wanted: Mapping[TaskId, str]


@dataclass(frozen=True, slots=True)
class Standbys:
    """Copies of tasks' state that follow on other executors; in a change, those for its moves."""

    wanted: Mapping[TaskId, str] = field(default_factory=dict)
    """Where a copy was asked for."""
    there: frozenset[TaskId] = frozenset()
    """The tasks whose copy is there."""
    ticket: int | None = None
    """Of the last request, until it is answered."""
    since_ms: int | None = None
    failed_ms: int | None = None
    """When they were last not to be had."""
    recoveries: Mapping[int, Recovery] = field(default_factory=dict)
    """What was placed after a loss, by ticket, until it is answered."""
    leftover: bool = False
    """Whether executors may hold other copies too, such as of a query that has left."""

    def holder(self, task: TaskId) -> str | None:
        """Return the executor that has a copy of the task's state."""
        return self.wanted.get(task) if task in self.there else None

    def only(self, wanted: Mapping[TaskId, str]) -> Standbys:
        """Return those of the copies that stay where they are if these are wanted."""
        there = frozenset(task for task in self.there if self.holder(task) == wanted.get(task))
        kept = {task: wanted[task] for task in wanted if task in there}
        return replace(self, wanted=kept, there=there)

    def without(self, query: str) -> Standbys:
        """Return those of the other queries: a copy is of no use to the next run of its query."""
        wanted = {task: node for task, node in self.wanted.items() if task.query != query}
        there = frozenset(task for task in self.there if task.query != query)
        leftover = self.leftover or len(wanted) < len(self.wanted)
        return replace(self, wanted=wanted, there=there, leftover=leftover)

    def joined(self, wanted: Mapping[TaskId, str], tasks: Collection[TaskId]) -> Standbys:
        """Return what is there after these were wanted and copies of these tasks came."""
        kept = self.only(wanted)
        came = {task: node for task, node in wanted.items() if task in tasks}
        return replace(kept, wanted={**kept.wanted, **came}, there=kept.there | came.keys())


@dataclass(frozen=True, slots=True)
class Spans:
    """How many seconds phases took, for :mod:`elastream.core.scenes`."""

    last: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of the last change of each kind that has ended, phase by phase, in order."""
    present: Mapping[str, float] = field(default_factory=dict)
    """Of the change under way, those of its phases that are over."""
    since_ms: int | None = None
    """When the present phase began."""


@dataclass(frozen=True)
class LoopState:
    """The loop between two events."""

    policy: Policy
    phase: Phase
    memory: Any = None
    """What the goal remembers."""
    now_ms: int | None = None
    """The latest moment of an event."""
    wall_ahead_ms: int = 0
    """The machine's clock then, minus that: it may be set."""
    all_executors: tuple[Executor, ...] = ()
    """Those alive, oldest first; spares included."""
    spare_ids: frozenset[str] = frozenset()
    """Which of them are spares: kept ready, without state."""
    queries: Mapping[str, Query] = field(default_factory=dict)
    """Those that take part, by name."""
    other: Mapping[str, float] = field(default_factory=dict)
    """Cores that work of no query that takes part keeps busy, by executor."""
    executor_memory: Mapping[str, ExecutorMemory] = field(default_factory=dict)
    """What executors use, by id, as far as it is known."""
    status_ms: int | None = None
    """When the monitor last reported a status."""
    busy_ms: int | None = None
    """When a job was last seen to run."""
    jobs: int = 0
    signal: Signal = Signal()
    pause: Pause | None = None
    """``None`` where it decides."""
    changed_ms: int | None = None
    """When the last change ended, well or not."""
    outcome: Outcome | None = None
    """The last change, until it is held against its prediction and logged."""
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    """Kinds of changes that did not bring what was predicted."""
    abandoned_ms: int | None = None
    """When a change was last given up."""
    request: ScaleRequested | MoveRequested | None = None
    """Requested while something else was under way: it comes next."""
    questions: Mapping[int, Question] = field(default_factory=dict)
    """The goal's open questions, by ticket."""
    silent: bool = False
    """Whether the monitor has reported nothing for too long."""
    learning: Learning = field(default_factory=Learning)
    sampled_ms: int | None = None
    """When the last sample was taken."""
    unsampled: int = 0
    """Batches since then."""
    preparation: Preparation | None = None
    falling: bool = False
    """Whether the last change gave executors back, and no scale-out has been near since."""
    spare_failed_ms: int | None = None
    """When a spare was last not to be had."""
    attached_ms: int | None = None
    executor_s: float = 0.0
    """What executors have cost since then, spares included."""
    spare_executor_s: float = 0.0
    """What spares have cost so far."""
    can_copy: bool = False
    """Whether the runtime can copy state ahead of its task."""
    link_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    """What the links of executors were seen to carry when state was sent, by executor."""
    standbys: Standbys = Standbys()
    copied: bool = False
    """Whether copies were asked for that may still be there."""
    shortages: Mapping[str, ShortageWatch] = field(default_factory=dict)
    """What was seen of the partitions of queries, by name."""
    repartitionings: Mapping[str, Repartitioning] = field(default_factory=dict)
    """The last change of the number of partitions of each query, by name."""
    paused_ms: int | None = None
    """When a query was last asked to pause for one."""
    shown_ms: int | None = None
    """When the last scene was taken."""
    unshown: tuple[BatchObservation, ...] = ()
    """Batches since then."""
    said_single_step: str | None = None
    """Why the planner's values were of no use to the last plan: logged once, until that changes."""
    spans: Spans = field(default_factory=Spans)
    next_ticket: int = 1

    @cached_property
    def observed(self) -> Observed:
        """What the goal sees."""
        return Observed(
            now_ms=self.now_ms,
            wall_ahead_ms=self.wall_ahead_ms,
            bounds=self.policy.bounds_for(self._state_bytes, self.store_memory),
            executors=self.executors,
            queries=self.queries,
            other=self.other,
            busy_ms=self.busy_ms,
            jobs=self.jobs,
        )

    @property
    def store_memory(self) -> StoreMemory | None:
        """What state stores use of memory and may use; ``None`` where the limit is not known."""
        return store_memory(self.executors, self.executor_memory, self.queries.values())

    @property
    def _state_bytes(self) -> float:
        """The state that executors have to hold: of idle queries it is in the checkpoint."""
        queries = self.queries.values()
        return sum(query.load.state_bytes for query in queries if not query.idle)

    @property
    def alive(self) -> frozenset[str]:
        """Ids of the executors at work."""
        return self.observed.alive

    @cached_property
    def executors(self) -> tuple[Executor, ...]:
        """Those at work, oldest first: all that are alive, but the spares."""
        if not self.spare_ids:
            return self.all_executors
        return tuple(each for each in self.all_executors if each.id not in self.spare_ids)

    @cached_property
    def spares(self) -> tuple[Executor, ...]:
        """Those kept ready without state, oldest first."""
        return tuple(each for each in self.all_executors if each.id in self.spare_ids)

    @property
    def running(self) -> frozenset[str]:
        """The queries that are expected to report: neither idle nor late."""
        now_ms = self.now_ms or 0
        return frozenset(
            name for name, query in self.queries.items() if not (query.idle or query.late(now_ms))
        )

    @property
    def unseen(self) -> tuple[str, ...]:
        """The queries that run and have not shown where their tasks are."""
        running = self.running
        return tuple(
            query.name
            for query in self.queries.values()
            if query.tasks and not query.load.tasks and query.name in running
        )

    @property
    def action_s(self) -> float:
        """How long any one action may take: some end with the batch of a Real-time query."""
        batches = (q.trigger_ms or 0.0 for q in self.queries.values() if q.realtime)
        return self.policy.timeouts.action_s + max(batches, default=0.0) / 1000

    def with_query(self, query: Query) -> LoopState:
        """Return the state with one query as it is now."""
        return replace(self, queries={**self.queries, query.name: query})

    def ticketed(self) -> tuple[LoopState, int]:
        """Return the state after a ticket was taken, and the ticket."""
        return replace(self, next_ticket=self.next_ticket + 1), self.next_ticket

    def on_the_wall(self, at_ms: int) -> int:
        """Return a moment by the machine's clock."""
        return at_ms + self.wall_ahead_ms

    def passed_s(self, since_ms: int | None) -> float:
        """Return the seconds since a moment."""
        if since_ms is None or self.now_ms is None:
            return 0.0
        return (self.now_ms - since_ms) / 1000

    def is_recent(self, at_ms: int | None, seconds: float) -> bool:
        """Whether something has happened within the last seconds."""
        return at_ms is not None and self.passed_s(at_ms) < seconds


Transition = tuple[LoopState, tuple[Instruction, ...]]
"""What a step returns: the state after it, and what the driver shall do."""
Turn = tuple[LoopState, tuple[Instruction, ...], Next | None]
"""What a phase returns: the same, and what is next; ``None`` where the state's phase goes on."""


def note(
    state: LoopState,
    kind: Kind,
    reason: str,
    *,
    query: str | None = None,
    utilisation: float | None = None,
    figures: Mapping[str, Any] | None = None,
) -> Log:
    """Return the instruction to log a decision taken in ``state``."""
    about = None if query is None else state.queries.get(query)
    return Log(
        Decision(
            at_ms=state.observed.wall_ms,
            batch=None if about is None else about.load.batch,
            kind=kind,
            reason=reason,
            executors=len(state.all_executors),
            query=query,
            utilisation=None if utilisation is None else round(utilisation, 4),
            figures=figures or {},
        )
    )
