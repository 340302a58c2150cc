"""What a run of either system came to, from when each row was due and when its result was there.

Pure, and the same for both:

- a row's *latency* is the time from when it was due to when its result was first there;
- the *steady* figures are those of the rows due in the seconds before a change was asked for;
- a change lasts from the moment it was asked for until the stream is *settled*: the system has the
  new size, and in three seconds in a row the 99th percentile of the rows due in each is within 1.2
  of the steady one, or 50 ms of it;
- the *gap* is the longest time without any new result meanwhile;
- what a change *adds* is the 99th percentile of the rows due while it lasted, less the steady one.

The 50 ms are for a system whose steady latency is a few milliseconds: 1.2 of that is noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from elastream.model.errors import ElastreamError
from elastream_lab.harness.response_time import Responses, Spread, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray


NEVER_MS: Final = 1e18
"""Later than any result."""

_SECOND_MS: Final = 1000.0
_CALM_SECONDS: Final = 3
_CALM_RATIO: Final = 1.2
_CALM_MS: Final = 50.0


@dataclass(frozen=True, slots=True)
class Seen:
    """The timed rows, in the order they were due; times in milliseconds since the epoch."""

    due_ms: NDArray[np.float64]
    visible_ms: NDArray[np.float64]
    """When the result of each was first there; ``NEVER_MS`` where it is not."""

    def latencies(self, begin_ms: float, end_ms: float) -> Responses:
        """Return the latencies of the rows due from one moment to before another."""
        begin, end = np.searchsorted(self.due_ms, [begin_ms, end_ms])
        due_ms = self.due_ms[begin:end]
        return Responses(due_ms, self.visible_ms[begin:end] - due_ms)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of size; times in milliseconds since the epoch."""

    steady_from_ms: float
    asked_ms: float
    effective_ms: float
    """When the system had the new size."""


@dataclass(frozen=True, slots=True)
class ChangeFigures:
    """What one change came to."""

    gap_ms: float
    added_p99_ms: float
    settled_s: float | None
    """From when it was asked for; ``None`` where that was not seen."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return {
            "gap_ms": round(self.gap_ms),
            "added_p99_ms": round(self.added_p99_ms),
            "settled_s": None if self.settled_s is None else round(self.settled_s, 1),
        }


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What one system came to."""

    system: str
    exact: bool
    rows_per_s: float
    steady: Spread
    rescale: ChangeFigures
    cold_rescale: ChangeFigures

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        return {
            "system": self.system,
            "exact": self.exact,
            "rows_per_s": round(self.rows_per_s),
            "steady_latency_ms": {
                "median": round(self.steady.median, 1),
                "p99": round(self.steady.p99, 1),
            },
            "rescale": self.rescale.as_json(),
            "cold_rescale": self.cold_rescale.as_json(),
        }


def steady_latency(seen: Seen, change: Change) -> Spread:
    """Return the latencies of the rows due in the steady seconds before the change."""
    found = spread(seen.latencies(change.steady_from_ms, change.asked_ms))
    if found is None or found.worst >= NEVER_MS / 2:
        raise ElastreamError("the stream was not up to date before the change was asked for")
    return found


def settled_ms(seen: Seen, change: Change) -> float | None:
    """Return when the stream was steady again; ``None`` where it is not yet."""
    steady = steady_latency(seen, change)
    limit_ms = max(_CALM_RATIO * steady.p99, steady.p99 + _CALM_MS)
    calm, begin_ms = 0, change.effective_ms
    last_due_ms = float(seen.due_ms[-1])
    while begin_ms + _SECOND_MS <= last_due_ms:
        found = spread(seen.latencies(begin_ms, begin_ms + _SECOND_MS))
        begin_ms += _SECOND_MS
        calm = calm + 1 if found is not None and found.p99 <= limit_ms else 0
        if calm == _CALM_SECONDS:
            return begin_ms
    return None


def figures_of(seen: Seen, change: Change, *, until_ms: float) -> ChangeFigures:
    """Return the figures of a change that was watched until some moment.

    Where the stream was not settled by then, the figures are those up to it, and rows without a
    result count as if it had come then.
    """
    settled = settled_ms(seen, change)
    end_ms = until_ms if settled is None else settled
    known = Seen(seen.due_ms, np.minimum(seen.visible_ms, max(until_ms, end_ms)))
    during = spread(known.latencies(change.asked_ms, end_ms))
    if during is None:
        raise ElastreamError("no row was due while the change lasted")
    return ChangeFigures(
        gap_ms=_longest_gap_ms(seen.visible_ms, change.asked_ms, end_ms),
        added_p99_ms=during.p99 - steady_latency(seen, change).p99,
        settled_s=None if settled is None else (settled - change.asked_ms) / 1000,
    )


def _longest_gap_ms(visible_ms: NDArray[np.float64], begin_ms: float, end_ms: float) -> float:
    """Return the longest time without a new result that ends after ``begin_ms``."""
    times = np.unique(visible_ms[visible_ms <= end_ms])
    last = np.searchsorted(times, begin_ms, side="right") - 1
    return float(np.diff([*times[max(last, 0) :], end_ms]).max())
