"""``place``: the pairs of running queries where a resilient plan says, so that bursts need no move.

Paper 003 places operators before they start. A running Spark query already has a place for each of
its states, so a plan is carried out as moves (:mod:`elastream.spark.placement`), all at once: each
is asked for between two batches and looked after in the next, until every pair was seen where it
belongs, or was given up. Node i of the plan is the i-th executor, the oldest first.

What did not hold is told, not raised: the queries run on either way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elastream.control.observation import TaskId
from elastream.model.checks import count
from elastream.model.errors import ProblemError, QueryRefusedError
from elastream.model.resilience.plan import ResilientPlan
from elastream.spark.query_session import named

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from elastream.spark.pairs import WatchedQueries, WatchedQuery

__all__ = ["NotPlaced", "Placed", "place"]

_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class NotPlaced:
    """A pair that is not where the plan wants it."""

    pair: str
    """Its name, ``query/operator/partition``."""
    wanted: str
    """The executor of its node."""
    actual: str | None
    """The executor that holds it; ``None`` where none is known."""
    why: str

    def __str__(self) -> str:
        where = "nowhere known" if self.actual is None else f"on executor {self.actual}"
        return f"{self.pair} is {where}, not on executor {self.wanted}: {self.why}"


@dataclass(frozen=True, slots=True)
class Placed:
    """What came of a plan."""

    executors: tuple[str, ...]
    """The executor of each node."""
    pairs: int
    moved: int
    """How many pairs are on another executor than before."""
    not_placed: tuple[NotPlaced, ...]

    @property
    def holds(self) -> bool:
        """Whether every pair is where the plan wants it."""
        return not self.not_placed

    def __str__(self) -> str:
        there = self.pairs - len(self.not_placed)
        told = f"{there} of {self.pairs} pairs are in place, {self.moved} of them moved"
        return "\n".join([told, *map(str, self.not_placed)])


def place(
    queries: Sequence[StreamingQuery],
    plan: ResilientPlan | Sequence[int],
    *,
    timeout_s: float = 120.0,
) -> Placed:
    """Put every (query, operator, partition) pair on the executor of its node.

    ``plan`` is made for the pairs of these queries in their order, as
    :func:`~elastream.spark.measure.measure` writes them; the node of each pair will do. Returns
    when a batch of every query has shown its pairs in place, or at the latest after ``timeout_s``:
    a query that runs no batch cannot show anything.

    Raises :class:`~elastream.model.errors.ElastreamError`, with one line that says what to do,
    where the plan does not fit the queries or the executors, or where a query is stopped or keeps
    no state. Nothing has moved then.
    """
    from elastream.spark.pairs import watched

    with watched(queries) as running:
        nodes, executors = _fitting(running, plan)
        wanted = _wanted(running, [executors[node] for node in nodes])
        before = _where(running)
        for query, tasks in zip(running.queries, wanted, strict=True):
            query.placement.place(tasks)
        _await_settled(running, time.monotonic() + timeout_s)
        return _report(running, executors, wanted, before, timeout_s)


def _fitting(
    running: WatchedQueries, plan: ResilientPlan | Sequence[int]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the node of each pair and the executor of each node; refuse what does not fit."""
    given = plan.allocation if isinstance(plan, ResilientPlan) else plan
    nodes = [count(f"plan[{j}]", node) for j, node in enumerate(given)]
    pairs = len(running.pairs)
    if len(nodes) != pairs:
        each = ", ".join(f"{query.name} {len(query.placement.tasks)}" for query in running.queries)
        raise ProblemError(
            "plan", f"places {len(nodes)} operators; the queries have {pairs} pairs ({each})"
        )
    needed = len(plan.weights) if isinstance(plan, ResilientPlan) else max(nodes) + 1
    executors = [executor.id for executor in running.door.executors()]
    if needed > len(executors):
        raise ProblemError("plan", f"needs {needed} nodes; there are {len(executors)} executors")
    return nodes, tuple(executors[:needed])


def _wanted(running: WatchedQueries, executors: Sequence[str]) -> list[dict[TaskId, str]]:
    """Return, for each query, the executor of each of its tasks."""
    wanted: list[dict[TaskId, str]] = [{} for _ in running.queries]
    for pair, executor in zip(running.pairs, executors, strict=True):
        wanted[pair.query][pair.task] = executor
    return wanted


def _where(running: WatchedQueries) -> list[dict[TaskId, str]]:
    return [query.placement.where() for query in running.queries]


def _await_settled(running: WatchedQueries, deadline: float) -> None:
    for query in running.queries:
        while not query.placement.wait_settled(_LOOK_S):
            if not query.query.isActive:
                raise QueryRefusedError(f"{named(query.query)} stopped while its state was placed")
            if time.monotonic() > deadline:
                return


def _report(
    running: WatchedQueries,
    executors: tuple[str, ...],
    wanted: list[dict[TaskId, str]],
    before: list[dict[TaskId, str]],
    timeout_s: float,
) -> Placed:
    after = _where(running)
    moved = 0
    failed = []
    for number, query in enumerate(running.queries):
        for task, executor in wanted[number].items():
            actual = after[number].get(task)
            if actual != executor:
                why = _why(query, task, timeout_s)
                failed.append(NotPlaced(query.name_of(task), executor, actual, why))
            elif before[number].get(task) != executor:
                moved += 1
    return Placed(executors, len(running.pairs), moved, tuple(failed))


def _why(query: WatchedQuery, task: TaskId, timeout_s: float) -> str:
    given_up = [entry for entry in query.given_up if entry.task == task]
    if given_up:
        return given_up[-1].why
    if task in query.placement.unsettled:
        return f"no batch showed it there within {timeout_s:g} s"
    return "it was moved by somebody else"
