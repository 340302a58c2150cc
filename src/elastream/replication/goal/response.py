"""Response time of a row: until its batch starts, and until that batch has committed.

A row's response time is more than its batch's duration. A row that arrives while another batch
runs, or before the next one is due, waits for the next one: on average half the time between two
batches. If rows arrive faster than they are processed, the unread rows queue up before it. So

  response = wait for the batch + backlog over the rows processed per second + duration.

Rows that arrive while a batch runs are not backlog: the next batch reads them, and that wait is
already counted. Only unread rows in excess of one usual batch count as backlog.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.core.application import Query
from elastream.model.observation import BatchObservation

WAITS_HALF = 0.5
"""Average wait of a row for its batch to start, as a share of the time between two batches."""


@dataclass(frozen=True, slots=True)
class RowResponse:
    """Average response time of a row, and its parts."""

    batch_ms: float
    """From trigger to commit."""
    wait_ms: float
    """Until the batch starts."""
    backlog_ms: float = 0.0
    """Until the rows queued before it are processed; 0 if the source does not report a backlog."""

    @property
    def total_ms(self) -> float:
        """Sum of the parts."""
        return self.batch_ms + self.wait_ms + self.backlog_ms

    def __str__(self) -> str:
        backlog = f", {self.backlog_ms:.0f} behind a backlog" if self.backlog_ms >= 1 else ""
        return f"{self.batch_ms:.0f} in its batch, {self.wait_ms:.0f} until that begins{backlog}"


def wait_ms(query: Query, batch_ms: float) -> float:
    """Return how long a row waits for its batch to start, if batches take ``batch_ms``."""
    return WAITS_HALF * max(batch_ms, query.trigger_ms or 0.0)


def response_of(query: Query, batch: BatchObservation | None = None) -> RowResponse:
    """Return the response time of a row of the query in its last batch, or in ``batch``."""
    load = query.load
    batch_ms = (load.batch_ms or 0.0) if batch is None else batch.duration_ms
    backlog = load.backlog if batch is None else batch.backlog
    behind_ms = 0.0
    if backlog and load.rows_per_s:
        usual_s = max(batch_ms, query.trigger_ms or 0.0) / 1000
        behind_ms = 1000 * max(0.0, backlog / load.rows_per_s - usual_s)
    return RowResponse(batch_ms, wait_ms(query, batch_ms), behind_ms)
