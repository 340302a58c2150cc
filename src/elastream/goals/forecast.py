"""Forecast: the load expected a while ahead, and what such forecasts have been worth.

Time is cut into slots, four to a look-ahead. At the end of each, every *expert* guesses the load of
the slot a look-ahead later:

- ``now``: as now, which is what a loop without a forecast does;
- ``trend``: the smoothed slope (Holt 1957) goes on and is damped (Gardner and McKenzie 1985);
- ``onset``: the last slope goes on, where it is steeper than noise: a burst begins;
- ``day``, ``week``: the load of now times what is usual at the time of the day, or of the week,
  over what is usual now, in quarters of an hour by the wall clock.

A guess counts as at least the load of now and at most ``1 + MOST_MORE`` times that. Executors that
are chosen for a load bear ``headroom`` times as much. A look-ahead later a guess is scored:
``SHORTFALL_PRICE`` for each core of the load that its executors would not have borne, and one for
each core of it that neither the load then nor the load before had a use for. Costs are sums over
the past in which what is a day old counts half. The expert of the least cost is used; where that is
``now``, nothing is foreseen.

**The bound.** Let C be the cost of the guesses that were used, C₀ that of ``now`` and L the load,
all three as such sums over the slots. Another expert than ``now`` is used only while
``C <= C₀ + MOST_WORSE L``. Guesses under way can add to C what four slots of them cost at most,
``MOST_MORE`` times the load when they were made. So at any time and for any load

    C <= C₀ + MOST_WORSE L + 4 MOST_MORE (the largest load so far).

O(1) a batch, and O(768) each quarter of an hour for the profiles of a day and of a week.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from elastream.goals.wall_clock import wall_clock_ms

EXPERTS: Final = ("now", "trend", "onset", "day", "week")
SLOTS_AHEAD: Final = 4
"""Slots of a look-ahead."""
MOST_MORE: Final = 1.0
"""No more than this many times the load of now is expected on top of it."""
MOST_WORSE: Final = 0.05
"""What forecasts may cost more than the load of now would have, in shares of the load."""
SHORTFALL_PRICE: Final = 10.0
"""A core that is lacking costs as much as this many that are idle."""
_HALF_LIFE_MS: Final = 86_400_000.0
_LEAST_SCORED: Final = 20.0
"""This many guesses must have been scored before one is used."""
_LEVEL: Final = 0.5
_SLOPE: Final = 0.3
_DAMPING: Final = 0.9
_NOISE: Final = 0.05
"""How much the last change counts in the usual one."""
_STEEP: Final = 3.0
"""An onset is steeper than the usual change by this factor."""
_QUARTER_MS: Final = 900_000
_QUARTERS_A_DAY: Final = 96
_DAYS: Final = 0.25
"""How much the last day counts in what is usual."""
_WEEKS: Final = 0.4
"""How much the last week counts in what is usual."""
_SHRINKAGE: Final = 0.1
"""What is usual at any time is mixed with the mean by this share, so that no ratio is wild."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is usual at each quarter of an hour of a period. Its times are wall-clock times."""

    usual: tuple[float | None, ...]
    """``None`` where it has not been seen yet."""
    weight: float
    """How much the last period counts."""
    mean: float = 0.0
    """Of what is usual, over the quarters seen."""

    @classmethod
    def empty(cls, days: int, weight: float) -> Profile:
        """Return the profile of a period of which nothing is known."""
        return cls((None,) * (days * _QUARTERS_A_DAY), weight)

    def learnt(self, quarter: int, load: float) -> Profile:
        """Return the profile after a quarter of an hour, counted from the start of 1970."""
        place = quarter % len(self.usual)
        before = self.usual[place]
        now = load if before is None else before + self.weight * (load - before)
        usual = (*self.usual[:place], now, *self.usual[place + 1 :])
        known = [each for each in usual if each is not None]
        return replace(self, usual=usual, mean=sum(known) / len(known))

    def growth(self, from_ms: float, to_ms: float) -> float | None:
        """Return what is usual at one moment over what is usual at another, if both are known."""
        before, after = self._at(from_ms), self._at(to_ms)
        if before is None or after is None:
            return None
        floor = _SHRINKAGE * self.mean
        return (after + floor) / (before + floor) if before + floor > 0 else None

    def _at(self, at_ms: float) -> float | None:
        """Return what is usual at a moment, evenly between the middles of the quarters."""
        place, share = divmod(at_ms / _QUARTER_MS - 0.5, 1.0)
        first, second = (self.usual[(int(place) + i) % len(self.usual)] for i in (0, 1))
        if first is None or second is None:
            return None
        return first + share * (second - first)


