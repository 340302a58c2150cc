"""Prices of tasks and the lower bound they prove, by column generation.

A *content* is a set of tasks that fits on one node; on node i it costs the state of those of its
tasks that load it there. A placement chooses a content for each of at most ``allowed`` nodes so
that every task is in one. With a price ``u[j]`` on every task the choice decomposes into one
knapsack per node, and for any prices

  sum_j u[j]  -  the ``allowed`` largest of  max over contents S of (u(S) - cost of S on node i)

is a lower bound on the state moved (Lagrange). ``u = state`` gives the bound of the first rung of
free-step: the state that each node can keep. Better prices are the dual values of the linear
program over all contents, found by generating contents with negative reduced cost (Gilmore and
Gomory 1961). The bound is far stronger than that of the usual program if nodes must be filled
almost full.

Some tasks may keep ``u = state``, or 0 if they have a copy, which only weakens the bound. The
heaviest are priced first, because they do not fit into leftover room. Here every task may get a
price, which suits small problems; large ones are for
:mod:`~elastream.placement.free_step.scarce_room`.

Prices are rounded to whole numbers and every bound is recomputed in whole numbers, so no rounding
of the linear program enters it. A task may stay uncovered at a fine. While such tasks remain the
fine is raised, until the bound passes any possible cost: then no placement exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elastream.placement.free_step.knapsack import knapsack
from elastream.placement.free_step.whole_step import Ints, WholeStep
from elastream.placement.linear_programs import Rows, linear_program

_PRICING_OPERATIONS = 2000.0
"""Inner steps a task and node that all knapsacks take, over some rounds of new prices."""
_ROOM = 1 << 16
"""Maximum length of the lists of a knapsack."""
_LARGEST = 1 << 61
"""Sums of prices stay below this."""
_FINEST = 1 << 20
_STEEPEST = 1 << 10
"""Maximum fine of an uncovered task in multiples of all state, if the numbers have room."""
_INERTIA = 0.9
"""Weight of the best prices so far in the first prices tried; the dual values alone oscillate
(Wentges 1997 calls this smoothing)."""


@dataclass(frozen=True, slots=True, eq=False)
class ContentPrices:
    """Prices of the tasks of a step, in fractions of a unit of state, and the bound they prove."""

    price: Ints
    """Price of each task."""
    fractions: int
    """Number of fractions in one unit of state."""
    best: Ints
    """Maximum worth of a content: on each holder, then on an idle node if there are any."""
    least_used: int
    """The same on the last of the nodes that would be used if each were filled separately."""
    bound: int
    """No placement moves less, in fractions."""

    @property
    def lower_bound(self) -> int:
        """No placement moves less, in units of state."""
        return max(0, -(-self.bound // self.fractions))

    def worths(self, step: WholeStep) -> Ints:
        """Return for every node the maximum worth of its content."""
        return np.append(self.best[: step.holders], np.repeat(self.best[step.holders :], step.idle))


@dataclass(frozen=True, slots=True, eq=False)
class _Contents:
    """Some contents, as the linear program needs them."""

    covers: NDArray[np.bool_]
    """One row per content, one column per priced task."""
    kind: Ints
    """The holder of each, or ``holders`` for any idle node."""
    cost: Ints
    """State that moves, minus the (fixed) prices of its tasks that are not priced."""

    def joined(self, other: _Contents, chosen: NDArray[np.bool_]) -> _Contents:
        return _Contents(
            np.vstack([self.covers, other.covers[chosen]]),
            np.concatenate([self.kind, other.kind[chosen]]),
            np.concatenate([self.cost, other.cost[chosen]]),
        )


def content_prices(
    step: WholeStep,
    start: Ints,
    upper_bound: int,
    *,
    heaviest: int,
    iterations: int,
    known: ContentPrices | None = None,
) -> ContentPrices:
    """Return the prices of the best bound found in this many iterations.

    ``start`` is any placement within the capacity, with unplaced tasks at -1. Only the ``heaviest``
    tasks, in that number, get new prices; the others keep the ``known`` or the first ones. The
    search ends early when the bound reaches ``upper_bound``; a bound above all state proves that
    nothing fits.
    """
    total = int(step.state.sum())
    spare = _LARGEST // (len(step.work) * (total + 1))
    steepest = min(_STEEPEST, math.isqrt(spare))
    fractions = min(_FINEST, spare // steepest)
    highest_fine = steepest * (total + 1)
    fine = min(2 * int(step.state.max()) + 1, highest_fine)
    priced = np.zeros(len(step.work), dtype=np.bool_)
    priced[np.argsort(-step.work, kind="stable")[:heaviest]] = True
    price = step.first_price * fractions if known is None else known.price
    best, contents = _price(step, price, fractions, priced)
    placed = _contents_of(step, start, priced)
    contents = contents.joined(placed, np.ones(len(placed.kind), dtype=np.bool_))
    for _ in range(iterations):
        master = _solve(step, contents, priced, fine)
        if master is None:
            break
        before = len(contents.kind)
        dual = best.price.copy()
        dual[priced] = np.rint(master.price * fractions)
        for price in (_INERTIA * best.price + (1 - _INERTIA) * dual, dual):
            prices, more = _price(step, np.rint(price).astype(np.int64), fractions, priced)
            best = max(best, prices, key=lambda either: either.bound)
            contents = contents.joined(more, master.gain(more) > 1e-9 * fine)
        if best.lower_bound >= upper_bound or best.lower_bound > total:
            break
        if best.lower_bound >= master.value or len(contents.kind) == before:
            if master.uncovered < 1e-6 or fine == highest_fine:
                break
            fine = min(8 * fine, highest_fine)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Master:
    """Solution of the linear program over some contents."""

    price: NDArray[np.float64]
    """Dual values of the priced tasks."""
    rent: NDArray[np.float64]
    """Minimum worth of a useful content on each kind of node."""
    value: float
    """Its cost, including fines, minus the tolerance of the solver."""
    uncovered: float
    """Number of tasks that pay the fine."""

    def gain(self, contents: _Contents) -> NDArray[np.float64]:
        """Return how much each content would lower the cost, if it can: its reduced cost."""
        worth = contents.covers @ self.price - contents.cost
        return np.asarray(worth - self.rent[contents.kind])


def _solve(
    step: WholeStep, contents: _Contents, priced: NDArray[np.bool_], fine: int
) -> _Master | None:
    """Cover every priced task by fractions of contents at minimum cost; None if HiGHS gives up."""
    count, tasks = contents.covers.shape
    cost = np.concatenate([contents.cost, np.full(tasks, fine)]) / fine * 1e4
    content, task = np.nonzero(contents.covers)
    rows = Rows.of(
        np.concatenate([task, np.arange(tasks)]),
        np.concatenate([content, count + np.arange(tasks)]),
        -1,
        -np.inf,
        -np.ones(tasks),
    )
    every = np.arange(count)
    rows += Rows.of(contents.kind, every, 1, -np.inf, [1] * step.holders + [step.idle])
    rows += Rows.of(np.zeros(count), every, 1, -np.inf, [step.allowed])
    found = linear_program(cost, np.full(len(cost), np.inf), rows)
    if found is None:
        return None
    dual = -found.row_dual * fine / 1e4
    value = found.cost * fine / 1e4 + float(step.first_price[~priced].sum())
    return _Master(
        price=dual[:tasks],
        rent=dual[tasks:-1] + dual[-1],
        value=value - 1e-7 * max(1.0, abs(value)),
        uncovered=float(found.x[count:].sum()),
    )


def _price(
    step: WholeStep, price: Ints, fractions: int, priced: NDArray[np.bool_]
) -> tuple[ContentPrices, _Contents]:
    """Return the bound that the prices prove, and for each node its best content.

    Idle nodes get contents with no task in common, so that one run serves them all.
    """
    held: list[Ints] = []
    kinds: list[int] = []
    best: list[int] = []
    every = np.arange(len(step.work))
    solve = knapsack.for_operations(_PRICING_OPERATIONS * len(step.work) * len(step.nodes))
    for kind in range(step.holders + (step.idle > 0)):
        loading = step.away(every, kind)
        tasks = np.flatnonzero(priced | ~loading)
        away = loading[tasks]
        worth = price[tasks] - np.where(away, step.state[tasks] * fractions, 0)
        for copy in range(step.idle if kind == step.holders else 1):
            content, value, most = solve(step.work[tasks], worth, step.capacity, _ROOM)
            if copy == 0:
                best.append(int(most))
            if value == 0:
                break
            held.append(tasks[content])
            kinds.append(kind)
            worth = np.where(content, 0, worth)
    used = sorted([*best[: step.holders], *[best[-1]] * step.idle], reverse=True)[: step.allowed]
    prices = ContentPrices(price, fractions, np.array(best), used[-1], int(price.sum()) - sum(used))
    return prices, _contents(step, held, kinds, priced)


def _contents_of(step: WholeStep, place: Ints, priced: NDArray[np.bool_]) -> _Contents:
    """Return the content of each node of a placement."""
    nodes = np.unique(place[place >= 0]).tolist()
    held = [np.flatnonzero(place == node) for node in nodes]
    return _contents(step, held, [min(node, step.holders) for node in nodes], priced)


def _contents(
    step: WholeStep, held: list[Ints], kinds: list[int], priced: NDArray[np.bool_]
) -> _Contents:
    column = np.cumsum(priced) - 1
    covers = np.zeros((len(held), int(priced.sum())), dtype=np.bool_)
    cost = np.zeros(len(held), dtype=np.int64)
    for row, (tasks, kind) in enumerate(zip(held, kinds, strict=True)):
        covers[row, column[tasks[priced[tasks]]]] = True
        away = step.state[tasks[step.away(tasks, kind)]].sum()
        cost[row] = away - step.first_price[tasks[~priced[tasks]]].sum()
    return _Contents(covers, np.array(kinds, dtype=np.int64), cost)
