"""Which query should leave an overloaded application, for which other, and how (paper 002, 2).

The paper's coordinator migrates a query when a load manager reports that a node is overloaded. Here
it also chooses how, by which relieves the origin sooner:

- A **handover** moves no state, but the origin works until its last window ends. With windows of
  length l and slide s, the target's first row lies s / 2 after the start of that window on average:
  the origin is relieved after ``l - s / 2``.
- A **migration** stops the query, moves its state and starts it again: ``restart + state /
  bandwidth``. All rows of that time wait.

**Load** is what keeps cores busy now or, if that is more, what is foreseen for the time at which a
handover could be over: the line through the last samples, extended.

**Rule.** The most loaded application above the high mark is relieved. Candidates are those of its
queries that fit into another application, below the target mark there. Of those that bring the
origin below the high mark the one that is gone soonest is chosen, among equals the one with the
least work; if none suffices alone, the one with the most work. It goes where most room is left.
If no application is above the high mark, a query that is away from its home returns, as soon as its
home is at most at the low mark with it: the two marks are apart, so that a query does not swing.
Ties are decided by name, so that the same loads always give the same answer. O(applications x
queries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from elastream.handover.model import Window
from elastream.model.checks import non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.plan import Infeasible

_TREND: Final = 10
"""Number of samples that a line is drawn through; one is taken a minute."""
_LEAST: Final = 3


@dataclass(frozen=True, slots=True)
class QueryLoad:
    """Load of a query on its application."""

    name: str
    work: float
    """Number of cores it keeps busy."""
    state_bytes: float
    rows_per_s: float
    window: Window | None = None
    """Its controlling window, times in milliseconds; ``None`` if it cannot be handed over."""
    home: str | None = None
    """The application it returns to when that has room; ``None`` if it is at home anywhere."""


@dataclass(frozen=True, slots=True)
class ApplicationLoad:
    """An application, and the queries that may leave it."""

    name: str
    cores: float
    work: float
    """Number of busy cores, for everything that runs there."""
    queries: tuple[QueryLoad, ...] = ()
    foreseen: float = 0.0
    """Number of cores that are expected to be busy when a handover could be over."""

    @property
    def needed(self) -> float:
        """Number of cores that are or will be busy, whichever is more."""
        return max(self.work, self.foreseen)

    def __post_init__(self) -> None:
        positive("cores", self.cores)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of overload, and the cost of state and restarts."""

    bytes_per_s: float
    """Speed at which state moves between two applications."""
    restart_s: float
    """Time a query takes to start again elsewhere."""
    high: float = 0.9
    """An application that is busier than this share of its cores is relieved."""
    target: float = 0.7
    """Another application may be as busy as this with the additional query."""
    low: float = 0.5
    """An application that is at most as busy as this with a query of its own takes it back."""
    ahead_s: float = 0.0
    """How far load is foreseen; 0 for not at all."""

    def __post_init__(self) -> None:
        positive("bytes_per_s", self.bytes_per_s)
        non_negative("restart_s", self.restart_s)
        if not 0 < positive("target", self.target) <= positive("high", self.high):
            raise ProblemError("target", f"{self.target} is above high, {self.high}")
        if non_negative("low", self.low) > self.target:
            raise ProblemError("low", f"{self.low} is above target, {self.target}")
        non_negative("ahead_s", self.ahead_s)


@dataclass(frozen=True, slots=True)
class Relief:
    """A recommended action."""

    query: str
    origin: str
    target: str
    how: Literal["hand over", "migrate"]
    handover_s: float | None
    """Time until the origin is relieved by a handover; ``None`` if none is possible."""
    migration_s: float
    """Time until it is relieved by moving the state."""
    suffices: bool
    """Whether the origin is below the high mark afterwards."""
    back: bool = False
    """The query returns to its home; its application is not overloaded."""

    @property
    def reason(self) -> str:
        """One sentence for a person."""
        moved = f"moving its state takes {self.migration_s:.1f} s"
        if self.handover_s is None:
            why = f"it has no window to be handed over at, and {moved}"
        else:
            why = f"a handover takes {self.handover_s:.1f} s and {moved}"
        rest = "" if self.suffices else "; that alone is not enough"
        back = "back " if self.back else ""
        where = f"from {self.origin!r} {back}to {self.target!r}"
        return f"{self.how} {self.query!r} {where}: {why}{rest}"