@dataclass(frozen=True, slots=True)
class Guess:
    """What the experts guessed at the end of a slot."""

    slot: int
    """The one it is about."""
    loads: tuple[float, ...]
    """One of each expert, the first as it was then."""
    used: int
    """Whose it was that counted."""

    @property
    def grows(self) -> bool:
        """Whether more was expected than there was."""
        return self.loads[self.used] > self.loads[0]

    def cost(self, expert: int, load: float, headroom: float) -> float:
        """Return what an expert's guess cost now that the load is known."""
        guess = self.loads[expert]
        idle = max(0.0, guess - max(load, self.loads[0]))
        return idle + SHORTFALL_PRICE * max(0.0, load - headroom * guess)


@dataclass(frozen=True, slots=True)
class Expected:
    """The load to be ready for."""

    load: float
    """The most that is expected within the look-ahead."""
    error: float | None
    """By how much guesses were off in the mean, lately; ``None`` where none was scored."""
    expert: str
    """Whose guess it is."""


@dataclass(frozen=True, slots=True)
class _Mean:
    """The mean load so far in a stretch of time."""

    number: int
    total: float
    count: int = 1

    @property
    def load(self) -> float:
        return self.total / self.count

    def and_also(self, load: float) -> _Mean:
        return replace(self, total=self.total + load, count=self.count + 1)


