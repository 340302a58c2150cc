"""Whether a measure that was sampled many times is flat, or grows. Pure.

Only the second half of the samples counts: a program fills caches as it begins. A line is laid
through them by Theil and Sen, as the median of the slopes between all pairs, which a few outliers
do not bend. The measure is flat where the line rises over that half by no more than noise: three
times the median distance of a sample from the line, or one part in a hundred of the measure. A line
that falls is flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

from elastream.model.errors import ProblemError

LEAST_SAMPLES: Final = 12
_NOISE: Final = 3.0
_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Trend:
    """How a measure went."""

    first: float
    middle: float
    """The first of the second half."""
    last: float
    growth: float
    """What the line rises over the second half."""
    noise: float
    """What it may rise."""

    @property
    def flat(self) -> bool:
        """Whether it does not grow."""
        return self.growth <= self.noise


def trend_of(at: Sequence[float], values: Sequence[float]) -> Trend:
    """Return the trend of a measure, sampled at these moments, in order."""
    if len(at) != len(values) or len(at) < LEAST_SAMPLES:
        raise ProblemError("samples", f"there are {len(at)}; {LEAST_SAMPLES} are needed at least")
    half = len(at) // 2
    xs, ys = at[half:], values[half:]
    slope = median(
        (ys[b] - ys[a]) / (xs[b] - xs[a])
        for a, b in combinations(range(len(xs)), 2)
        if xs[b] > xs[a]
    )
    rests = [y - slope * (x - xs[0]) for x, y in zip(xs, ys, strict=True)]
    base = median(rests)
    off = median(abs(rest - base) for rest in rests)
    noise = max(_NOISE * off, _SHARE * abs(median(ys)))
    return Trend(values[0], ys[0], values[-1], slope * (xs[-1] - xs[0]), noise)
