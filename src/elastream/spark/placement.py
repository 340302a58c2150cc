"""Where state lives, and how it is made to live elsewhere.

Papers 000 (section 5) and 001 (section 3) move a task by changing the routing table, shipping its
state through a file server, buffering its tuples until the state is there and rerouting those that
went to the old node. Spark has most of this already:

* the routing table is the driver's state-store coordinator, which remembers the executor that
  loaded each store last, and which the scheduler asks where a task should run;
* the file server is the checkpoint; the executor that gets a task loads its state from there;
* the waiting buffer is the task's shuffle blocks, which are read when the state is loaded.

A move is one entry of that map, changed between two batches. The rerouter is not needed: the map
is read once a batch, when the stage is scheduled, so that no row ever goes to an old place.

A task reports its own executor to the coordinator as it starts, so that a report made while tasks
of the same batch are starting can be overwritten. Therefore: report at the boundary between two
batches, look after the next batch where the task really ran, and report again until it holds, a
bounded number of times.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from elastream.control.observation import BatchObservation, TaskId
from elastream.model.errors import ProblemError, QueryRefusedError, SparkError
from elastream.spark.private_door import ExecutorEntry, PrivateDoor, StatefulOperator
from elastream.spark.task_events import lead_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.monitor import Monitor

__all__ = ["Asked", "GivenUp", "StatePlacement", "await_operators", "settle"]

_log = logging.getLogger(__name__)

_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A task that did not go where it was asked to."""

    task: TaskId
    wanted: str
    """The executor it was asked to go to."""
    actual: str | None
    """The executor that holds it; ``None`` where no batch has told yet."""
    why: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A task that was asked to go to an executor and has not been seen there yet."""

    executor: str
    actual: str | None
    """Where it ran last; ``None`` where no batch has told yet."""
    tries: int = 1
    """How many times it was asked."""


class StatePlacement:
    """Reads and sets the executor of every task of one run of a query.

    ``given_up`` is called, in the monitor's thread, for each task that did not go where it was
    asked to within ``tries`` batches, or whose executor died meanwhile.
    """

    def __init__(
        self,
        door: PrivateDoor,
        query: StreamingQuery,
        monitor: Monitor,
        *,
        tries: int = _TRIES,
        given_up: Callable[[GivenUp], None] | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        self._door = door
        self._tries = tries
        self._given_up = given_up or _warn
        self.operators = await_operators(door, query, timeout_s=timeout_s)
        self._stores = _stores(door, self.operators)
        self._asked: dict[TaskId, Asked] = {}
        self._changed = threading.Condition()
        self.close = monitor.subscribe(self._verify)

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """Every task of the query, in order."""
        return tuple(self._stores)

    @property
    def unsettled(self) -> dict[TaskId, str]:
        """The tasks that were asked to go somewhere and have not been seen there yet."""
        with self._changed:
            return {task: asked.executor for task, asked in self._asked.items()}

    def where(self) -> dict[TaskId, str]:
        """Return the executor id of every task whose executor is alive.

        That is where its last batch ran, not where it was asked to go.
        """
        alive = {executor.id for executor in self._door.executors()}
        with self._changed:
            found = {task: self._actual(task) for task in self._stores}
        return {task: executor for task, executor in found.items() if executor in alive}

    def place(self, wanted: Mapping[TaskId, str]) -> None:
        """Prefer these executors for these tasks from the next batch on.

        The whole request is refused where it names a task or an executor that does not exist.
        """
        alive = {executor.id: executor for executor in self._door.executors()}
        for task, executor in wanted.items():
            if task not in self._stores:
                raise ProblemError("wanted", f"the query has no task {tuple(task)}")
            if executor not in alive:
                raise SparkError(f"executor {executor} is not alive; {_listed(alive)}")
        with self._changed:
            for task, executor in wanted.items():
                actual = self._actual(task)
                self._asked.pop(task, None)
                if actual != executor:
                    self._asked[task] = Asked(executor, actual)
                self._report(task, alive[executor])
            self._changed.notify_all()

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until no task is unsettled; ``False`` where the time ran out before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._asked, timeout_s)

    def _actual(self, task: TaskId) -> str | None:
        asked = self._asked.get(task)
        return self._door.location(self._stores[task][0]) if asked is None else asked.actual

    def _report(self, task: TaskId, executor: ExecutorEntry) -> None:
        for provider_id in self._stores[task]:
            self._door.report(provider_id, executor)

    def _verify(self, seen: BatchObservation) -> None:
        with self._changed:
            if not self._asked:
                return
            alive = {executor.id: executor for executor in self._door.executors()}
            ran = {observed.task: observed.executor for observed in seen.tasks}
            self._asked, lost = settle(self._asked, ran, alive.keys(), self._tries)
            again = {task: asked.executor for task, asked in self._asked.items()}
            back = {given_up.task: given_up.actual for given_up in lost}
            for task, executor in {**again, **back}.items():
                if executor in alive:
                    self._report(task, alive[executor])
            self._changed.notify_all()
        for given_up in lost:
            self._given_up(given_up)


def settle(
    asked: Mapping[TaskId, Asked], ran: Mapping[TaskId, str], alive: Set[str], tries: int
) -> tuple[dict[TaskId, Asked], tuple[GivenUp, ...]]:
    """Return what to ask for again, and what to give up, after a batch whose tasks ran there."""
    again: dict[TaskId, Asked] = {}
    lost: list[GivenUp] = []
    for task, request in asked.items():
        actual = ran.get(task, request.actual)
        if actual == request.executor:
            continue
        if request.executor not in alive:
            lost.append(GivenUp(task, request.executor, actual, "the executor died"))
        elif request.tries >= tries:
            why = f"not obeyed in {request.tries} batches"
            lost.append(GivenUp(task, request.executor, actual, why))
        else:
            again[task] = Asked(request.executor, actual, request.tries + 1)
    return again, tuple(lost)


def await_operators(
    door: PrivateDoor, query: StreamingQuery, *, timeout_s: float
) -> tuple[StatefulOperator, ...]:
    """Return the stateful operators of the query as soon as it has planned its first batch."""
    deadline = time.monotonic() + timeout_s
    while query.isActive:
        operators = door.operators(query)
        if operators:
            return operators
        if operators is not None:
            raise QueryRefusedError(f"{_named(query)} keeps no state, so there is none to place")
        if time.monotonic() > deadline:
            raise QueryRefusedError(f"{_named(query)} began no batch within {timeout_s:g} s")
        time.sleep(0.1)
    raise QueryRefusedError(f"{_named(query)} is not running")


def _stores(
    door: PrivateDoor, operators: tuple[StatefulOperator, ...]
) -> dict[TaskId, tuple[Any, ...]]:
    leads = lead_of(operators)
    found: dict[TaskId, list[Any]] = {}
    for operator in operators:
        for partition in range(operator.partitions):
            task = TaskId(leads[operator.id], partition)
            found.setdefault(task, []).extend(
                door.provider_id(operator, partition, store) for store in operator.stores
            )
    return {task: tuple(found[task]) for task in sorted(found)}


def _named(query: StreamingQuery) -> str:
    return f"the query {query.name or query.id}"


def _listed(executors: Mapping[str, object]) -> str:
    return f"alive are {', '.join(executors)}" if executors else "none is alive"


def _warn(given_up: GivenUp) -> None:
    _log.warning(
        "task %s stays on executor %s, executor %s was wanted: %s",
        tuple(given_up.task),
        given_up.actual,
        given_up.wanted,
        given_up.why,
    )
