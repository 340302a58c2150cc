"""What each shape must have answered in the end, computed over all rows at once, without Spark.

Times are such that nothing lies exactly on a border: rows and watermarks at whole seconds, gaps,
bounds and timers at halves, but for windows, which Spark closes when the watermark reaches their
end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from elastream_lab.campaign.rows import DELAY_S, Row

WINDOW_S: Final = 10
GAP_S: Final = 3.5
BOUND_S: Final = 5.5

Values = tuple[int | None, ...]
Answer = Callable[[Sequence[Row]], Counter[Values]]
"""All rows in, the rows of the answer out, each as often as it must be there."""


def watermark_of(rows: Iterable[Row]) -> int:
    """Return where the watermark is once all rows were read."""
    return max(row.at for row in rows) - DELAY_S


def watermark_of_both(rows: Sequence[Row]) -> int:
    """Return where it is where the two sides are streams of their own: at the slower one's."""
    return min(watermark_of(row for row in rows if row.side == side) for side in (0, 1))


def _counts(rows: Sequence[Row]) -> Counter[Values]:
    values: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows:
        values[row.key].append(row.value)
    return Counter((key, len(each), sum(each)) for key, each in values.items())


def _key_counts(rows: Sequence[Row]) -> Counter[Values]:
    return Counter((key, n) for key, n, _ in _counts(rows))


def _total(rows: Sequence[Row]) -> Counter[Values]:
    return Counter([(len(rows), sum(row.value for row in rows))])


def _windowed(rows: Sequence[Row]) -> Counter[tuple[int, int]]:
    """Return the rows of every window that is closed, by its start and key."""
    closed = watermark_of(rows)
    starts = [(row.at // WINDOW_S * WINDOW_S, row.key) for row in _in_time(rows)]
    return Counter((start, key) for start, key in starts if start + WINDOW_S <= closed)


def _windows(rows: Sequence[Row]) -> Counter[Values]:
    return Counter((start, key, n) for (start, key), n in _windowed(rows).items())


def _chained(rows: Sequence[Row]) -> Counter[Values]:
    totals: defaultdict[int, list[int]] = defaultdict(list)
    for (start, _), n in _windowed(rows).items():
        totals[start].append(n)
    return Counter((start, sum(each), len(each)) for start, each in totals.items())


def _timers(rows: Sequence[Row]) -> Counter[Values]:
    """Windows again, but reported by timers half a second after their end."""
    closed = watermark_of(rows)
    return Counter(
        {row: n for row, n in _windows(rows).items() if (row[0] or 0) + WINDOW_S + 0.5 < closed}
    )


def _sessions(rows: Sequence[Row]) -> Counter[Values]:
    closed, found = watermark_of(rows), []
    for key in {row.key for row in _in_time(rows)}:
        times = sorted(row.at for row in _in_time(rows) if row.key == key)
        begun, n = None, 0
        for at, after in zip(times, [*times[1:], None], strict=True):
            begun, n = at if begun is None else begun, n + 1
            if after is None or after > at + GAP_S:
                if at + GAP_S < closed:
                    found.append((key, begun, n))
                begun, n = None, 0
    return Counter(found)


def _first_seen(rows: Sequence[Row]) -> Counter[Values]:
    return Counter({(event,): 1 for event in {row.event for row in rows}})


def _first_in_time(rows: Sequence[Row]) -> Counter[Values]:
    return _first_seen(list(_in_time(rows)))


def _first_at_its_time(rows: Sequence[Row]) -> Counter[Values]:
    return Counter(dict.fromkeys({(row.event, row.at) for row in _in_time(rows)}, 1))


def _joined(rows: Sequence[Row], *, outer: bool) -> Counter[Values]:
    partners: defaultdict[int, list[int]] = defaultdict(list)
    for row in _in_time(rows):
        if row.side == 1:
            partners[row.event].append(row.at)
    closed, found = watermark_of_both(rows), Counter[Values]()
    for row in _in_time(rows):
        if row.side == 0:
            matches = [at for at in partners[row.event] if row.at <= at <= row.at + BOUND_S]
            found.update((row.event, at) for at in matches)
            if outer and not matches and row.at + BOUND_S < closed:
                found[(row.event, None)] += 1
    return found


def _in_time(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for row in rows if not row.late)


ANSWERS: Final[dict[str, Answer]] = {
    "counts": _counts,
    "total": _total,
    "windows": _windows,
    "chained windows": _chained,
    "sessions": _sessions,
    "first seen": _first_seen,
    "first seen at its time": _first_at_its_time,
    "first seen within the delay": _first_in_time,
    "join": lambda rows: _joined(rows, outer=False),
    "outer join": lambda rows: _joined(rows, outer=True),
    "counts in pandas": _key_counts,
    "timeouts in pandas": _timers,
    "timers": _timers,
    "counts that expire in a day": _key_counts,
}
"""By the name of the shape."""
