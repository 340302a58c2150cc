"""A step problem in whole numbers, so that loads, costs and bounds are compared exactly.

The unit of work is so small that rounding stays far inside
:data:`~elastream.model.migration.LOAD_TOLERANCE`: a node that holds at most the limit is never
rejected, one over the limit and its tolerance never accepted. State is rounded down, so that a
bound found here is a bound on bytes. Whole amounts, and fractions that fit, are not rounded.

The limit need not be the load of any set of tasks: the capacity is lowered to the heaviest load
that some set reaches (subset sums, if their range is small), which sharpens every bound and often
proves at once that the tasks do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from elastream.model.checks import Number
from elastream.model.migration import LOAD_TOLERANCE, StepProblem
from elastream.placement.state_ticks import Ticks
from elastream.placement.whole_units import in_units

Ints: TypeAlias = NDArray[np.int64]
_Ratio: TypeAlias = tuple[int, int]
"""A number as a fraction in lowest terms: numerator and denominator."""

NOWHERE = -2
"""A marker for no node, different from that of an unplaced task."""
_STATE_BITS = 51
_WORK_BITS = 50
_SHORT_DENOMINATOR = 100_000
_CLOSE = 10**12
"""A short fraction replaces a load that differs from it by at most one part in this many."""
_SUBSET_SUM_BITS = 1 << 26
"""Maximum number of bits shifted to find the reachable loads; above it the capacity is
unchanged."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeStep:
    """The problem that the free-step searches solve.

    Only relevant nodes are numbered here: those that hold tasks or copies now, then as many idle
    ones as could ever be of use. All nodes have the same capacity.
    """

    work: Ints
    """Load of each task, in units of work; none is above ``capacity``."""
    state: Ints
    """Size of each task, in units of state."""
    home: Ints
    """The node that holds the task now."""
    copies: Ints
    """Further nodes on which a task loads no state: one row per task, padded with ``NOWHERE``, with
    as many columns as the largest number of copies; none if there are no copies."""
    nodes: Ints
    """The problem's own number of each node."""
    holders: int
    """Number of nodes that hold tasks or copies now: the first ones."""
    allowed: int
    """Number of nodes that may hold tasks afterwards, at most ``len(nodes)``."""
    capacity: int
    """The most a node may hold, in units of work."""
    work_unit: Fraction
    state_unit: Fraction
    state_error: Fraction
    """No set of tasks is larger than its whole state by more than this."""

    @property
    def idle(self) -> int:
        """Number of nodes that hold nothing now; they are interchangeable."""
        return len(self.nodes) - self.holders

    @property
    def own(self) -> tuple[Ints, Ints]:
        """All pairs of a task and a node on which it loads no state: first the homes."""
        every = np.arange(len(self.work))
        task, column = np.nonzero(self.copies != NOWHERE)
        nodes = np.concatenate([self.home, self.copies[task, column]])
        return np.concatenate([every, task]), nodes

    @property
    def copied(self) -> NDArray[np.bool_]:
        """The tasks that have a copy somewhere."""
        return np.asarray((self.copies != NOWHERE).any(axis=1))

    @property
    def first_price(self) -> Ints:
        """Initial price of each task: its state, or 0 if it has a copy.

        Several nodes would keep a task that has copies, and a bound would count it for each. At
        price 0 it counts for none, as if it found room at one of them.
        """
        return np.where(self.copied, 0, self.state)

    def away(self, tasks: Ints, nodes: Ints | int) -> NDArray[np.bool_]:
        """Return whether each of the tasks has to load its state on its node."""
        away = np.asarray(self.home[tasks] != nodes)
        for holders in self.copies.T:
            away &= holders[tasks] != nodes
        return away

    def moved(self, place: Ints) -> NDArray[np.bool_]:
        """Return which tasks have to load their state when task j goes to ``place[j]``."""
        return self.away(np.arange(len(place)), place)

    def cost(self, place: Ints) -> int:
        """Return the state that is loaded when task j goes to ``place[j]``."""
        return int(self.state[self.moved(place)].sum())

    def loads(self, place: Ints) -> Ints:
        """Return the work on each node; tasks on node -1 are unplaced."""
        loads = np.zeros(len(self.nodes), dtype=np.int64)
        placed = place >= 0
        np.add.at(loads, place[placed], self.work[placed])
        return loads

    def fits(self, place: Ints) -> bool:
        """Return whether every task has a node, no node is overfull and not too many are used."""
        few = len(np.unique(place)) <= self.allowed
        return bool(place.min() >= 0 and self.loads(place).max() <= self.capacity and few)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Result of a search within its limits."""

    place: Ints | None
    """The cheapest placement found that fits."""
    lower_bound: int
    """No placement costs less; above all state if none exists."""

    def gap(self, step: WholeStep) -> int:
        """Return the distance of the bound from a proof: of the cost, or that nothing fits."""
        known = int(step.state.sum()) + 1 if self.place is None else step.cost(self.place)
        return max(0, known - self.lower_bound)

    def joined(self, other: Answer, step: WholeStep) -> Answer:
        """Return the best of both."""
        places = [place for place in (self.place, other.place) if place is not None]
        return Answer(
            min(places, key=step.cost, default=None), max(self.lower_bound, other.lower_bound)
        )


def whole_step(problem: StepProblem, *, ceiling: Number | None = None) -> WholeStep:
    """Return the problem in whole numbers; no task may be heavier than the limit.

    ``ceiling`` is the cost of a known plan: no better plan moves a larger task, so larger sizes are
    cut to it, which leaves more digits for the smaller ones.
    """
    current = np.array(problem.current.nodes_of_tasks, dtype=np.int64)
    tasks = len(current)
    pairs = np.array(sorted(problem.copies), dtype=np.int64).reshape(-1, 2)
    holders = np.unique(np.concatenate([current, pairs[:, 1]]))
    idle = np.setdiff1d(np.arange(problem.nodes_after), holders, assume_unique=True)[:tasks]
    nodes = np.concatenate([holders, idle])
    allowed = min(problem.target.nodes, len(nodes))
    work, capacity, work_unit = _whole_work(problem.work, problem.limit, allowed)
    sizes = problem.state if ceiling is None else [min(size, ceiling) for size in problem.state]
    state, state_unit, size = whole_state(sizes)
    return WholeStep(
        work=work,
        state=state,
        home=np.searchsorted(holders, current).astype(np.int64),
        copies=_copies(pairs[:, 0], np.searchsorted(holders, pairs[:, 1]), tasks),
        nodes=nodes,
        holders=len(holders),
        allowed=allowed,
        capacity=_reachable(work, capacity),
        work_unit=work_unit,
        state_unit=state_unit,
        state_error=size - int(state.sum()) * state_unit,
    )


def _copies(tasks: Ints, nodes: Ints, count: int) -> Ints:
    """Return a row of nodes for each of ``count`` tasks; the pairs are in the order of tasks."""
    sizes = np.bincount(tasks, minlength=count)
    column = np.arange(len(tasks)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    copies = np.full((count, int(sizes.max())), NOWHERE)
    copies[tasks, column] = nodes
    return copies


def _whole_work(work: Sequence[Number], limit: float, allowed: int) -> tuple[Ints, int, Fraction]:
    """Return work and capacity in units, and the unit."""
    most = Fraction(limit) * (1 + Fraction(LOAD_TOLERANCE))
    loads = _simplest(work)
    bits = min(_WORK_BITS, 61 - min(len(work), allowed).bit_length())
    unit = _unit(loads, most, bits)
    capacity = math.floor(most / unit)
    up, down = unit.as_integer_ratio()
    units = [min(-(-top * down // (bottom * up)), capacity) for top, bottom in loads]
    divisor = math.gcd(*units) or 1
    array = np.array([load // divisor for load in units], dtype=np.int64)
    return array, capacity // divisor, unit * divisor


def whole_state(sizes: Sequence[Number]) -> tuple[Ints, Fraction, Fraction]:
    """Return state in units, the unit, and the size of all in bytes."""
    exact, units_in_one = in_units(sizes)
    ticks = Ticks.of(sizes, bits=_STATE_BITS)
    divisor = math.gcd(*ticks.sizes) or 1
    array = np.array([size // divisor for size in ticks.sizes], dtype=np.int64)
    return array, Fraction(2) ** -ticks.exponent * divisor, Fraction(sum(exact), units_in_one)


def _simplest(work: Sequence[Number]) -> list[_Ratio]:
    """Return the loads as the short fractions they represent: three tenths for 0.1 + 0.2.

    The difference is a thousandth of the load tolerance or less. Loads without a short fraction are
    unchanged.
    """
    exact = [load.as_integer_ratio() for load in work]
    short: dict[_Ratio, _Ratio] = {}
    for load in set(exact):
        near = _shortened(load)
        if near is None:
            return exact
        short[load] = near
    return [short[load] for load in exact]


def _shortened(load: _Ratio) -> _Ratio | None:
    """Return the short fraction that the load equals or nearly equals, if there is one."""
    top, bottom = load
    if bottom <= _SHORT_DENOMINATOR:
        return load
    up, down = Fraction(top, bottom).limit_denominator(_SHORT_DENOMINATOR).as_integer_ratio()
    return (up, down) if abs(up * bottom - top * down) * _CLOSE <= top * down else None


def _unit(numbers: Sequence[_Ratio], most: Fraction, bits: int) -> Fraction:
    """Return the unit in which all numbers are whole, or the smallest that ``bits`` allow."""
    finest = math.lcm(*{bottom for _, bottom in numbers})
    if most * finest < 1 << bits:
        return Fraction(1, finest)
    return Fraction(2) ** (math.frexp(float(most))[1] + 1 - bits)


def _reachable(work: Ints, capacity: int) -> int:
    """Return the heaviest load of any set of tasks that is at most ``capacity``."""
    total = int(work.sum())
    if total <= capacity:
        return total
    if len(work) * capacity > _SUBSET_SUM_BITS:
        return capacity
    within = (1 << (capacity + 1)) - 1
    loads = 1
    for load in work.tolist():
        loads |= (loads << load) & within
    return loads.bit_length() - 1