def relief(applications: Sequence[ApplicationLoad], marks: Marks) -> Relief | Infeasible | None:
    """Return the action for the most loaded application, or a return; ``None`` for no action."""
    loaded = [each for each in applications if each.needed > marks.high * each.cores]
    if not loaded:
        return _returning(applications, marks)
    origin = max(loaded, key=lambda each: (each.needed / each.cores, each.name))
    candidates = [
        _relief(origin, query, target, marks)
        for query in origin.queries
        if (target := _roomiest(applications, origin, query, marks)) is not None
    ]
    if not candidates:
        busy = f"{origin.needed:.2f} of {origin.cores:g} cores are busy in {origin.name!r}"
        return Infeasible(f"{busy}, and no query of it fits into another application")
    work = {query.name: query.work for query in origin.queries}
    enough = [each for each in candidates if each.suffices]
    if enough:
        return min(enough, key=lambda each: (_soonest(each), work[each.query], each.query))
    return max(candidates, key=lambda each: (work[each.query], each.query))


def foreseen_work(samples: Sequence[tuple[int, float]], ahead_s: float) -> float:
    """Return the work expected after the last sample: the line through the last ones, extended.

    ``samples`` are pairs of time in milliseconds and number of busy cores. Fewer than three foresee
    nothing.
    """
    last = samples[-_TREND:]
    if len(last) < _LEAST or not ahead_s:
        return 0.0
    mean_at = sum(at for at, _ in last) / len(last)
    mean_work = sum(work for _, work in last) / len(last)
    spread = sum((at - mean_at) ** 2 for at, _ in last)
    if not spread:
        return 0.0
    slope = sum((at - mean_at) * (work - mean_work) for at, work in last) / spread
    return max(0.0, mean_work + slope * (last[-1][0] + ahead_s * 1000 - mean_at))


def _returning(applications: Sequence[ApplicationLoad], marks: Marks) -> Relief | None:
    """Return the query that goes home: of those that can, the one with the most work."""
    named = {each.name: each for each in applications}
    returning: list[tuple[float, str, ApplicationLoad, QueryLoad, ApplicationLoad]] = []
    for each in applications:
        for query in each.queries:
            home = None if query.home in (None, each.name) else named.get(query.home or "")
            if home is not None and home.needed + query.work <= marks.low * home.cores:
                returning.append((query.work, query.name, each, query, home))
    if not returning:
        return None
    _, _, origin, query, home = max(returning, key=lambda found: found[:2])
    return replace(_relief(origin, query, home, marks), back=True)


def _roomiest(
    applications: Sequence[ApplicationLoad],
    origin: ApplicationLoad,
    query: QueryLoad,
    marks: Marks,
) -> ApplicationLoad | None:
    fitting = [
        each
        for each in applications
        if each is not origin and each.needed + query.work <= marks.target * each.cores
    ]
    return max(fitting, key=lambda each: (each.cores - each.needed, each.name), default=None)


def _relief(
    origin: ApplicationLoad, query: QueryLoad, target: ApplicationLoad, marks: Marks
) -> Relief:
    moved_s = marks.restart_s + query.state_bytes / marks.bytes_per_s
    handed_s = _handed_s(query)
    suffices = origin.needed - query.work <= marks.high * origin.cores
    sooner = handed_s is not None and handed_s < moved_s
    how: Literal["hand over", "migrate"] = "hand over" if sooner else "migrate"
    return Relief(query.name, origin.name, target.name, how, handed_s, moved_s, suffices)


def _handed_s(query: QueryLoad) -> float | None:
    """Return how long a handover takes; rows come at their rate."""
    if query.window is None:
        return None
    per_s = 1000.0 if query.window.kind == "time" else query.rows_per_s
    if not per_s:
        return None
    return max(0.0, query.window.length - query.window.slide / 2) / per_s


def _soonest(found: Relief) -> float:
    handed_s = found.handover_s
    return found.migration_s if handed_s is None else min(handed_s, found.migration_s)
