"""Whether a handover shows in the response times, over repeats; a verdict that can fail.

The paper gives a mean and a deviation of one run with a migration and one without, and calls their
difference negligible: it is at most a fiftieth of the deviation. Here every repeat gives such a
difference, and the repeats say how sure their mean is. The handover *does not show* where the whole
95 % interval of that mean (Student's t) lies within the deviation of the response times of the runs
without one; it *shows* where the interval lies wholly beyond; else it *is undecided*, and the
trend does not count as held. A single repeat has no interval: its difference alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Final, Literal

from elastream_lab.studies.handover.outputs import ResponsesAround, WrittenOutput, responses, spread
from elastream_lab.studies.handover.run import QueryRun
from elastream_lab.studies.handover.settings import AROUND_MS

_SURE: Final = 0.975
"""Each side of the interval."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the repeats of one query say, in milliseconds."""

    difference_ms: float
    """Mean response time with a handover less that without, mean over the repeats."""
    half_ms: float
    """Half of the interval of that mean."""
    bound_ms: float
    """The deviation of the response times without a handover, mean over the repeats."""

    @property
    def seen(self) -> Literal["does not show", "shows", "is undecided"]:
        """What is seen of the handover."""
        far = abs(self.difference_ms)
        if far + self.half_ms <= self.bound_ms:
            return "does not show"
        return "shows" if far - self.half_ms > self.bound_ms else "is undecided"

    @property
    def is_quiet(self) -> bool:
        """Whether the paper's claim holds."""
        return self.seen == "does not show"


def around(run: QueryRun, written: Sequence[WrittenOutput]) -> ResponsesAround | None:
    """Return the response times of the four seconds around the handover."""
    begin_ms, end_ms = run.handover_ms - AROUND_MS, run.handover_ms + AROUND_MS
    return spread(responses(written, run.due_ms), begin_ms, end_ms)


def verdict(runs: Sequence[QueryRun]) -> Verdict | None:
    """Return what the repeats of a query say; ``None`` where one has no result around it."""
    differences, deviations = list[float](), list[float]()
    for run in runs:
        handed, alone = around(run, run.handed), around(run, run.alone)
        if handed is None or alone is None:
            return None
        differences.append(handed.mean_ms - alone.mean_ms)
        deviations.append(alone.deviation_ms)
    return Verdict(fmean(differences), _half(differences), fmean(deviations))


def _half(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    from scipy.stats import t

    return float(t.ppf(_SURE, len(values) - 1)) * stdev(values) / sqrt(len(values))
