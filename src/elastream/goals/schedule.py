"""Schedule: sizes to come with their times, planned together (OMS, papers 000 and 001).

Where the sizes to come are known, the migrations between them are planned as one sequence: a task
that leaves an executor today and would come back tomorrow may just as well stay. The papers keep
tasks consecutive; here any executor may hold any tasks. At each size the schedule from here on is
planned again from where tasks are. The i-th migration from now on counts ``gamma ** i`` (the
weight of papers 000 and 001), for what is further ahead is less certain.

A size is wanted from its time on; a larger one ``lead_s`` earlier, for executors take a while to
come. Before the first time the application keeps the executors it has. A schedule that repeats
after whole days follows the wall clock. Any other repeats after elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, Self

from elastream.core.application import GoalBounds, Observed
from elastream.core.goal import Goal, MadePlanner, Need, Question, Wanted, within_bounds
from elastream.core.learning import LearningPlanner
from elastream.core.policy import planner_named
from elastream.goals.wall_clock import checked_zone, moment_of, wall_clock
from elastream.model.checks import abbreviate, count, non_negative, positive
from elastream.model.errors import ProblemError
from elastream.model.observation import Executor
from elastream.model.words import pluralize
from elastream.registry import PLANNERS, installed

_MOST_AHEAD: Final = 4
"""Sizes that are planned together; further ones hardly change what moves now."""
_LOOKS_AHEAD: Final = "free-ahead"
"""Name of the planner that takes the sizes to come."""
_MOST_SIZES: Final = 10_000
_DAY: Final = timedelta(days=1)
_FIRST_DAY: Final = datetime(2001, 1, 1)
"""Where a daily schedule starts: long ago, and no zone set its clocks on that day."""

Moment = datetime | str | float
"""A time: a ``datetime``, an ISO 8601 text, or seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Schedule(Goal):
    """Numbers of executors with the times from which they are wanted."""

    sizes: Sequence[tuple[Moment, int]]
    """When, and how many; in the order of time."""
    every: timedelta | None = None
    """How often it repeats: whole days by the wall clock, else elapsed time; ``None``: once."""
    lead_s: float = 60.0
    """How long before its time a larger size is begun."""
    gamma: float = 1.0
    """How much each migration counts compared with the one before it, from 0 to 1."""
    zone: str | None = None
    """Time zone of times that name none, such as ``"Europe/Berlin"``; ``None``: the system's."""
    _walls: tuple[datetime, ...] = field(init=False, repr=False, compare=False, default=())
    """Wall-clock times of the sizes; empty unless they repeat after whole days."""

    def __post_init__(self) -> None:
        checked_zone("goal.zone", self.zone)
        given, checked = self.sizes, _checked(self.sizes, self.zone)
        object.__setattr__(self, "sizes", checked)
        non_negative("goal.lead_s", self.lead_s)
        if non_negative("goal.gamma", self.gamma) > 1:
            raise ProblemError("goal.gamma", f"{self.gamma:g} is above 1")
        if self.every is not None:
            if not isinstance(self.every, timedelta):
                raise ProblemError("goal.every", f"{abbreviate(self.every)} is not a timedelta")
            period_s = positive("goal.every", self.every.total_seconds())
            span_s = checked[-1][0] - checked[0][0]
            if self.every % _DAY == timedelta(0):
                walls = _walls(given, self.zone)
                object.__setattr__(self, "_walls", walls)
                span_s = (walls[-1] - walls[0]).total_seconds()
            if span_s >= period_s:
                wrong = f"{self.every} is shorter than the schedule itself"
                raise ProblemError("goal.every", wrong)

    @classmethod
    def daily(cls, sizes: Iterable[tuple[str, int]], **more: Any) -> Self:
        """Return a schedule of every day, by wall-clock times such as ``"08:30"`` in ``zone``."""
        moments: list[tuple[Moment, int]] = []
        for i, (clock, number) in enumerate(sizes):
            try:
                hour, minute = (int(part) for part in clock.split(":"))
                moments.append((_FIRST_DAY.replace(hour=hour, minute=minute), number))
            except (ValueError, AttributeError):
                wrong = f"{abbreviate(clock)} is not a time of the day such as 08:30"
                raise ProblemError(f"goal.sizes[{i}]", wrong) from None
        return cls(moments, every=_DAY, **more)

    @property
    def name(self) -> str:
        """What the log calls it."""
        again = "" if self.every is None else f", every {self.every}"
        zone = "" if self.zone is None else f", {self.zone}"
        return f"schedule of {len(self.sizes)} sizes{again}{zone}"

    def check(self, bounds: GoalBounds) -> None:
        """Refuse sizes beyond the bounds."""
        for i, (_, number) in enumerate(self._times()):
            if not bounds.least <= number <= bounds.most:
                wrong = f"{number} is not between min_executors {bounds.least} and max_executors"
                raise ProblemError(f"goal.sizes[{i}]", f"{wrong} {bounds.most}")

    def check_start(self, now_ms: int, executors: tuple[Executor, ...]) -> None:  # noqa: ARG002
        """Refuse a schedule that is over."""
        last_s, number = self._times()[-1]
        if self.every is None and last_s * 1000 < now_ms:
            when = wall_clock(last_s, self.zone).isoformat(sep=" ", timespec="seconds")
            size = pluralize(number, "executor")
            wrong = f"{size} from {when} on is in the past, and nothing follows"
            raise ProblemError(f"goal.sizes[{len(self.sizes) - 1}]", wrong)

    def wanted(self, memory: None, observed: Observed) -> tuple[None, Wanted, tuple[Question, ...]]:
        """Return the size of this moment, or a larger one that is near."""
        alive, busy = len(observed.executors), self.utilisation(observed)
        bounded = within_bounds(observed)
        size = None if observed.wall_ms is None else self._size(observed.wall_ms / 1000)
        if bounded is not None and (size is None or bounded.firm or not alive):
            return memory, bounded, ()
        if size is None or size == alive:
            why = "the schedule has not begun" if size is None else "as the schedule has it"
            return memory, Wanted("hold", alive, f"{pluralize(alive, 'executor')}, {why}", busy), ()
        need: Need = "scale-out" if size > alive else "scale-in"
        ahead = self.ahead(observed.wall_ms or 0)
        then = f", then {', '.join(map(str, ahead))}" if ahead else ""
        reason = f"the schedule asks for {pluralize(size, 'executor')}{then}"
        return memory, Wanted(need, size, reason, busy, {"wanted": size}, firm=True), ()

    def planner(
        self,
        memory: None,  # noqa: ARG002
        observed: Observed,
        executors: int,  # noqa: ARG002
    ) -> MadePlanner | None:
        """Return who plans this size together with those to come, where that is installed."""
        if _LOOKS_AHEAD not in installed(PLANNERS):
            return None
        planner = planner_named(_LOOKS_AHEAD)
        if not isinstance(planner, LearningPlanner):
            return None
        ahead = self.ahead(observed.wall_ms or 0)
        return planner.for_sizes(ahead, observed.bounds.tau, self.gamma)

    def ahead(self, now_ms: int) -> list[int]:
        """Return the sizes that follow the one wanted now, a few of them."""
        upcoming = [number for at_s, number in self._around(now_ms / 1000) if at_s * 1000 > now_ms]
        current = self._size(now_ms / 1000)
        found: list[int] = []
        for number in upcoming:
            if number != (found[-1] if found else current):
                found.append(number)
        return found[: _MOST_AHEAD - 1]

    def _times(self) -> Sequence[tuple[float, int]]:
        return self.sizes  # type: ignore[return-value]

    def _size(self, now_s: float) -> int | None:
        """Return the size in force, or the next one where that is larger and near."""
        size = None
        for at_s, number in self._around(now_s):
            if at_s <= now_s or (
                at_s <= now_s + self.lead_s and size is not None and number > size
            ):
                size = number
        return size

    def _around(self, now_s: float) -> list[tuple[float, int]]:
        """Return the sizes of the period of now, the one before and the next."""
        times = self._times()
        if self.every is None:
            return list(times)
        if self._walls:
            return self._by_wall_clock(now_s, self.every)
        period_s = self.every.total_seconds()
        turn = (now_s - times[0][0]) // period_s
        return [
            (at_s + (turn + shift) * period_s, number)
            for shift in (-1, 0, 1)
            for at_s, number in times
        ]

    def _by_wall_clock(self, now_s: float, every: timedelta) -> list[tuple[float, int]]:
        """Return the same for whole days."""
        turn = (wall_clock(now_s, self.zone) - self._walls[0]) // every
        found: list[tuple[float, int]] = []
        for shift in (1, 0, -1):
            for wall, (_, number) in reversed([*zip(self._walls, self._times(), strict=True)]):
                try:
                    at_s = moment_of(wall + (turn + shift) * every, self.zone)
                except (OverflowError, ValueError):  # the calendar has no such day
                    continue
                # a time that a clock change skips is not moved beyond those that follow it
                found.append((min(at_s, found[-1][0]) if found else at_s, number))
        return found[::-1]


