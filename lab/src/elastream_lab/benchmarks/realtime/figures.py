"""What the rows of a Real-time query say of its latency. Pure.

The latency of a row is from the moment it was due until its result was written. Rows due within a
second of a boundary between two batches, or before the later one's first result, are of that
boundary; all others are steady.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final, Self

import numpy as np

from elastream_lab.harness.response_time import Spread

_NEAR_MS: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Result:
    """One result that was written."""

    batch: int
    due_ms: float
    """When the row was due that it is of."""
    at_ms: float

    @property
    def latency_ms(self) -> float:
        """How long after it was due the row was answered."""
        return self.at_ms - self.due_ms


@dataclass(frozen=True, slots=True)
class Boundary:
    """The time between two batches, and what the rows around it waited."""

    ended_ms: float
    """When the last result of the earlier one came."""
    began_ms: float
    """When the first of the later one came."""
    latencies_ms: tuple[float, ...] = ()

    @property
    def gap_ms(self) -> float:
        """How long no result came."""
        return self.began_ms - self.ended_ms

    @property
    def worst_ms(self) -> float:
        """The latency of the row that waited most."""
        return max(self.latencies_ms, default=0.0)

    def has(self, due_ms: float) -> bool:
        """Whether a row that was due then is of this boundary."""
        after_ms = max(self.began_ms, self.ended_ms + _NEAR_MS)
        return self.ended_ms - _NEAR_MS <= due_ms <= after_ms


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time of the run: rows between boundaries, and boundaries."""

    steady_ms: tuple[float, ...]
    """Latencies of rows that are of no boundary."""
    boundaries: tuple[Boundary, ...]

    @classmethod
    def of(cls, results: Sequence[Result], since_ms: float, until_ms: float) -> Self:
        """Return what lies between two moments, of all results of the run."""
        found = [
            each
            for each in _boundaries(results)
            if each.began_ms + _NEAR_MS >= since_ms and each.ended_ms - _NEAR_MS < until_ms
        ]
        ends_ms = max([until_ms, *(each.began_ms for each in found)]) + _NEAR_MS
        rows = [row for row in results if since_ms - _NEAR_MS <= row.due_ms <= ends_ms]
        boundaries = tuple(
            Boundary(
                each.ended_ms,
                each.began_ms,
                tuple(row.latency_ms for row in rows if each.has(row.due_ms)),
            )
            for each in found
            if since_ms <= each.ended_ms < until_ms
        )
        steady = tuple(
            row.latency_ms
            for row in rows
            if since_ms <= row.due_ms < until_ms and not any(each.has(row.due_ms) for each in found)
        )
        return cls(steady, boundaries)

    @classmethod
    def joined(cls, stretches: Iterable[Stretch]) -> Self:
        """Return several as one."""
        every = tuple(stretches)
        steady = tuple(latency for each in every for latency in each.steady_ms)
        return cls(steady, tuple(boundary for each in every for boundary in each.boundaries))

    @property
    def steady(self) -> Spread:
        """The latencies between boundaries."""
        return spread(self.steady_ms)

    @property
    def around_boundaries(self) -> Spread:
        """Those of the rows around boundaries."""
        return spread([one for each in self.boundaries for one in each.latencies_ms])

    @property
    def gap_ms(self) -> float:
        """The median time between two batches without a result."""
        return median(each.gap_ms for each in self.boundaries) if self.boundaries else 0.0


def spread(latencies_ms: Sequence[float]) -> Spread:
    """Return median, 99th percentile and worst; zeros of none."""
    if not latencies_ms:
        return Spread(0.0, 0.0, 0.0)
    middle, most = np.percentile(latencies_ms, [50, 99])
    return Spread(float(middle), float(most), float(max(latencies_ms)))


def longest_gap_ms(results: Iterable[Result], since_ms: float, until_ms: float) -> float:
    """Return the longest time without a result between two moments."""
    times = [each.at_ms for each in results if since_ms <= each.at_ms <= until_ms]
    return max((later - one for one, later in pairwise([since_ms, *sorted(times)])), default=0.0)


def _boundaries(results: Sequence[Result]) -> list[Boundary]:
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for each in results:
        first[each.batch] = min(first.get(each.batch, each.at_ms), each.at_ms)
        last[each.batch] = max(last.get(each.batch, each.at_ms), each.at_ms)
    batches = sorted(first)
    return [Boundary(last[one], first[later]) for one, later in pairwise(batches)]


@dataclass(frozen=True, slots=True)
class RealtimeResult:
    """What one stretch of the run came to."""

    system: str
    """``spark``: without elastream; ``elastream``: attached."""
    what: str
    exact: bool
    rows_per_s: float
    stretch: Stretch
    load: float
    """Of the machine, when the stretch had ended."""
    change: tuple[int, int] | None = None
    """From how many executors to how many, where it had one."""
    seconds: float | None = None
    """From the request of the change until it was done."""
    killed_gap_ms: float | None = None
    """The longest time without a result after an executor was killed."""

    def as_json(self) -> dict[str, object]:
        """Return it in the names of the run summaries."""
        steady, near = self.stretch.steady.as_json(), self.stretch.around_boundaries.as_json()
        around = {"p99": near["p99"], "worst": near["worst"]}
        found: dict[str, object] = {
            "system": self.system,
            "what": self.what,
            "exact": self.exact,
            "rows_per_s": self.rows_per_s,
            "steady_latency_ms": steady,
            "boundary_gap_ms": round(self.stretch.gap_ms),
            "boundaries_worst_ms": [round(each.worst_ms) for each in self.stretch.boundaries],
            "machine_load": round(self.load, 1),
        }
        if self.change is None:
            found["boundary_latency_ms"] = around
        else:
            found |= {"change": list(self.change), "change_latency_ms": around}
            found["change_s"] = None if self.seconds is None else round(self.seconds, 1)
        if self.killed_gap_ms is not None:
            found["executor_killed"] = {"gap_ms": round(self.killed_gap_ms)}
        return found


def ratios(results: Sequence[RealtimeResult]) -> dict[str, float]:
    """Return what the goals are about: figures of one run over others of the same run."""
    found: dict[str, float] = {}
    of = {(each.system, each.what): each.stretch for each in results}
    alone, attached = of.get(("spark", "alone")), of.get(("elastream", "attached"))
    if alone is not None and attached is not None:
        found["steady_median"] = _over(attached.steady.median, alone.steady.median)
        found["steady_p99"] = _over(attached.steady.p99, alone.steady.p99)
        found["boundary_worst"] = _over(
            attached.around_boundaries.worst, alone.around_boundaries.worst
        )
    if alone is not None and (added := of.get(("elastream", "new executor"))) is not None:
        found["new_executor_worst"] = _over(
            added.around_boundaries.worst, alone.around_boundaries.worst
        )
    two, moved = of.get(("elastream", "two executors")), of.get(("elastream", "move"))
    if two is not None and moved is not None:
        found["move_worst"] = _over(moved.around_boundaries.worst, two.around_boundaries.worst)
    return {name: round(value, 2) for name, value in found.items()}


def _over(value: float, base: float) -> float:
    return value / base if base else float("inf")
