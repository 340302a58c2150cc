"""Windows of rows: what is made of the rows of each, for every group by itself.

A window of ``length`` rows starts at every ``slide``-th row of its group. With several inputs it
holds the rows of these numbers of each of them (paper 002, section 3.1.1). What is made of windows
is made in the batch in which they are complete, so anything that a batch can do will do: every
aggregate that Spark has, also those that it refuses in a stream, and functions of the user's.

**Joins.** Two rows that share a window are a pair, once, however many windows they share: it
belongs to the first of them. That follows from their numbers alone, so both sides of a handover
agree on it, and the pair that section 3.2.1 suppresses at the origin is the origin's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from elastream.handover.model import Window
from elastream.handover.spark.numbered_rows import (
    COORDINATE,
    INPUT,
    NUMBER,
    ROW_NUMBER,
    WINDOWS,
    group_columns,
)
from elastream.model.checks import count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.group import GroupedData


@dataclass(frozen=True, slots=True)
class RowWindows:
    """What is made of each window of rows of one frame."""

    of: Callable[[GroupedData], DataFrame]
    """Given the rows grouped by window, return a row or more for each: ``windows.agg(...)``. A
    row's own number is in the column ``row_number``."""
    by: Sequence[str] = ()
    """The columns that identify groups; each has windows of its own. All rows are one group
    without."""
    order: Sequence[str] = ()
    """The columns that order rows of the same time in a group; without, all that have an order."""
    reach_ms: int = 0
    """How far the watermark lags behind the rows' times more than their lateness: the range of a
    join whose pairs carry the later time."""
    counts: str | None = None
    """A folder that both sides reach, for how many rows each group had; without, the origin's."""

    frames = 1

    def __post_init__(self) -> None:
        count("rows.reach_ms", self.reach_ms)

    def made(self, rows: DataFrame, window: Window) -> DataFrame:
        """Return what is made of the windows of a batch; ``rows`` are numbered rows."""
        del window
        each = _in_windows(rows, self.by, 0, "row0.*")
        made = self.of(each.groupBy(*self.by, COORDINATE, NUMBER))
        return _with_coordinate(made)


@dataclass(frozen=True, slots=True)
class RowWindowJoin:
    """What is made of the pairs of rows of two frames that share a window of rows."""

    of: Callable[[DataFrame], DataFrame]
    """Given the pairs, each with the structs ``left`` and ``right``, return the results."""
    by: Sequence[str] = ()
    """The columns that identify groups, in both frames."""
    on: Sequence[str] = ()
    """Columns of both frames that are equal in a pair."""
    order: Sequence[str] = ()
    """As of :class:`RowWindows`, in both frames."""
    counts: str | None = None
    """As of :class:`RowWindows`."""

    frames = 2
    reach_ms = 0

    def made(self, rows: DataFrame, window: Window) -> DataFrame:
        """Return what is made of the pairs of a batch; ``rows`` are numbered rows."""
        from pyspark.sql import functions as f

        keys = [*self.by, COORDINATE, NUMBER]
        left, right = (
            _in_windows(rows, self.by, i, f.col(f"row{i}").alias(side)).select(
                *(f.col(name).alias(f"{side}_{name}") for name in [*keys, ROW_NUMBER]), side
            )
            for i, side in enumerate(("left", "right"))
        )
        same = [f.col(f"left_{name}").eqNullSafe(f.col(f"right_{name}")) for name in keys]
        same += [f.col(f"left.{name}") == f.col(f"right.{name}") for name in self.on]
        pairs = left.join(right, reduce(lambda one, other: one & other, same))
        first = _first_shared(window, f"left_{ROW_NUMBER}", f"right_{ROW_NUMBER}")
        once = pairs.where(f.col(f"left_{NUMBER}") == first)
        plain = (f.col(f"left_{name}").alias(name) for name in keys)
        return _with_coordinate(self.of(once.select(*plain, "left", "right")))


def _in_windows(rows: DataFrame, by: Sequence[str], i: int, body: Column | str) -> DataFrame:
    """Return the rows of a frame once for each window that holds them."""
    from pyspark.sql import functions as f

    own = rows.where((f.col(INPUT) == i) & (f.col(ROW_NUMBER) >= 0))
    kept = [f.col(name) for name in group_columns(by) if name in by]
    held = own.select(*kept, ROW_NUMBER, f.explode(WINDOWS).alias(WINDOWS), f"row{i}")
    return held.select(
        *kept, f.col(f"{WINDOWS}.{COORDINATE}"), f.col(f"{WINDOWS}.{NUMBER}"), ROW_NUMBER, body
    )


def _first_shared(window: Window, one: str, other: str) -> Column:
    """Return the number of the first window that holds both rows."""
    from pyspark.sql import functions as f

    length, slide = int(window.length), int(window.slide)
    beyond = f.greatest(f.col(one), f.col(other)) - length
    return f.greatest(f.lit(0), f.floor(beyond / slide).cast("long") * slide + slide)


def _with_coordinate(made: DataFrame) -> DataFrame:
    from elastream.model.errors import ProblemError

    if COORDINATE not in made.columns:
        raise ProblemError("rows.of", f"drops the column {COORDINATE!r}; every result needs it")
    return made