@dataclass(frozen=True, slots=True)
class Forecaster:
    """What the past shows about the load to come."""

    slot_ms: float
    headroom: float = 1.0
    """How many times the load that executors were chosen for they can bear."""
    zone: str | None = "UTC"
    """Time zone of the days and weeks; ``None``: the system's."""
    slot: _Mean | None = None
    quarter: _Mean | None = None
    level: float | None = None
    slope: float = 0.0
    last: float | None = None
    """Load of the last slot that is over."""
    noise: float | None = None
    """The usual change from slot to slot."""
    day: Profile = field(default_factory=lambda: Profile.empty(1, _DAYS))
    week: Profile = field(default_factory=lambda: Profile.empty(7, _WEEKS))
    guesses: tuple[Guess, ...] = ()
    """Those whose time has not come."""
    costs: tuple[float, ...] = (0.0,) * len(EXPERTS)
    """Of each expert."""
    cost: float = 0.0
    """Of the guesses that were used."""
    load: float = 0.0
    """In sum over the slots that were guessed."""
    off: float = 0.0
    """How far off the used guesses were, in sum."""
    scored: float = 0.0
    """How many guesses that is, in sum."""

    @classmethod
    def ahead(cls, look_ahead_s: float, headroom: float, zone: str | None = "UTC") -> Forecaster:
        """Return one for this look-ahead."""
        return cls(look_ahead_s * 1000 / SLOTS_AHEAD, headroom, zone)

    @property
    def used(self) -> int:
        """Whose guess is used now, as a number into the experts."""
        if self.scored < _LEAST_SCORED or self.cost > self.costs[0] + MOST_WORSE * self.load:
            return 0
        return min(range(len(EXPERTS)), key=lambda expert: (self.costs[expert], expert))

    def with_load(self, at_ms: float, load: float) -> Forecaster:
        """Return what is known after a load was measured."""
        known = self._by_quarters(at_ms, load)
        number = int(at_ms // self.slot_ms)
        if known.slot is None:
            return replace(known, slot=_Mean(number, load))
        if number <= known.slot.number:
            return replace(known, slot=known.slot.and_also(load))
        missed = number - known.slot.number - 1
        known = known._over(known.slot.number, known.slot.load)
        if missed > SLOTS_AHEAD:  # a long gap: what was guessed then is not scored
            known = replace(known, guesses=(), level=None, slope=0.0, last=None)
        else:
            for slot in range(number - missed, number):
                known = known._over(slot, load)
        return replace(known, slot=_Mean(number, load))

    def expected(self, at_ms: float, load: float) -> Expected:
        """Return the most that is expected from now on, with the load of now."""
        number = int(at_ms // self.slot_ms)
        coming = [guess for guess in self.guesses if guess.slot >= number and guess.grows]
        best = max(coming, key=lambda guess: guess.loads[guess.used], default=None)
        error = self.off / self.scored if self.scored else None
        if best is None or best.loads[best.used] <= load:
            return Expected(load, error, EXPERTS[0])
        most = min(best.loads[best.used], (1 + MOST_MORE) * load)
        return Expected(most, error, EXPERTS[best.used])

    def _by_quarters(self, at_ms: float, load: float) -> Forecaster:
        number, quarter = int(at_ms // _QUARTER_MS), self.quarter
        if quarter is None:
            return replace(self, quarter=_Mean(number, load))
        if number <= quarter.number:
            return replace(self, quarter=quarter.and_also(load))
        middle_ms = wall_clock_ms((quarter.number + 0.5) * _QUARTER_MS, self.zone)
        place = int(middle_ms // _QUARTER_MS)
        return replace(
            self,
            quarter=_Mean(number, load),
            day=self.day.learnt(place, quarter.load),
            week=self.week.learnt(place, quarter.load),
        )

    def _over(self, slot: int, load: float) -> Forecaster:
        """Return what is known when a slot is over: guesses are scored, and new ones are made."""
        scored = self._scored(slot, load)
        change = 0.0 if self.last is None else load - self.last
        noise = abs(change)
        if self.noise is not None:
            noise = self.noise + _NOISE * (noise - self.noise)
        level, slope = load, 0.0
        if self.level is not None:
            foreseen = self.level + _DAMPING * self.slope
            level = foreseen + _LEVEL * (load - foreseen)
            slope = _DAMPING * self.slope
            slope += _SLOPE * (level - self.level - slope)
        known = replace(
            scored,
            level=level,
            slope=slope,
            last=load,
            noise=noise if self.last is not None else self.noise,
        )
        steep = self.noise is not None and change > _STEEP * self.noise
        loads = known._guessed(slot, load, SLOTS_AHEAD * change if steep else 0.0)
        guess = Guess(slot + SLOTS_AHEAD, loads, known.used)
        return replace(known, guesses=(*known.guesses, guess))

    def _guessed(self, slot: int, load: float, onset: float) -> tuple[float, ...]:
        """Return the guess of each expert, within bounds."""
        from_ms = (slot + 0.5) * self.slot_ms
        to_ms = from_ms + SLOTS_AHEAD * self.slot_ms
        far = sum(_DAMPING**i for i in range(1, SLOTS_AHEAD + 1))
        span = tuple(wall_clock_ms(at_ms, self.zone) for at_ms in (from_ms, to_ms))
        seasons = (profile.growth(*span) for profile in (self.day, self.week))
        free = (
            load,
            load + far * self.slope,
            load + onset,
            *(load if growth is None else load * growth for growth in seasons),
        )
        return tuple(min(max(guess, load), (1 + MOST_MORE) * load) for guess in free)

    def _scored(self, slot: int, load: float) -> Forecaster:
        """Return what is known when the guess about a slot has been held against its load."""
        left = tuple(guess for guess in self.guesses if guess.slot > slot)
        guess = next((guess for guess in self.guesses if guess.slot == slot), None)
        if guess is None:
            return replace(self, guesses=left)
        kept: float = 2 ** (-self.slot_ms / _HALF_LIFE_MS)
        costs = (guess.cost(expert, load, self.headroom) for expert in range(len(EXPERTS)))
        return replace(
            self,
            guesses=left,
            costs=tuple(
                kept * before + cost for before, cost in zip(self.costs, costs, strict=True)
            ),
            cost=kept * self.cost + guess.cost(guess.used, load, self.headroom),
            load=kept * self.load + load,
            off=kept * self.off + abs(guess.loads[guess.used] - load),
            scored=kept * self.scored + 1,
        )
