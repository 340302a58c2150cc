"""A real load as a stream: counts by time, a season of it held out, and the weeks before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastream.model.errors import ProblemError
from elastream.model.words import pluralize
from elastream.testing import rate_ramp
from elastream_lab.harness.recorded_file import read_columns, times_us

DAY_S: Final = 86_400.0
_LEAST_LEARNT_DAYS: Final = 7
_MOST_LEARNT_DAYS: Final = 56
_SAMPLE_S: Final = 60.0
"""The loop's own samples are a minute apart."""
_HIGH_PERCENT: Final = 99.0


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Counts by time."""

    name: str
    seconds: NDArray[np.float64]
    """Middles of the intervals, in order."""
    rates: NDArray[np.float64]
    """Counts a second."""
    interval_s: float

    def held_out(self, days: int, high: float) -> HeldOut:
        """Return the last days as a stream, and what came before them.

        Rates are such that ``high`` is what all but a hundredth of the time before stayed below.
        """
        end_s = float(self.seconds[-1]) + self.interval_s / 2
        split_s = end_s - days * DAY_S
        learnt_days = int((split_s - self.seconds[0]) / DAY_S)
        if learnt_days < _LEAST_LEARNT_DAYS:
            whole = f"{self.name} has {int((end_s - self.seconds[0]) / DAY_S)} days"
            least = pluralize(_LEAST_LEARNT_DAYS, "day")
            raise ProblemError("days", f"{days} leaves less than {least} to learn from: {whole}")
        before = self.seconds < split_s
        usual = float(np.percentile(self.rates[before], _HIGH_PERCENT))
        if usual <= 0:
            raise ProblemError("input", f"{self.name} has nothing before its last days")
        rates = self.rates * (high / usual)
        return HeldOut(
            self.name,
            self.seconds - split_s,
            rates,
            days,
            min(learnt_days, _MOST_LEARNT_DAYS),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """A stream whose time 0 is where the days begin that are held out."""

    name: str
    seconds: NDArray[np.float64]
    rates: NDArray[np.float64]
    """Rows a second."""
    days: int
    learnt_days: int

    def rows_per_s(self) -> Callable[[float], float]:
        """Return the rate by the second; between the middles of the intervals it changes evenly."""
        ahead = self.seconds >= -DAY_S
        return rate_ramp(dict(zip(self.seconds[ahead].tolist(), self.rates[ahead], strict=True)))

    def past(self, row_s: float) -> Iterator[tuple[int, float]]:
        """Yield the moments before, in ms, and the cores that rows of so long kept busy then."""
        moments = np.arange(-self.learnt_days * DAY_S, 0.0, _SAMPLE_S)
        before = self.seconds < 0
        cores = np.interp(moments, self.seconds[before], self.rates[before]) * row_s
        for second, busy in zip(moments.tolist(), cores.tolist(), strict=True):
            yield round(1000 * second), busy


def read_series(path: Path) -> Series:
    """Return the load of a file whose first column is a time and whose second is a count."""
    table = read_columns(path, {}, texts=())
    if table.num_columns < 2:
        raise ProblemError("input", f"{path} has one column; a time and a count are needed")
    when, counts = table.column_names[:2]
    seconds = times_us(table.column(when), when) / 1e6
    try:
        numbers = table.column(counts).to_numpy().astype(np.float64)
    except (ValueError, TypeError):
        raise ProblemError("input", f"{path}: column {counts} holds no counts") from None
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ProblemError("input", f"{path}: column {counts} holds no counts")
    order = np.argsort(seconds, kind="stable")
    seconds, numbers = seconds[order], numbers[order]
    gaps = np.diff(seconds)
    if not len(gaps) or not (interval_s := float(np.median(gaps))) > 0:
        raise ProblemError("input", f"{path} has no times that follow one another")
    name = path.name.split(".")[0]
    return Series(name, seconds + interval_s / 2, numbers / interval_s, interval_s)
