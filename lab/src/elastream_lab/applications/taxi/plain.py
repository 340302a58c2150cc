"""The answers of query 1 computed plainly: what the stream must tell, minute by minute.

One pass over the trips in plain Python, with a count of the last 30 minutes that is carried along.
It shares the map and the reading of a line with the query, and nothing else.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Final, NamedTuple

from elastream_lab.applications.taxi.trips import Trip

BEST: Final = 10
"""This many routes are ranked."""
LENGTH_S: Final = 30 * 60
SLIDE_S: Final = 60


class Ranked(NamedTuple):
    """A route in a ranking."""

    trips: int
    latest_s: int
    """When its last trip ended, in seconds since the epoch."""
    route: str


Rankings = Mapping[int, tuple[Ranked, ...]]
"""The best routes of each minute, by the minute's end in seconds since the epoch."""


def plain_rankings(trips: Iterable[Trip]) -> dict[int, tuple[Ranked, ...]]:
    """Return the ranking of every minute that some trip of its last 30 minutes is known for.

    Trips come in the order of their time. O(trips + minutes x routes of 30 minutes).
    """
    minutes: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for at_s, route in trips:
        if route is not None:
            minutes[at_s - at_s % SLIDE_S].append((at_s, route))
    found: dict[int, tuple[Ranked, ...]] = {}
    counts: Counter[str] = Counter()
    latest_s: dict[str, int] = {}
    counted: deque[int] = deque()
    spanned = range(0, LENGTH_S, SLIDE_S)
    for begin in sorted({first + later for first in minutes for later in spanned}):
        while counted and counted[0] <= begin - LENGTH_S:
            counts -= Counter(route for _, route in minutes[counted.popleft()])
        if begin in minutes:
            counted.append(begin)
            counts += Counter(route for _, route in minutes[begin])
            latest_s |= {route: at_s for at_s, route in minutes[begin]}
        ranked = (Ranked(trips, latest_s[route], route) for route, trips in counts.items())
        best = nsmallest(BEST, ranked, key=lambda one: (-one.trips, -one.latest_s, one.route))
        found[begin + SLIDE_S] = tuple(best)
    return found


def differing(found: Rankings, expected: Rankings) -> int:
    """Return how many minutes have another ranking, or one where the other has none."""
    return sum(found.get(m) != expected.get(m) for m in found.keys() | expected.keys())
