"""Events, which the loop receives, and instructions, which its driver carries out; both are data.

The loop itself calls nothing (the idea of dask's worker state machine), so every run can be
replayed from its events. An instruction that takes time carries a ticket, and so does the event
that answers it. A ticket that the loop gives up is cancelled: it is checked before and during the
action, and an answer that comes all the same is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elastream.core.application import Observed
from elastream.core.decisions import Decision
from elastream.core.goal import Question
from elastream.core.learning import Lesson
from elastream.core.policy import Policy
from elastream.core.routes import RouteOrder
from elastream.core.samples import Sample, take_sample
from elastream.model.observation import (
    BatchObservation,
    Executor,
    ExecutorMemory,
    LoadObservation,
    OperatorGraph,
    TaskId,
)


@dataclass(frozen=True, slots=True)
class QueryJoined:
    """A query takes part from now on, or goes on in a new run."""

    at_ms: int
    query: str
    run: str
    graph: OperatorGraph = field(default_factory=OperatorGraph)
    tasks: int = 0
    """How many tasks a whole batch of it shows."""
    trigger_ms: float | None = None
    """How often its batches shall begin; ``None``: as soon as the one before has ended."""
    realtime: bool = False
    """Whether it runs in Real-time Mode: all stages of a batch run at once, each batch lasts for
    ``trigger_ms``, and only the boundary between two of them can move a task."""
    slots: int = 0
    """How many slots a Real-time batch takes, all at once; 0 for other queries."""


@dataclass(frozen=True, slots=True)
class QueryLeft:
    """A query has ended, or was let go."""

    at_ms: int
    query: str
    run: str
    why: str


@dataclass(frozen=True, slots=True)
class QueryPassedOver:
    """A query was found that cannot be steered; it is left alone."""

    at_ms: int
    query: str
    why: str


@dataclass(frozen=True, slots=True)
class QueryRestarted:
    """What comes of a Real-time query that failed for a lost executor or too few slots."""

    at_ms: int
    query: str
    why: str
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchObserved:
    """A batch has committed; the next of the same query may have begun."""

    batch: BatchObservation

    @property
    def at_ms(self) -> int:
        """When it committed."""
        return self.batch.finished_at_ms


@dataclass(frozen=True, slots=True)
class LoadObserved:
    """A look at a batch under way of a Real-time query: its load, and where its tasks run."""

    load: LoadObservation

    @property
    def at_ms(self) -> int:
        """When it was taken."""
        return self.load.at_ms


@dataclass(frozen=True, slots=True)
class BoundaryNear:
    """A batch of a Real-time query ends within about a second: the moment to place its tasks.

    Earlier Spark's maintenance would unload the state that the batch still uses; later the next
    batch has chosen its executors. It is reported once for each batch.
    """

    at_ms: int
    query: str
    run: str
    ends_at_ms: int
    """When its sources stop reading."""


@dataclass(frozen=True, slots=True)
class ExecutorsChanged:
    """Executors came, were lost, or became warm."""

    at_ms: int
    executors: tuple[Executor, ...]
    """Those alive now, oldest first."""


@dataclass(frozen=True, slots=True)
class Status:
    """Periodic status between batches."""

    at_ms: int
    idle: frozenset[str] = frozenset()
    """The queries with no batch running and no rows to run one on, also those that have run none
    yet and so do not take part."""
    jobs: int = 0
    """Jobs that run in the application, of whatever query."""
    other_ms: Mapping[str, float] = field(default_factory=dict)
    """Run time by executor, since the status before, of tasks of no query that takes part."""
    dropped: int = 0
    """Events lost since the status before, because there were too many."""
    memory: Mapping[str, ExecutorMemory] = field(default_factory=dict)
    """Of the executors that are alive, by id, as far as it is known."""


@dataclass(frozen=True, slots=True)
class CopiesLost:
    """Copies of state that were there are gone: their executors have dropped them."""

    at_ms: int
    copies: Mapping[TaskId, str]
    """The executors that had them, by task."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, by the loop's own clock."""

    at_ms: int
    wall_ms: int | None = None
    """The machine's clock then, which may be set; ``None``: the same."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an instruction with a ticket."""

    ticket: int
    result: Any
    """What the instruction says, or a :class:`~elastream.core.goal.Failure`."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """A call on the runtime does not come back; its worker was replaced."""

    at_ms: int
    what: str
    after_s: float
    back: bool = False
    """Whether it came back after all; what it had done was undone."""


@dataclass(frozen=True, slots=True)
class ScaleRequested:
    """A person asks for a number of executors, without patience and cooldown."""

    executors: int
    tau: float | None = None
    """How uneven the load may be afterwards; ``None``: as the policy has it."""
    by: str | None = None
    """Who asked; ``None`` for the program itself."""


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """A person, or a planner of theirs, asks for a placement."""

    goal: Mapping[TaskId, str]
    """The executor each of these tasks should be on; other tasks stay."""
    by: str | None = None
    """Who asked; ``None`` for the program itself."""


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """Decide nothing until resumed; give up what is under way, and go on watching."""

    by: str | None = None
    """Who asked; ``None`` for the program itself."""


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """Decide again."""

    by: str | None = None
    """Who asked; ``None`` for the program itself."""


@dataclass(frozen=True, slots=True)
class UpdateRequested:
    """Follow another policy, which has been checked, from now on."""

    policy: Policy
    by: str | None = None
    """Who asked; ``None`` for the program itself."""


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A person gave a command that cannot be carried out as a whole."""

    why: str
    by: str


