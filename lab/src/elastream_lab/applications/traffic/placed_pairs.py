"""A resilient plan carried out in running queries, once, and looked at.

Paper 003 places operators before they start. A running Spark query already has a place for each of
its states, so a plan is carried out as moves, all at once, by a loop that does only what it is
asked to. Node i of the plan is the i-th executor, the oldest first; pairs stand query by query as
they are given, in a query by operator and partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elastream.attachment import attach
from elastream.loop.goals.by_hand import ByHand
from elastream.loop.policy import Policy
from elastream.model.checks import count
from elastream.model.errors import ProblemError
from elastream.spark.observe.watching import watching

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Placed", "placed_pairs"]

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
        told = f"{there} of {self.pairs} pairs are in place, {self.moved} of them moved"
        return "\n".join([told, *self.not_placed])


def placed_pairs(
    queries: Sequence[StreamingQuery], nodes: Sequence[int], *, timeout_s: float = 120.0
) -> Placed:
    """Put every pair on the executor of its node; raises where the plan does not fit."""
    with watching(queries) as seen:
        tasks = seen.tasks
        executors = [entry.id for entry in seen.door.executors()]
        each = ", ".join(f"{watched.name} {len(watched.tasks)}" for watched in seen.watched)
    nodes = [count(f"plan[{j}]", node) for j, node in enumerate(nodes)]
    if len(nodes) != len(tasks):
        wrong = f"places {len(nodes)} operators; the queries have {len(tasks)} pairs ({each})"
        raise ProblemError("plan", wrong)
    if max(nodes) >= len(executors):
        wrong = f"needs {max(nodes) + 1} nodes; there are {len(executors)} executors"
        raise ProblemError("plan", wrong)
    wanted = {task: executors[node] for task, node in zip(tasks, nodes, strict=True)}
    policy = Policy(
        max_executors=max(1, len(executors)),
        goal=ByHand(),
        moves_per_batch=None,
        bytes_per_batch=None,
    )
    with attach(list(queries), policy) as attachment:
        _await_tasks(attachment, set(wanted), timeout_s)
        before = attachment.where()
        attachment.move(wanted)
        attachment.wait(timeout_s)
        after = attachment.where()
    lost = tuple(
        f"{task} is on executor {after.get(task)}, not on executor {executor}"
        for task, executor in wanted.items()
        if after.get(task) != executor
    )
    moved = sum(before.get(task) != node for task, node in wanted.items()) - len(lost)
    return Placed(len(wanted), max(0, moved), lost)


def _await_tasks(attachment: object, tasks: set[object], timeout_s: float) -> None:
    import time

    deadline = time.monotonic() + timeout_s
    while not tasks <= attachment.where().keys():  # type: ignore[attr-defined]
        if time.monotonic() > deadline:
            raise ProblemError("plan", f"no batch has shown all pairs within {timeout_s:g} s")
        time.sleep(_POLL_S)