def _checked(sizes: object, zone: str | None) -> tuple[tuple[float, int], ...]:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or not sizes:
        raise ProblemError("goal.sizes", f"{abbreviate(sizes)} is not a list of times and sizes")
    if len(sizes) > _MOST_SIZES:
        raise ProblemError("goal.sizes", f"has {len(sizes)} entries; the most is {_MOST_SIZES}")
    found: list[tuple[float, int]] = []
    for i, entry in enumerate(sizes):
        if not isinstance(entry, Sequence) or isinstance(entry, str) or len(entry) != 2:
            raise ProblemError(
                f"goal.sizes[{i}]", f"{abbreviate(entry)} is not a pair of time and size"
            )
        at_s = _seconds(f"goal.sizes[{i}]", entry[0], zone)
        if found and at_s <= found[-1][0]:
            wrong = f"{abbreviate(entry[0])} is not after the time before it"
            raise ProblemError(f"goal.sizes[{i}]", wrong)
        found.append((at_s, count(f"goal.sizes[{i}]", entry[1], least=1)))
    return tuple(found)


def _seconds(field_name: str, moment: object, zone: str | None) -> float:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise ProblemError(
                field_name, f"{abbreviate(moment)} is not a time of ISO 8601"
            ) from None
    if isinstance(moment, datetime):
        try:
            return moment_of(moment, zone)
        except (OverflowError, ValueError):
            raise ProblemError(field_name, _beyond(moment)) from None
    return float(non_negative(field_name, moment))


def _walls(sizes: Sequence[tuple[Moment, int]], zone: str | None) -> tuple[datetime, ...]:
    """Return the wall-clock times of sizes that have been checked."""
    walls = []
    for i, (moment, _) in enumerate(sizes):
        wall = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        try:
            if not isinstance(wall, datetime):
                wall = wall_clock(float(wall), zone)
            elif wall.tzinfo is not None:
                wall = wall_clock(wall.timestamp(), zone)
        except (OverflowError, ValueError, OSError):
            raise ProblemError(f"goal.sizes[{i}]", _beyond(moment)) from None
        walls.append(wall)
    for i, (before, wall) in enumerate(pairwise(walls), 1):
        if wall <= before:
            wrong = f"{abbreviate(sizes[i][0])} is not after the time before it"
            raise ProblemError(f"goal.sizes[{i}]", f"{wrong} by the wall clock")
    return tuple(walls)


def _beyond(moment: object) -> str:
    return f"{abbreviate(moment)} is beyond the years 1 to 9999"