@dataclass(frozen=True, slots=True)
class AbandonRequested:
    """Give up what is under way: what moved stays moved, the rest stays put."""

    why: str


@dataclass(frozen=True, slots=True)
class DetachRequested:
    """Leave the application alone from now on."""

    reason: str = "detached; the queries run on as they are"
    failed: bool = False
    """Whether a fault of the loop itself is the reason."""


@dataclass(frozen=True, slots=True)
class Grow:
    """Ask for executors. Answered by those alive when they came, or when the time was up."""

    ticket: int
    total: int
    """How many there should be in all."""


@dataclass(frozen=True, slots=True)
class Warm:
    """Make executors ready for state."""

    ticket: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Choose the tasks to move. Answered by a :class:`~elastream.core.routes.Route`."""

    ticket: int
    order: RouteOrder
    tasks: tuple[TaskId, ...]
    """The task ids, by the order's task numbers."""
    nodes: tuple[str, ...]
    """The executor ids, by the order's node numbers."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take away executors that hold no state, or none that a running batch needs."""

    ticket: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """Bring copies of tasks' state to executors. Answered by :class:`~elastream.core.ports.Copied`.

    Copies that were brought before and are not among them are dropped.
    """

    ticket: int
    wanted: Mapping[TaskId, str]
    """In the order in which they shall travel."""
    soon: bool = True
    """Whether tasks will move to them soon."""


@dataclass(frozen=True, slots=True)
class DropCopies:
    """Drop the copies that no task has come to."""


@dataclass(frozen=True, slots=True)
class Place:
    """Prefer these executors for these tasks of one query, at once: between two of its batches.

    Answered by :class:`~elastream.core.ports.Placed`.
    """

    ticket: int
    query: str
    wanted: Mapping[TaskId, str]
    lost: tuple[str, ...] = ()
    """Executors that are gone: what a running batch would have run there goes elsewhere too."""


@dataclass(frozen=True, slots=True)
class Repartition:
    """Stop a query at a batch boundary, change its number of partitions, and start it again.

    Answered by :class:`~elastream.core.ports.Paused`.
    """

    ticket: int
    query: str
    partitions: int
    places: Mapping[TaskId, str] = field(default_factory=dict)
    """The executors that its tasks shall be on then."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer a goal's question."""

    ticket: int
    question: Question


@dataclass(frozen=True, slots=True)
class Learn:
    """Value partitions by what past changes taught. Answered by a planner, or why there is none."""

    ticket: int
    lesson: Lesson


@dataclass(frozen=True, slots=True)
class Rehearse:
    """Plan something of this size once, so that the first real plan finds all that it loads."""

    tasks: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The answer is no longer awaited: do not act on the ticket, undo what came of it."""

    ticket: int


@dataclass(frozen=True, slots=True)
class Log:
    """Write a decision."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class RecordSample:
    """Write a sample; it is taken where it is written, which may take a while."""

    observed: Observed
    wanted: int
    """How many executors there should be."""

    @property
    def sample(self) -> Sample:
        """The sample."""
        return take_sample(self.observed, self.wanted)


Fact = (
    QueryJoined
    | QueryLeft
    | QueryPassedOver
    | QueryRestarted
    | BatchObserved
    | LoadObserved
    | BoundaryNear
    | ExecutorsChanged
    | Status
)
"""What the monitor reports."""
Request = (
    ScaleRequested
    | MoveRequested
    | PauseRequested
    | ResumeRequested
    | UpdateRequested
    | CommandRefused
    | AbandonRequested
    | DetachRequested
)
"""What somebody asks for."""
Event = Fact | CopiesLost | Tick | Answered | Stuck | Request
Action = Grow | Warm | Plan | Release | Copy | Place | Repartition | Ask | Learn
"""An instruction that takes its time and is answered by an event with its ticket."""
Instruction = Action | DropCopies | Rehearse | Cancel | Log | RecordSample
