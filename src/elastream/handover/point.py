"""UniMiCo: where a windowed query stops on one side and starts on the other (paper 002, 3.1).

**Model.** Windows start every s, in time or rows. The target sees every tuple from its first one on
and none before. The last window at the origin is the last that starts before that tuple, or the
last that is produced already, if that is later. The target begins with the window after it.

**Time windows** (equation 1). With a the start of the last window produced and S the greatest first
tuple of all inputs, the migration timestamp is the last of ``a, a + s, a + 2s, ...`` before S, and
a itself where S <= a. The activation timestamp is one slide later.

**Row windows** (equation 2), derived anew. Number the tuples at the window from 0, the first tuple
of the last window produced; windows start at 0, s, 2s, ... Let p be the number of the first tuple
that the target's window gets: as many as have a timestamp below S, or below "just after a" where
S <= a, because the target's source passes only what is younger than the migration timestamp. The
last window before p starts at ``k = s * ((p - 1) // s)``, and the target drops the ``k + s - p``
tuples up to the next. With the paper's N = p - 1 this is equation 2: delta = p - k is s where s
divides N + 1, else the remainder, and k + s - p = s - delta. So N leaves out the first tuple of the
last window and t, which is at S or later.

The paper's figure 3 disagrees: it counts the first tuple of the last window into N. See
``docs/handover/boundary.md``.

**Several inputs.** Time: S is the greatest of all. Rows: the greatest p decides, and each input
drops ``k + s - p_i``, which the paper's single s - delta is right for on the deciding input only.

**Several window operators.** The last one is the controlling one. Where results carry the earliest
timestamp of what they are made of, S at the sources serves. Where they do not, the paper measures S
at the first tuple that reaches the controlling window; that is too early for a join whose results
carry the later timestamp, since the first result is no sign that all with that timestamp are there.
Here the lengths of the windows in between are added to S (:func:`whole_at_controlling`).

Everything is O(inputs), row windows O(log arrivals) in addition to reading the problem. Decimal
fractions are computed as written: 0.9 - 0.3 is a multiple of 0.3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from elastream.handover.model import Boundary, HandoverPlan, HandoverProblem, Timestamps, Window
from elastream.model.checks import Number
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

_Exact = TypeVar("_Exact", int, Fraction)


def migration_point(problem: HandoverProblem) -> HandoverPlan | Infeasible:
    """Return where the origin stops and the target starts, or what has to be waited for."""
    if problem.arrivals is None:
        return _time_plan(problem)
    return _row_plan(problem, problem.arrivals)


def time_migration(
    slide: Number, last_window: Number, first_tuples: Sequence[Number]
) -> tuple[Number, Number]:
    """Return migration and activation timestamp for windows of time (equation 1, section 3.2.2).

    ``last_window`` is the start of the last window that the origin has produced, ``first_tuples``
    are the timestamps of the first tuples that the target read, one for each input.
    """
    start, last, step = _exact(max(first_tuples)), _exact(last_window), _exact(slide)
    migration = last if start <= last else _last_start_before(start, last, step)
    return _number(migration), _number(migration + step)


def row_delta(slide: int, rows_between: int) -> tuple[int, int]:
    """Return for windows of rows what equation 2 calls delta, and s - delta (section 3.2.2).

    ``rows_between`` is the paper's N: the number of tuples after the first of the last window and
    before the first that the target sees. The origin's last window starts delta tuples before that
    one, and the target's window drops the first s - delta tuples.
    """
    delta = (rows_between + 1) % slide or slide
    return delta, slide - delta


def time_boundary(
    window: Window, produced: int | None, whole_from_timestamps: Timestamps
) -> Boundary:
    """Return the boundary of time windows that start at multiples of the slide.

    ``produced`` is the greatest coordinate of anything the origin has put out, ``None`` for
    nothing; the target sees every row from ``whole_from_timestamps`` on.
    """
    slide = int(window.slide)
    last = _last_start_before(max(whole_from_timestamps), 0, slide)
    if produced is not None:
        last = max(last, produced - produced % slide)
    inputs = len(whole_from_timestamps)
    return Boundary(last, last + slide, (last + slide,) * inputs, (0,) * inputs)


def row_boundary(
    window: Window,
    produced: int | None,
    whole_from_timestamps: Timestamps,
    rows_before: Sequence[int],
) -> Boundary:
    """Return the boundary of row windows; rows and windows count from row 0 of the origin.

    ``rows_before[i]`` is how many rows of input i come before ``whole_from_timestamps[i]``. A
    migration below 0 says that the origin keeps no window at all.
    """
    slide = int(window.slide)
    last = (max(rows_before) - 1) // slide * slide
    if produced is not None:
        last = max(last, produced - produced % slide)
    start = last + slide
    return Boundary(last, start, whole_from_timestamps, tuple(start - p for p in rows_before))


def whole_from(first_timestamp: int, lateness: int = 0) -> int:
    """Return the timestamp from which on a reader sees every row, given its first row.

    Rows with the timestamp of the first may have gone by before, and a row that went by may be
    younger than the first by the ``lateness`` that the stream allows.
    """
    return first_timestamp + lateness + 1


def not_before(begin: Boundary | None, whole_from_timestamps: Timestamps) -> Timestamps:
    """Return from when on the next target sees every row that this application owns.

    ``begin`` is the boundary at which this application took the query over, ``None`` if the query
    began here. It has not seen every row before, so it cannot count them. What lies below the
    activation of ``begin`` counts as put out: it is not this application's to give.
    """
    if begin is None:
        return whole_from_timestamps
    pairs = zip(whole_from_timestamps, begin.from_timestamps, strict=True)
    return tuple(max(whole, own) for whole, own in pairs)


def expect_near(whole_from_timestamps: Timestamps, newest: int, furthest_ahead: int) -> None:
    """Refuse a target whose rows are further ahead of the origin's than any lag explains.

    Its clock, or its unit of time, is another; the boundary would lie where no row ever comes.
    """
    ahead = max(whole_from_timestamps) - newest
    if ahead > furthest_ahead:
        why = f"are {ahead} ahead of the origin's newest row, more than {furthest_ahead}"
        raise ProblemError("the target's first rows", f"{why}; do the clocks disagree?")


def share_window(window: Window, one: int, other: int) -> bool:
    """Return whether a window that starts at a multiple of the slide holds both coordinates."""
    early, late = min(one, other), max(one, other)
    return late < early - early % int(window.slide) + int(window.length)


@dataclass(frozen=True, slots=True)
class WindowOperator:
    """A windowed operator, as far as a handover is concerned with it."""

    window: Window
    earliest: bool = True
    """Its results carry the earliest timestamp of what they are made of, or an earlier one."""


def whole_at_controlling(starts: Timestamps, before: Sequence[WindowOperator]) -> int:
    """Return the timestamp from which on the target's controlling window gets every tuple.

    ``starts`` are those of the sources, ``before`` the operators in front of the controlling one.
    A result that does not carry its earliest timestamp reaches back by at most one window length.
    """
    reach = 0
    for operator in before:
        if operator.earliest:
            continue
        if operator.window.kind == "rows":
            raise ValueError("results of row windows must carry their earliest timestamp")
        reach += int(operator.window.length)
    return max(starts) + reach


def _time_plan(problem: HandoverProblem) -> HandoverPlan:
    first = problem.first_tuples
    migration, activation = time_migration(problem.window.slide, problem.last_window, first)
    return HandoverPlan(migration, activation, None, first.index(max(first)))


def _row_plan(
    problem: HandoverProblem, arrivals: tuple[tuple[Number, ...], ...]
) -> HandoverPlan | Infeasible:
    for i, (start, listed) in enumerate(zip(problem.first_tuples, arrivals, strict=True)):
        if start > max(listed[-1], problem.last_window):
            return Infeasible(
                f"input {i} has no tuple at {start} or later yet, the first that the successor "
                "sees; the rows before it can be counted when one has arrived"
            )
    rows_before = [
        bisect_left(listed, start)
        if start > problem.last_window
        else bisect_right(listed, problem.last_window)
        for start, listed in zip(problem.first_tuples, arrivals, strict=True)
    ]
    slide = int(problem.window.slide)
    deciding = rows_before.index(max(rows_before))
    last = rows_before[deciding] - row_delta(slide, rows_before[deciding] - 1)[0]
    discards = tuple(last + slide - p for p in rows_before)
    return HandoverPlan(arrivals[deciding][last], None, discards, deciding)


def _last_start_before(start: _Exact, aligned: _Exact, slide: _Exact) -> _Exact:
    """Return the last of ``aligned + k * slide``, k of any sign, that lies before ``start``."""
    return start - ((start - aligned) % slide or slide)


def _exact(number: Number) -> Fraction:
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _number(exact: Fraction) -> Number:
    return int(exact) if exact.denominator == 1 else float(exact)
