"""Response times: how long after it was due a row's result was there.

The result of a row is there when its batch is committed (paper 000, section 6, measures the delay
of each result the same way). A row of a micro-batch waits for the batch before it, then for its
own; a pause shows as a high response time of all rows that became due during it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elastream_lab.harness.commit_log import CommittedBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Responses:
    """The rows of some batches, in order."""

    due_ms: NDArray[np.float64]
    """When each was due, in milliseconds since the epoch."""
    response_ms: NDArray[np.float64]
    """How long after that its batch was committed."""

    def between(self, begin_ms: float, end_ms: float) -> Responses:
        """Return the rows due from one moment to before another."""
        wanted = (self.due_ms >= begin_ms) & (self.due_ms < end_ms)
        return Responses(self.due_ms[wanted], self.response_ms[wanted])


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 99th percentile and worst of some response times, in milliseconds."""

    median: float
    p99: float
    worst: float

    def as_json(self) -> dict[str, int]:
        """Return the three in the names of the run summaries."""
        return {
            "median": round(self.median),
            "p99": round(self.p99),
            "worst": round(self.worst),
        }


def responses(
    due_ms: NDArray[np.int64], start_ms: float, batches: Sequence[CommittedBatch], *, first: int = 0
) -> Responses:
    """Return the response time of every row of the batches from position ``first`` on.

    ``due_ms`` is when each row of the recording is due after ``start_ms``. Earlier rows were
    opened before the replay started, so they were due at no time.
    """
    due, response = [np.empty(0)], [np.empty(0)]
    for batch in batches:
        rows = start_ms + due_ms[max(batch.start, first) : batch.end].astype(np.float64)
        due.append(rows)
        response.append(batch.finished_ms - rows)
    return Responses(np.concatenate(due), np.concatenate(response))


def spread(rows: Responses) -> Spread | None:
    """Return the spread of the response times; ``None`` where there are no rows."""
    if not len(rows.response_ms):
        return None
    median, p99, worst = np.percentile(rows.response_ms, [50, 99, 100])
    return Spread(float(median), float(p99), float(worst))
