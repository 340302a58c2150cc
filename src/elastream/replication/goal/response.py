"""How long a row takes: until its batch begins, and until that has committed.

A batch's duration is not what a row waits. A row arrives while another batch runs, or while none is
due, and waits for the next one: half the time between two batches in the mean. Where rows come
faster than they are worked off, those that no batch has taken yet wait in line before it. So

    response = wait for the batch + backlog over the rows worked off a second + duration.

Rows that came while a batch ran are no backlog: the next batch takes them, and that wait is counted
already. So what counts as backlog is what exceeds the rows of one usual batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.core.application import Query
from elastream.model.observation import BatchObservation

__all__ = ["WAITS_HALF", "RowResponse", "response_of", "wait_ms"]

WAITS_HALF = 0.5
"""Of the time between two batches, what a row waits for its own to begin, in the mean."""


@dataclass(frozen=True, slots=True)
class RowResponse:
    """What a row takes, in the mean, and of what that is made."""

    batch_ms: float
    """From trigger to commit."""
    wait_ms: float
    """Until the batch begins."""
    backlog_ms: float = 0.0
    """Until those before it in line are worked off; 0 where the source cannot tell."""

    @property
    def total_ms(self) -> float:
        """All of it."""
        return self.batch_ms + self.wait_ms + self.backlog_ms

    def __str__(self) -> str:
        behind = f", {self.backlog_ms:.0f} behind a backlog" if self.backlog_ms >= 1 else ""
        return f"{self.batch_ms:.0f} in its batch, {self.wait_ms:.0f} until that begins{behind}"


def wait_ms(query: Query, batch_ms: float) -> float:
    """Return how long a row waits for a batch to begin, where batches take so long."""
    return WAITS_HALF * max(batch_ms, query.trigger_ms or 0.0)


def response_of(query: Query, batch: BatchObservation | None = None) -> RowResponse:
    """Return what a row of the query takes as its last batch, or this one, shows it."""
    load = query.load
    batch_ms = (load.batch_ms or 0.0) if batch is None else batch.duration_ms
    backlog = load.backlog if batch is None else batch.backlog
    behind_ms = 0.0
    if backlog and load.rows_per_s:
        usual_s = max(batch_ms, query.trigger_ms or 0.0) / 1000
        behind_ms = 1000 * max(0.0, backlog / load.rows_per_s - usual_s)
    return RowResponse(batch_ms, wait_ms(query, batch_ms), behind_ms)
