"""When to hand a query over and when to migrate its state (the limit that paper 002, 1 admits).

**Handing over** moves no state, but the origin keeps working until its last window ends. With
windows of length l and slide s, the target's first tuple lies up to s after the start of that
window, half of it on average: the origin is relieved after ``l - s / 2``, and the rows of ``l - s``
are processed twice. The query never pauses.

**Migrating** stops the query, moves its state and starts it again. The origin is relieved, and the
query is back, after ``restart + state / bandwidth``. All rows of that time wait.

A handover relieves the origin sooner if ``l - s / 2 < restart + state / bandwidth``. For a state of
fixed size the break-even length is the right side plus s / 2. A state that holds the rows of the
window (a join, a row buffer) grows with l: ``state = rate l row_bytes``, so the break-even is
``(restart + s / 2) / (1 - rate row_bytes / bandwidth)``, and there is none if rows arrive faster
than state can be moved.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastream.model.checks import non_negative, positive


@dataclass(frozen=True, slots=True)
class HandoverCost:
    """Expected cost of a handover."""

    relief_s: float
    """Time until the origin no longer works for the query, from the target's first row."""
    rows_twice: float
    """Rows that both sides process; none waits."""


@dataclass(frozen=True, slots=True)
class MigrationCost:
    """Expected cost of moving the state."""

    relief_s: float
    """Time until the origin no longer works for the query."""
    rows_late: float
    """Rows that wait meanwhile: the query has no output."""


def handover_cost(*, length_s: float, slide_s: float, rows_per_s: float) -> HandoverCost:
    """Return the expected cost for time windows; a slide above the length leaves no overlap."""
    length, slide = positive("length_s", length_s), positive("slide_s", slide_s)
    rate = non_negative("rows_per_s", rows_per_s)
    return HandoverCost(max(0.0, length - slide / 2), rate * max(0.0, length - slide))


def migration_cost(
    *, state_bytes: float, bytes_per_s: float, restart_s: float, rows_per_s: float
) -> MigrationCost:
    """Return the expected cost of stopping, moving all of the state, and starting again."""
    moved_s = non_negative("state_bytes", state_bytes) / positive("bytes_per_s", bytes_per_s)
    pause_s = non_negative("restart_s", restart_s) + moved_s
    return MigrationCost(pause_s, non_negative("rows_per_s", rows_per_s) * pause_s)


def break_even_length_s(
    *,
    slide_s: float,
    bytes_per_s: float,
    restart_s: float,
    state_bytes: float = 0,
    rows_per_s: float = 0,
    row_bytes: float = 0,
) -> float | None:
    """Return the window length up to which a handover relieves the origin sooner.

    ``state_bytes`` is the part of the state that does not depend on the length, ``row_bytes`` the
    part per row of a window. ``None``: a handover is sooner at every length.
    """
    bandwidth = positive("bytes_per_s", bytes_per_s)
    growth = (
        non_negative("rows_per_s", rows_per_s) * non_negative("row_bytes", row_bytes) / bandwidth
    )
    if growth >= 1:
        return None
    fixed_s = (
        non_negative("restart_s", restart_s) + non_negative("state_bytes", state_bytes) / bandwidth
    )
    return (fixed_s + positive("slide_s", slide_s) / 2) / (1 - growth)
