"""What the loss of an executor came to: who is lost, and what follows from a run. Pure.

A loss is measured as every change of the migration benchmark is
(:mod:`elastream_lab.mechanisms.trace`), with the kill as the moment it was asked for:

- *steady*: the ten batches committed last before the kill.
- *the change*: from the kill until the query is steady again: the end of the first three batches
  in a row, none longer than 1.2 of the steady one, of those after the last move and after the way
  was done. A way is done when there are as many executors as before; elastream when also nothing is
  under way. Where there are no such three, ``steady_again`` is false.
- ``longest_gap_ms``: the longest time without a finished batch that ends in the change.
- ``detection_ms``: from the kill until Spark's driver says that the executor is gone.
- ``replaced_s``: from the kill until an executor registered in its place.
- ``caught_up_s``: from the kill until the end of the last batch with a row that is late, as
  ``rows_late`` counts them: more than twice the 99th percentile of the steady rows. A query may be
  steady again, by the length of its batches, and still have rows to catch up with.
- ``bytes_loaded``: the state of the tasks that ran on another executor than before, once for every
  time, less what the loop says was taken over there from a copy: a standby, or one that travelled
  ahead of its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from elastream.core.decisions import Decision
from elastream.model.observation import BatchObservation
from elastream_lab.benchmarks.migration.bench import state_name
from elastream_lab.harness.response_time import spread
from elastream_lab.mechanisms.trace import (
    LATE,
    Ahead,
    Resize,
    ResizeFigures,
    Trace,
    steady_batches,
)

_BYTES_AHEAD: Final[Mapping[str, str]] = {
    "standby": "bytes_ahead",
    "done": "state_bytes_ahead",
    "abandon": "state_bytes_ahead",
}
"""Which decisions tell of state that was taken over from copies, and in which figure its size."""


@dataclass(frozen=True, slots=True)
class Loss:
    """How an executor was lost."""

    executor: str
    tasks: int
    """How many tasks it had."""
    state_bytes: int
    """How much state."""
    detection_ms: float
    replaced_s: float | None
    """``None`` where no executor came in its place."""


@dataclass(frozen=True, slots=True)
class LossResult:
    """One way, one state, once."""

    way: str
    state_bytes: int
    repeat: int
    exact: bool
    loss: Loss
    figures: ResizeFigures
    caught_up_s: float
    series: tuple[tuple[float, float], ...]
    """A batch each: seconds since the kill, mean response time in seconds."""

    @property
    def state(self) -> str:
        """What the state is called."""
        return state_name(self.state_bytes)

    @property
    def case(self) -> tuple[int, str]:
        """What a repeat has in common with the others."""
        return self.state_bytes, self.way

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries, and with what else was measured."""
        figures, loss = self.figures.as_json(), self.loss
        replaced_s = None if loss.replaced_s is None else round(loss.replaced_s, 1)
        return {
            "way": self.way,
            "exact": self.exact,
            "repeat": self.repeat,
            "longest_gap_ms": figures["longest_gap_ms"],
            "detection_ms": round(loss.detection_ms),
            "bytes_loaded": figures["bytes_loaded_in_batches"],
            "response_ms": figures["response_ms"],
            "added_p99_ms": figures["added_p99_ms"],
            "rows_late": figures["rows_late"],
            "steady_batch_ms": figures["steady_batch_ms"],
            "worst_batch_ms": figures["worst_batch_ms"],
            "settled_s": figures["asked_to_settled_s"],
            "steady_again": figures["steady_again"],
            "caught_up_s": round(self.caught_up_s, 1),
            "replaced_s": replaced_s,
            "tasks_lost": loss.tasks,
            "state_bytes_lost": loss.state_bytes,
            "partitions_moved": figures["partitions_moved"],
            "state_bytes_moved": figures["state_bytes_moved"],
            "state": self.state,
            "state_bytes": self.state_bytes,
        }


def chosen_victim(batch: BatchObservation, alive: Collection[str]) -> tuple[str, int, int] | None:
    """Return which executor is killed, with its tasks and their bytes of state.

    It is the one with most state, of several the first by number. ``None`` where none has any.
    """
    bytes_of: Counter[str] = Counter()
    tasks_of: Counter[str] = Counter()
    for task in batch.tasks:
        if task.executor in alive:
            bytes_of[task.executor] += task.state_bytes
            tasks_of[task.executor] += 1
    if not tasks_of:
        return None
    victim = min(bytes_of, key=lambda name: (-bytes_of[name], len(name), name))
    return victim, tasks_of[victim], bytes_of[victim]


def caught_up_s(trace: Trace, change: Resize) -> float:
    """Return how long after the kill a batch with a late row ended last; 0 where none did."""
    steady = spread(trace.responses(steady_batches(trace.batches, change.asked_ms)))
    late_ms = float("inf") if steady is None else LATE * steady.p99
    late = [
        batch.finished_ms
        for batch in trace.batches
        if change.asked_ms < batch.finished_ms <= change.ends_ms
        and (trace.responses([batch]).response_ms > late_ms).any()
    ]
    return (max(late) - change.asked_ms) / 1000 if late else 0.0


def standing_by(decisions: Iterable[Decision]) -> int:
    """Return how many tasks have a standby, as the loop reported last."""
    log = [d for d in decisions if d.kind == "standby" and d.query is None]
    return int(log[-1].figures.get("tasks_ahead", 0)) if log else 0


def taken_over(decisions: Iterable[Decision]) -> Ahead:
    """Return what the loop says was taken over from copies; nothing where it says nothing.

    Of standbys it says that of a query; that copies are there, which it says in the same figures,
    of the whole application.
    """
    tasks = size = 0
    for decision in decisions:
        there = decision.kind == "standby" and decision.query is None
        if decision.kind in _BYTES_AHEAD and not there:
            tasks += int(decision.figures.get("tasks_ahead", 0))
            size += int(decision.figures.get(_BYTES_AHEAD[decision.kind], 0))
    return Ahead(tasks, size)
