"""The three loops next to each other, a table and a panel for each load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from elastream_lab.studies.figure import Curves, Figure
from elastream_lab.studies.look_ahead.backtest import (
    HIGH_ROWS_PER_S,
    LOOPS,
    LookAheadStudy,
    Outcome,
    outcome,
)
from elastream_lab.studies.look_ahead.series import HeldOut, Series

MOST_DEARER: Final = 0.1
"""A forecast that costs this share of the executor-seconds more than none does not pay."""


def figures(
    study: LookAheadStudy, loads: Sequence[Series]
) -> list[Callable[[], tuple[Figure, ...]]]:
    """Return what makes the figure of each load; what is wrong with one is reported now."""
    held_out = [load.held_out(study.days, HIGH_ROWS_PER_S) for load in loads]
    return [partial(_figures, study, load) for load in held_out]


def _figures(study: LookAheadStudy, load: HeldOut) -> tuple[Figure, ...]:
    reactive, ahead, oracle = (outcome(study, load, loop) for loop in LOOPS)
    no_worse = ahead.overload_s <= reactive.overload_s
    figure = Figure(
        figure=load.name,
        data=(
            f"the last {load.days} days, learnt from {load.learnt_days} before; "
            f"{study.look_ahead_s:g} s ahead, executors come in {study.pool_s:g} s and are warm "
            f"in {study.pool_s:g} more"
        ),
        rows=[each.as_row() for each in (reactive, ahead, oracle)],
        curves=Curves(x="executor_s", y=("overload_s",), line="loop"),
        trend_holds=no_worse and _dearer(ahead, reactive) <= MOST_DEARER,
        says=(
            f"Ahead is to be overloaded no longer than reactive, at no more than "
            f"{100 * MOST_DEARER:g} % more executor-seconds; it was for {ahead.overload_s:.0f} s, "
            f"reactive for {reactive.overload_s:.0f}, at {100 * _dearer(ahead, reactive):+.1f} %; "
            f"the oracle for {oracle.overload_s:.0f} s at {100 * _dearer(oracle, reactive):+.1f} %."
        ),
    )
    return (figure,)


def _dearer(one: Outcome, other: Outcome) -> float:
    return one.executor_s / other.executor_s - 1
