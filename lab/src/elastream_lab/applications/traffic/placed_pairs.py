"""Resilient plans carried out in running queries, and looked at.

Paper 003 places operators before they start. A running Spark query already has a place for each of
its states, so a plan is carried out as moves, all at once, by a loop that does only what it is
asked to. Held for longer, the same loop carries out one plan after another, live. Node i of a plan
is the i-th executor, the oldest first; pairs stand query by query as they are given, in a query by
operator and partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elastream.attachment import Attachment, attach
from elastream.core.policy import Movement, Policy
from elastream.goals.by_hand import ByHand
from elastream.model.checks import count
from elastream.model.errors import ProblemError
from elastream.model.observation import TaskId
from elastream.resilience.spark.watching import watching
from elastream.spark.internals.spark_internals import ExecutorEntry

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Placed:
    """What came of a plan."""

    pairs: int
    moved: int
    """How many pairs are on another executor than before."""
    not_placed: tuple[str, ...]
    """What is not where the plan wants it, a line each."""

    @property
    def holds(self) -> bool:
        """Whether every pair is where the plan wants it."""
        return not self.not_placed

    def __str__(self) -> str:
        there = self.pairs - len(self.not_placed)
        report = f"{there} of {self.pairs} pairs are in place, {self.moved} of them moved"
        return "\n".join([report, *self.not_placed])


@dataclass(frozen=True, slots=True, eq=False)
class Placing:
    """Running queries whose pairs can be placed again and again."""

    attachment: Attachment
    tasks: tuple[TaskId, ...]
    """The pairs, in the order of a plan."""
    executors: tuple[ExecutorEntry, ...]
    """The nodes of a plan."""
    shown: str
    """How many pairs each query has."""

    def place(self, nodes: Sequence[int], *, timeout_s: float = 120.0) -> Placed:
        """Put every pair on the executor of its node; raises where the plan does not fit."""
        nodes = [count(f"plan[{j}]", node) for j, node in enumerate(nodes)]
        if len(nodes) != len(self.tasks):
            wrong = (
                f"places {len(nodes)} operators; the queries have {len(self.tasks)} pairs "
                f"({self.shown})"
            )
            raise ProblemError("plan", wrong)
        if max(nodes) >= len(self.executors):
            wrong = f"needs {max(nodes) + 1} nodes; there are {len(self.executors)} executors"
            raise ProblemError("plan", wrong)
        wanted = {
            task: self.executors[node].id for task, node in zip(self.tasks, nodes, strict=True)
        }
        self._await_tasks(timeout_s)
        before = self.attachment.where()
        self.attachment.move(wanted)
        self.attachment.wait(timeout_s)
        after = self.attachment.where()
        lost = tuple(
            f"{task} is on executor {after.get(task)}, not on executor {executor}"
            for task, executor in wanted.items()
            if after.get(task) != executor
        )
        moved = sum(before.get(task) != node for task, node in wanted.items()) - len(lost)
        return Placed(len(wanted), max(0, moved), lost)

    def _await_tasks(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not set(self.tasks) <= self.attachment.where().keys():
            if time.monotonic() > deadline:
                raise ProblemError("plan", f"no batch has shown all pairs within {timeout_s:g} s")
            time.sleep(_POLL_S)


@contextmanager
def placing(queries: Sequence[StreamingQuery]) -> Iterator[Placing]:
    """Give the queries with a loop that does only what it is asked to."""
    with watching(queries) as seen:
        tasks, executors = seen.tasks, tuple(seen.internals.executors())
        each = ", ".join(f"{watched.name} {len(watched.tasks)}" for watched in seen.watched)
    policy = Policy(
        max_executors=max(1, len(executors)),
        goal=ByHand(),
        movement=Movement(moves_per_batch=None, bytes_per_batch=None),
    )
    with attach(list(queries), policy) as attachment:
        yield Placing(attachment, tasks, executors, each)


def placed_pairs(
    queries: Sequence[StreamingQuery], nodes: Sequence[int], *, timeout_s: float = 120.0
) -> Placed:
    """Put every pair on the executor of its node, once; raises where the plan does not fit."""
    with placing(queries) as running:
        return running.place(nodes, timeout_s=timeout_s)
