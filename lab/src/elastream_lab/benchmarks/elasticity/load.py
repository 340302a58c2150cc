"""Loads to be elastic for: counts over time from a file, or a made day; compressed and scaled.

A load is how much arrived in each of many equal steps. What a benchmark replays is its shape: the
chosen hours become this many seconds, and the busiest moment this many rows a second. Bursts stay
where they are and as steep as they are; that they pass in seconds, where an executor takes as long
to start as ever, is harder on whoever has to follow them than the real day was.

A file has a column of times and a column of counts, in any format that the demo replays (CSV, also
compressed, Parquet, JSON lines). Which is which is known from what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from elastream.model.checks import abbreviate, positive
from elastream.model.errors import ProblemError
from elastream.model.words import join_names
from elastream_lab.harness.made_posts import day_rate, due_by
from elastream_lab.harness.recorded_file import read_columns, times_us

if TYPE_CHECKING:
    from numpy.typing import NDArray


_HOUR_US: Final = 3600e6
_PEAK_S: Final = 5.0
"""The busiest moment is so long: a single sample above all others is not a load."""
_MADE_BURSTS: Final = 5
_MOST_STEPS: Final = 1_000_000
"""A span of more steps is refused: its times are not regular."""
_TIME_NAMES: Final = frozenset({"date", "datetime", "hour", "minute", "period", "time", "ts"})
"""A column of numbers is one of times where its name begins so."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """How much arrived in each of equal steps."""

    description: str
    """What load it is, for people."""
    made: bool
    """Whether it was made up, not recorded."""
    counts: NDArray[np.float64]


def made_load(seed: int) -> Load:
    """Return a made day with bursts; the same for the same seed."""
    rate = day_rate(_MADE_BURSTS, np.random.default_rng(seed))
    report = f"a made day with {_MADE_BURSTS} bursts, not a recorded one (seed {seed})"
    return Load(report, True, (rate[1:] + rate[:-1]) / 2)


def read_load(path: Path, begin: str | None = None, hours: float = 24.0) -> Load:
    """Return what a file shows of some hours.

    ``begin`` is when they begin, in ISO 8601; left out, they are those that have the busiest step
    of all, counted in whole spans since 1970: for 24 hours, the busiest day.
    """
    with _errors_of_the_load():
        table = read_columns(path, {}, texts=())
        time, number = _columns(path, table)
        when_us = times_us(table.column(time), time)
        counts = _numbers(table.column(number), number)
    step_us, span_us = _step_us(when_us), positive("hours", hours) * _HOUR_US
    begin_us = _begins_us(begin, when_us, counts, span_us)
    steps = round(span_us / step_us)
    if not 2 <= steps <= _MOST_STEPS:
        why = f"{hours:g} are {steps:,} of the steps of {step_us / 1e6:g} s that {path} has"
        raise ProblemError("hours", why)
    bins = np.floor((when_us - begin_us) / step_us + 0.5).astype(np.int64)
    within = (bins >= 0) & (bins < steps)
    found = np.bincount(bins[within], weights=counts[within], minlength=steps)
    if not found.any():
        first, last = _text(when_us.min()), _text(when_us.max())
        why = f"nothing arrived in the {hours:g} hours; {path} is about {first} to {last}"
        raise ProblemError("begin", why)
    report = f"{path.name}: {hours:g} h from {_text(begin_us)}, a count every {step_us / 1e6:g} s"
    return Load(report, False, found.astype(np.float64))


def compressed(load: Load, seconds: float, peak_rows_per_s: float) -> NDArray[np.int64]:
    """Return when each row is due, in milliseconds, where the load takes this many seconds."""
    at_s = np.linspace(0.0, seconds, len(load.counts) + 1)
    arrived = np.concatenate([[0.0], np.cumsum(load.counts)])
    window_s = min(_PEAK_S, seconds)
    # What has arrived is a straight line within a step, so the busiest window begins or ends with
    # one.
    begins = np.clip(np.concatenate([at_s, at_s - window_s]), 0.0, seconds - window_s)
    within = np.interp(begins + window_s, at_s, arrived) - np.interp(begins, at_s, arrived)
    return due_by(arrived * (peak_rows_per_s * window_s / within.max()), at_s * 1000)


@contextmanager
def _errors_of_the_load() -> Iterator[None]:
    """Let what is wrong with a file be wrong with the load."""
    try:
        yield
    except ProblemError as error:
        raise ProblemError("load", error.why) from None


def _columns(path: Path, table: Any) -> tuple[str, str]:
    """Return which column has the times, and which the counts."""
    import pyarrow as pa

    kinds = {field.name: field.type for field in table.schema}
    times = [name for name, kind in kinds.items() if not _is_number(kind)]
    stamps = [name for name in times if pa.types.is_temporal(kinds[name])]
    named = [name for name in kinds if name.lower().startswith(tuple(_TIME_NAMES))]
    time = next(iter([*stamps, *named, *times]), None)
    if time is None:
        raise ProblemError("load", f"{path} has no column of times; it has {join_names(kinds)}")
    numbers = [name for name, kind in kinds.items() if _is_number(kind) and name != time]
    if len(numbers) != 1:
        why = f"{path} has {len(numbers)} columns of numbers in addition to {abbreviate(time)}"
        raise ProblemError("load", f"{why} ({join_names(numbers)}), where one of counts is needed")
    return time, numbers[0]


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    """Return the counts; an empty one is none."""
    counts: NDArray[np.float64] = column.fill_null(0).to_numpy().astype(np.float64)
    wrong = ~(np.isfinite(counts) & (counts >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        why = f"row {row + 1} of column {abbreviate(name)} is {counts[row]:g}, which is not a count"
        raise ProblemError("load", why)
    return counts


def _step_us(when_us: NDArray[np.int64]) -> float:
    """Return how far apart the times usually are."""
    apart = np.diff(np.unique(when_us))
    if not len(apart):
        raise ProblemError("load", "has a single time, where a load has many")
    return float(np.median(apart))


def _begins_us(
    begin: str | None, when_us: NDArray[np.int64], counts: NDArray[np.float64], span_us: float
) -> float:
    if begin is None:
        return float(when_us[counts.argmax()] // span_us * span_us)
    try:
        time = datetime.fromisoformat(begin)
    except ValueError:
        why = f"{abbreviate(begin)} is not a time as in 2020-03-01T12:00:00"
        raise ProblemError("begin", why) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6


def _text(us: float) -> str:
    return f"{datetime.fromtimestamp(us / 1e6, UTC):%Y-%m-%d %H:%M}"
