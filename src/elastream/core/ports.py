"""What the loop needs of a runtime. Each port is a role; Spark and the simulation play them.

An action has a :class:`Ticket`. It is checked before each thing that cannot be undone, and while
waiting. Once it is cancelled, nothing more is begun, and what came of the action is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from elastream.core.events import Fact
from elastream.core.learning import Learnt, Lesson
from elastream.core.policy import CopySource as CopySource
from elastream.core.ticket import Ticket as Ticket
from elastream.model.observation import Executor, TaskId


class Monitor(Protocol):
    """Reports what the application does."""

    def subscribe(self, listener: Callable[[Fact], None]) -> Callable[[], None]:
        """Call ``listener`` with every fact, in order, from now on; return how to unsubscribe.

        The queries that take part already come first. A batch is reported once, between two batches
        of its query, and the :class:`~elastream.core.events.Status` every second.
        """


class ExecutorPool(Protocol):
    """Brings executors and takes them away."""

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that are alive, oldest first."""

    def grow(self, total: int, *, timeout_s: float, ticket: Ticket) -> tuple[Executor, ...]:
        """Ask for ``total`` executors and return those alive when they came, or at the timeout.

        Where fewer came, the request is taken back; where it was given up, also what came of it.
        """

    def warm(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Make the executors ready for state, so that the first move to them costs no start."""

    def release(self, ids: Sequence[str], *, ticket: Ticket) -> None:
        """Take the executors away; refused while one of them holds state that a batch needs."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What came of placing tasks."""

    idle: bool
    """Whether the query was idle all the while: then nothing can have overtaken it."""
    ahead: frozenset[TaskId] = frozenset()
    """The tasks whose executors took over a copy of their state: they load nothing."""


class StatePlacement(Protocol):
    """Sets where state lives."""

    def place(
        self, query: str, wanted: Mapping[TaskId, str], *, lost: Sequence[str] = (), ticket: Ticket
    ) -> Placed:
        """Prefer these executors for these tasks from the query's next batch on.

        Tasks of the batch under way that wait for an executor that is ``lost`` go there at once.
        """


@dataclass(frozen=True, slots=True)
class Copied:
    """What came of copying state."""

    tasks: frozenset[TaskId] = frozenset()
    """Those whose state is where it was asked for, whole."""
    bytes_from_storage: int = 0
    """What was loaded from the checkpoint for it."""
    bytes_from_executors: int = 0
    """What came from the executors that own the state."""
    why: str | None = None
    """Why the state of a task is not; ``None`` where that of all is."""
    choice: str = ""
    """Why the bytes came from where they came from; empty where there is nothing to say."""
    link_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    """What the link of each executor was seen to carry, by executor; empty where no executor sent
    much."""

    @property
    def bytes(self) -> int:
        """What came from wherever it was."""
        return self.bytes_from_storage + self.bytes_from_executors


class StateCopies(Protocol):
    """Brings copies of state to executors, ahead of its tasks.

    A copy follows every batch that commits. A task that is placed on its executor takes it over.
    """

    def copy(
        self,
        wanted: Mapping[TaskId, str],
        *,
        soon: bool,
        source: CopySource = "storage",
        ticket: Ticket,
    ) -> Copied:
        """Copy the state of these tasks to these executors, and drop all other copies.

        They travel in this order, as far as executors are free. Returns when each is there, or
        known not to come. ``soon``: whether tasks will move to them soon, so that it matters how
        quickly they are taken over.
        """

    def drop(self) -> None:
        """Drop every copy that was not taken over."""


@dataclass(frozen=True, slots=True)
class Paused:
    """What came of stopping a query to repartition it; it runs again."""

    began_ms: int
    """When it was asked to stop, by the loop's clock."""
    spent_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds until it was started again, by what they were spent on."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """What came of a query that was stopped, and could not be started again: it stays stopped."""

    why: str
    """In one sentence, with the query, its checkpoint and what starts it."""


class Repartitioner(Protocol):
    """Changes the number of partitions of a query, which pauses for it."""

    def repartition(
        self, query: str, partitions: int, places: Mapping[TaskId, str], *, ticket: Ticket
    ) -> Paused:
        """Return when the query runs again; raise where it was not repartitioned, and say why.

        ``places``: the executors that its tasks shall be on then.
        The ticket is looked at before the query is asked to stop, and never after: a query that
        was stopped is started again. Raises ``QueryStoppedError`` where that does not succeed.
        """


class DelayProbe(Protocol):
    """Measures how far hosts are from each other."""

    def round_trips_ms(self, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
        """Return the round trip from the first host of each pair to the second.

        A pair that gave no answer is left out.
        """


class Learner(Protocol):
    """Works out lessons, which takes a while."""

    def learn(self, lesson: Lesson, *, ticket: Ticket) -> Learnt:
        """Return what the past teaches about the changes to come."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The ports of one runtime; ``None`` where it has no such port."""

    monitor: Monitor
    pool: ExecutorPool
    placement: StatePlacement
    probe: DelayProbe | None = None
    learner: Learner | None = None
    copies: StateCopies | None = None
    repartitioner: Repartitioner | None = None
